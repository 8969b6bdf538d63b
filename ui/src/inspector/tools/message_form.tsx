/** The fields of one message. A body that spells a control token is not taken without asking what is meant. */

import { useSignal } from "@preact/signals";
import type { Role } from "../../api/inspect";
import { findSpellings } from "./spellings";
import { type Fields, newFields, type StopWord } from "./splice";

const ROLES: Role[] = ["system", "developer", "user", "assistant", "tool"];
const STOPS: [StopWord | "", string][] = [
  ["end", "<|end|>"],
  ["call", "<|call|>"],
  ["return", "<|return|>"],
  ["", "none: it is cut off"],
];

interface Props {
  fields: Fields;
  /** Whether the trace is edited as a text, in which spellings become control tokens. */
  isText: boolean;
  /** Whether it continues after `<|start|>assistant`, so that its author is fixed. */
  isFixed: boolean;
  isReady: boolean;
  apply: (after: Fields) => void;
  applyAsText: (after: Fields) => void;
  close: () => void;
}

export function MessageForm({ fields, isText, isFixed, isReady, apply, applyAsText, close }: Props) {
  const edited = useSignal(fields);
  const now = edited.value;
  const set = (change: Partial<Fields>): void => void (edited.value = { ...edited.value, ...change });
  const words = (key: "name" | "channel" | "recipient" | "content_type", label: string, disabled = false) => (
    <label class="tool-field">
      {label}
      <input value={now[key] ?? ""} disabled={disabled} spellcheck={false} autocomplete="off" list={key === "channel" ? "edit-channels" : undefined}
        onInput={(event) => set({ [key]: event.currentTarget.value.trim() === "" ? null : event.currentTarget.value })} />
    </label>
  );
  const spelled = isText ? findSpellings(now.content, 20) : [];
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isReady) apply(edited.value);
  };
  return (
    <form class="tool-form" onSubmit={submit} onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), close())}>
      <div class="tool-fields">
        <label class="tool-field">
          Role
          <select value={now.role} disabled={isFixed} onChange={(event) => {
            const role = event.currentTarget.value as Role;
            const { name, channel, recipient } = newFields(role);
            set({ role, name, channel: channel ?? edited.value.channel, recipient: recipient ?? edited.value.recipient });
          }}>
            {ROLES.map((role) => <option key={role}>{role}</option>)}
          </select>
        </label>
        {words("name", "Name", isFixed)}
        {words("channel", "Channel")}
        {words("recipient", "Recipient")}
        {words("content_type", "Content type")}
        {isText ? (
          <label class="tool-field">
            Stop
            <select value={now.stop ?? ""} onChange={(event) => set({ stop: (event.currentTarget.value || null) as StopWord | null })}>
              {STOPS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
            </select>
          </label>
        ) : null}
        <datalist id="edit-channels">
          {["analysis", "commentary", "final"].map((channel) => <option key={channel} value={channel} />)}
        </datalist>
      </div>
      <label class="tool-field">
        Body
        <textarea rows={Math.min(14, Math.max(3, now.content.split("\n", 14).length + 1))} spellcheck={false} value={now.content}
          onInput={(event) => set({ content: event.currentTarget.value })} />
      </label>
      {spelled.length > 0 ? (
        <div class="tool-note" role="status">
          <p>
            <strong>The body spells {[...new Set(spelled.map(({ text }) => text))].map((text) => <code key={text}>{text} </code>)}</strong>
            In a text this would become a control token; in a conversation it stays text.
          </p>
          <div class="tool-bar">
            <button type="button" class="main" aria-disabled={!isReady} onClick={() => isReady && applyAsText(edited.value)}>Keep it as text</button>
            <button type="submit" aria-disabled={!isReady}>Make it a control token</button>
            <button type="button" class="plain" onClick={close}>Cancel</button>
          </div>
        </div>
      ) : (
        <div class="tool-bar">
          <button type="submit" class="main" aria-disabled={!isReady}>Apply</button>
          <button type="button" class="plain" onClick={close}>Cancel</button>
        </div>
      )}
    </form>
  );
}
