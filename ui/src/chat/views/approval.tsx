/**
 * A call that waits for the person: a tool of the server's that wants leave, or a function of the person's own.
 *
 * The card takes the focus when it appears, unless the person is typing somewhere.
 */

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { serverInfo } from "../../api/server";
import { JsonText } from "../../markdown/json_text";
import { ToolIcon } from "../../parts/icons";
import type { LiveItem } from "../answer";
import { answerCall, type Choice, decide, running } from "../session";
import { SchemaVerdict } from "./tool_call";
import { jsonFault, pretty, toolOf } from "./tool_words";

type Way = "choose" | "refuse" | "edit" | "answer";

export function Approval({ item }: { item: LiveItem }) {
  const isOwn = item.kind === "call";
  const [way, setWay] = useState<Way>(isOwn ? "answer" : "choose");
  const [isSent, setSent] = useState(false);
  const card = useRef<HTMLElement>(null);
  const titleId = useId();
  useEffect(() => {
    const active = document.activeElement;
    const isTyping = active instanceof HTMLTextAreaElement ? active.value !== "" : active instanceof HTMLInputElement;
    if (!isTyping) card.current?.focus({ preventScroll: true });
  }, []);
  const tool = item.server === null ? null : toolOf(serverInfo.value, item.server, item.tool ?? "");
  // Others at the end of the same answer may still be undecided, so that this may be taken back by an error.
  const send = async (deed: Promise<void>): Promise<void> => {
    setSent(true);
    await deed;
    setSent(false);
  };
  const choose = (choice: Choice): void => void send(decide(item.id ?? "", choice));
  const answer = (output: string): void => {
    if (isOwn) void send(answerCall(item.callId ?? "", output));
    else choose({ kind: "answer", output });
  };
  const refuse = (reason: string): void => choose(reason.trim() === "" ? { kind: "refuse" } : { kind: "refuse", reason });
  const isBusy = isSent || running.value !== null;
  return (
    <section class="approval" ref={card} role="group" tabIndex={-1} aria-labelledby={titleId}>
      <h3 id={titleId}>
        <ToolIcon />
        <span>
          {isOwn ? "The model calls your function " : "The model wants to run "}
          <code>{item.tool}</code>
          {!isOwn && item.server !== null && ` from ${item.server}`}
        </span>
      </h3>
      {tool?.description && <p class="quiet">{tool.description}</p>}
      {way !== "edit" && (
        <>
          <JsonText text={item.text.value} isLive={false} />
          <SchemaVerdict text={item.text.value} server={item.server} tool={item.tool ?? ""} />
        </>
      )}
      {way === "choose" && (
        <div class="choices" role="group" aria-label="What to do with this call">
          <button type="button" class="main" disabled={isBusy} onClick={() => choose({ kind: "once" })}>Run once</button>
          <button type="button" disabled={isBusy} onClick={() => choose({ kind: "always" })}>Always run in this chat</button>
          <button type="button" disabled={isBusy} onClick={() => setWay("edit")}>Edit the arguments</button>
          <button type="button" disabled={isBusy} onClick={() => setWay("answer")}>Answer by hand</button>
          <button type="button" class="danger" disabled={isBusy} onClick={() => setWay("refuse")}>Refuse</button>
        </div>
      )}
      {way === "refuse" && (
        <Reply label="Reason, if you want to give one; the model reads it" act="Refuse" isBusy={isBusy} rows={2}
          onBack={() => setWay("choose")} onSend={refuse} />
      )}
      {way === "answer" && (
        <Reply label="Your answer, instead of the tool's" act="Send the answer" isBusy={isBusy} rows={3}
          onBack={isOwn ? null : () => setWay("choose")} onSend={answer} />
      )}
      {way === "edit" && (
        <Reply label="Arguments" act="Run with these arguments" isBusy={isBusy} rows={6} isJson start={pretty(item.text.value)}
          server={item.server} tool={item.tool ?? ""} onBack={() => setWay("choose")}
          onSend={(text) => choose({ kind: "edit", arguments: text })} />
      )}
    </section>
  );
}

interface ReplyProps {
  label: string;
  act: string;
  isBusy: boolean;
  rows: number;
  isJson?: boolean;
  start?: string;
  server?: string | null;
  tool?: string;
  onBack: (() => void) | null;
  onSend: (text: string) => void;
}

function Reply({ label, act, isBusy, rows, isJson = false, start = "", server = null, tool = "", onBack, onSend }: ReplyProps) {
  const [text, setText] = useState(start);
  const box = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    // Somebody pressed a button to come here; a function's card appears by itself and takes the focus by its own rule.
    if (onBack !== null) box.current?.focus();
  }, []);
  const fault = isJson ? jsonFault(text) : null;
  return (
    <form class="reply" onSubmit={(event) => { event.preventDefault(); if (fault === null) onSend(text); }}>
      <label for={id}>{label}</label>
      <textarea id={id} ref={box} rows={rows} value={text} class={isJson ? "code" : ""} spellcheck={!isJson}
        aria-invalid={fault !== null} aria-describedby={fault === null ? undefined : `${id}-fault`}
        onInput={(event) => setText(event.currentTarget.value)} />
      {fault !== null && <p id={`${id}-fault`} class="fault">{fault}</p>}
      {isJson && fault === null && <SchemaVerdict text={text} server={server} tool={tool} />}
      <div class="choices">
        <button type="submit" class="main" disabled={isBusy || fault !== null}>{act}</button>
        {onBack !== null && <button type="button" onClick={onBack}>Back</button>}
      </div>
    </form>
  );
}
