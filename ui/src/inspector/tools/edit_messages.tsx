/** The messages of a draft, a page at a time, with what can be done to each. */

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Role } from "../../api/inspect";
import { counted, toneOf } from "../trace";
import { type Draft, conversationOf } from "./draft";
import { base, change, current, history, isBusy, opened, outcome, page } from "./edit_state";
import { MessageForm } from "./message_form";
import * as splice from "./splice";
import type { Extent, Fields } from "./splice";

const PAGE = 25;

interface Shown {
  fields: readonly Fields[];
  /** Only of a text. */
  extents: readonly Extent[] | null;
  text: string;
}

function shownOf(draft: Draft): Shown | null {
  if (draft.kind === "conversation") return { fields: draft.messages, extents: null, text: "" };
  const from = base.value;
  // Until the first answer the draft is the trace that was opened.
  const inspection = current()?.inspection ?? (from !== null && draft.text === from.text ? from.inspection : null);
  if (inspection === null) return null;
  return { fields: inspection.messages.map(splice.fieldsOf), extents: splice.extentsOf(draft.text, inspection.messages), text: draft.text };
}

export function EditMessages() {
  const draft = history.value.present;
  const last = useRef<Shown | null>(null);
  const list = useRef<HTMLOListElement>(null);
  /** Where to go when the change is counted: the message, and whether its form is opened. */
  const goal = useRef<{ row: number; isOpen: boolean } | null>(null);
  // While the server counts, the messages before the change stay, and cannot be changed.
  const now = useMemo(() => shownOf(draft), [draft, outcome.value, base.value]);
  const isReady = now !== null;
  if (now !== null) last.current = now;
  const shown = last.current;
  useLayoutEffect(() => {
    if (!isReady || goal.current === null) return;
    list.current?.querySelector<HTMLElement>(`[data-row="${goal.current.row}"] button`)?.focus();
    if (goal.current.isOpen) opened.value = goal.current.row;
    goal.current = null;
  }, [isReady, shown]);
  if (shown === null) return <p class="quiet">{isBusy.value ? "Reading the messages …" : "The messages are not known; see the error."}</p>;

  const { fields, extents, text } = shown;
  const first = Math.min(page.value, Math.max(0, fields.length - 1));
  const act = (next: Draft, row: number, isOpen = false): void => {
    if (!isReady) return;
    opened.value = null;
    goal.current = { row, isOpen };
    if (row < first || row >= first + PAGE) page.value = Math.max(0, Math.floor(row / PAGE) * PAGE);
    change(next);
  };
  const listed = (messages: Fields[]): Draft => ({ kind: "conversation", messages });
  const write = (spelled: string): Draft => ({ kind: "text", text: spelled });

  const apply = (index: number, after: Fields): void => {
    const at = extents?.[index];
    const before = fields[index];
    if (before === undefined) return;
    if (at === undefined) act(listed(fields.with(index, after)), index);
    else act(write(splice.replaceMessage(text, at, before, after)), index);
  };
  const applyAsText = (index: number, after: Fields): void => {
    const from = current()?.inspection ?? base.value?.inspection;
    if (from === undefined) return;
    act(listed(conversationOf(from).messages.with(index, after)), index);
  };
  const insert = (after: number, role: Role): void => {
    const fresh = splice.newFields(role);
    const next =
      extents === null
        ? listed(fields.toSpliced(after + 1, 0, fresh))
        : write(splice.insertMessage(text, extents, after, splice.spellMessage(fresh)));
    act(next, after + 1, true);
  };
  const duplicate = (index: number): void => {
    const copied = fields[index];
    if (copied === undefined) return;
    act(extents === null ? listed(fields.toSpliced(index, 0, copied)) : write(splice.duplicateMessage(text, extents, index)), index + 1);
  };
  const swap = (index: number, row: number): void => {
    const [one, other] = [fields[index], fields[index + 1]];
    if (one === undefined || other === undefined) return;
    act(extents === null ? listed(fields.toSpliced(index, 2, other, one)) : write(splice.swapWithNext(text, extents, index)), row);
  };
  const remove = (index: number): void => {
    const at = extents?.[index];
    act(at === undefined ? listed(fields.toSpliced(index, 1)) : write(splice.removeMessage(text, at)), Math.max(0, index - 1));
  };
  const canSwap = (index: number): boolean =>
    index >= 0 && index + 1 < fields.length && (extents === null || splice.canSwap(extents, index));

  return (
    <div aria-busy={!isReady}>
      <Pages count={fields.length} first={first} />
      <ol class="tool-messages" ref={list} start={first + 1}>
        {fields.slice(first, first + PAGE).map((message, offset) => {
          const index = first + offset;
          const isOpen = opened.value === index;
          const isWhole = extents?.[index]?.isWhole ?? true;
          const name = `message ${index + 1}`;
          return (
            <li key={index} data-row={index} class={`of-${toneOf(message)}`}>
              <div class="tool-message">
                <span class="tool-said">
                  <strong>{`${index + 1}. ${headline(message)}`}</strong> <span class="quiet">{message.content.slice(0, 90)}</span>
                </span>
                <span class="tool-bar">
                  <button type="button" aria-expanded={isOpen} aria-label={`${isOpen ? "Close" : "Edit"} ${name}`} disabled={!isWhole && !isOpen}
                    onClick={() => (opened.value = isOpen ? null : index)}>
                    {isOpen ? "Close" : "Edit"}
                  </button>
                  <button type="button" class="plain" aria-label={`Move ${name} up`} aria-disabled={!canSwap(index - 1)}
                    onClick={() => canSwap(index - 1) && swap(index - 1, index - 1)}>
                    Up
                  </button>
                  <button type="button" class="plain" aria-label={`Move ${name} down`} aria-disabled={!canSwap(index)}
                    onClick={() => canSwap(index) && swap(index, index + 1)}>
                    Down
                  </button>
                  <button type="button" class="plain" aria-label={`Duplicate ${name}`} onClick={() => duplicate(index)}>Duplicate</button>
                  <button type="button" class="plain" aria-label={`Insert a message after ${name}`} onClick={() => insert(index, "user")}>
                    Insert
                  </button>
                  <button type="button" class="plain danger" aria-label={`Delete ${name}`} onClick={() => remove(index)}>Delete</button>
                </span>
              </div>
              {isWhole ? null : <p class="quiet">Its text is not in one piece here. Edit it in the raw text.</p>}
              {isOpen ? (
                <MessageForm
                  key={index}
                  fields={message}
                  isText={extents !== null}
                  isFixed={extents?.[index]?.starts === false}
                  isReady={isReady}
                  apply={(after) => apply(index, after)}
                  applyAsText={(after) => applyAsText(index, after)}
                  close={() => {
                    opened.value = null;
                    list.current?.querySelector<HTMLElement>(`[data-row="${index}"] button`)?.focus();
                  }}
                />
              ) : null}
            </li>
          );
        })}
      </ol>
      <div class="tool-bar">
        <button type="button" onClick={() => insert(-1, "system")}>Insert at the beginning</button>
        <button type="button" onClick={() => insert(fields.length - 1, "user")}>Add at the end</button>
      </div>
    </div>
  );
}

function headline({ role, name, channel, recipient }: Fields): string {
  const parts = [role, name === null ? null : `“${name}”`, channel, recipient === null ? null : `to ${recipient}`];
  return parts.filter((part) => part !== null).join(" · ");
}

function Pages({ count, first }: { count: number; first: number }) {
  if (count <= PAGE) return <p class="quiet">{counted(count, "message")}</p>;
  const go = (to: number): void => {
    opened.value = null;
    page.value = Math.max(0, Math.min(to, Math.floor((count - 1) / PAGE) * PAGE));
  };
  return (
    <nav class="tool-bar" aria-label="Pages of messages">
      <button type="button" aria-disabled={first === 0} onClick={() => go(first - PAGE)}>Previous</button>
      <span class="quiet">{`${first + 1} to ${Math.min(first + PAGE, count)} of ${counted(count, "message")}`}</span>
      <button type="button" aria-disabled={first + PAGE >= count} onClick={() => go(first + PAGE)}>Next</button>
      <label>
        Go to{" "}
        <input class="tool-number" type="number" min={1} max={count} onChange={(event) => {
          const to = event.currentTarget.valueAsNumber;
          if (Number.isFinite(to)) go(Math.floor((to - 1) / PAGE) * PAGE);
        }} />
      </label>
    </nav>
  );
}
