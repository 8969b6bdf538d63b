/** A tool call: what was called with what, how far it is, whether the arguments fit, and what came back. */

import { useMemo, useState } from "preact/hooks";
import { serverInfo } from "../../api/server";
import { JsonText } from "../../markdown/json_text";
import { ToolIcon } from "../../parts/icons";
import type { LiveItem } from "../answer";
import { checkArguments } from "../schema_check";
import { settings } from "../session";
import { Accordion } from "./accordion";
import { CopyButton } from "./copy_button";
import { callWords, checkWords, decidedWords, isJson, madeWords, schemaOf } from "./tool_words";
import { inNumber, inSeconds } from "./words";

const SHOWN_CHARS = 4000;

/** `approval` is what the call was before the person allowed it; both are one card. */
export function ToolCall({ item, approval = null }: { item: LiveItem; approval?: LiveItem | null }) {
  return (
    <Accordion class="accordion of-tool" summary={<Summary item={item} approval={approval} />}>
      {() => (
        <>
          {approval !== null && approval.text.value !== item.text.value ? (
            <>
              <Arguments item={approval} title="Asked for" />
              <Arguments item={item} title="Run with" />
            </>
          ) : (
            <Arguments item={item} />
          )}
          <Result item={item} />
        </>
      )}
    </Accordion>
  );
}

function Summary({ item, approval }: { item: LiveItem; approval: LiveItem | null }) {
  const seconds = item.seconds.value;
  const words = madeWords(approval === null ? null : decidedWords(approval.decided.value), wordsOf(item));
  return (
    <>
      <ToolIcon />
      <span class="accordion-title">
        <code>{item.tool ?? "a tool"}</code>
        <span class="accordion-source">{item.server === null ? "your function" : `from ${item.server}`}</span>
      </span>
      <span class={`accordion-state ${/failed|refused/.test(words) ? "is-bad" : ""}`}>
        {words}
        {seconds !== null && item.server !== null && item.kind === "call" && `, ${inSeconds(seconds)}`}
      </span>
    </>
  );
}

function wordsOf(item: LiveItem): string {
  if (item.kind === "approval") return decidedWords(item.decided.value);
  return callWords({ state: item.state.value, isWriting: item.isWriting.value, result: item.result.value });
}

/** The arguments, pretty; raw on request; and whether they fit. */
export function Arguments({ item, title = "Arguments" }: { item: LiveItem; title?: string }) {
  const [isRaw, setRaw] = useState(false);
  const text = item.text.value;
  const isWriting = item.isWriting.value;
  return (
    <section class="call-part">
      <header>
        <h3>{title}</h3>
        <label class="quiet check">
          <input type="checkbox" checked={isRaw} onChange={(event) => setRaw(event.currentTarget.checked)} />
          Raw
        </label>
        <CopyButton text={() => item.text.peek()} label="Copy the arguments" />
      </header>
      {isRaw ? <pre class="plain-text" tabIndex={0}>{text}</pre> : <JsonText text={text} isLive={isWriting} />}
      {!isWriting && <SchemaVerdict text={text} server={item.server} tool={item.tool ?? ""} />}
    </section>
  );
}

interface VerdictProps {
  text: string;
  server: string | null;
  tool: string;
}

export function SchemaVerdict({ text, server, tool }: VerdictProps) {
  const schema = schemaOf(serverInfo.value, settings.value.functions, server, tool);
  const check = useMemo(() => checkArguments(text, schema), [text, schema]);
  return (
    <div class={`schema-check is-${check.verdict}`}>
      {schema === undefined && check.verdict !== "misfits" ? (
        <p>Not checked: the schema of this tool is not known here.</p>
      ) : (
        <p>{checkWords(check)}</p>
      )}
      {check.problems.length > 0 && (
        <ul>
          {check.problems.map((problem) => (
            <li key={problem.path + problem.message}>
              {problem.path !== "" && <code>{problem.path}</code>} {problem.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Result({ item }: { item: LiveItem }) {
  const [isAll, setAll] = useState(false);
  const decided = item.decided.value;
  const result = item.result.value;
  if (item.kind === "approval") {
    if (decided === null || decided.text === null || decided.text === "") return null;
    const title = { approved: "", edited: "Your arguments", answered: "Your answer", refused: "Your reason" }[decided.kind];
    return <ResultText title={title} text={decided.text} isAll={isAll} onAll={() => setAll(true)} />;
  }
  if (result === null) return null;
  const title = result.failed ? "Error" : result.by === "person" ? "Your answer" : "Result";
  return <ResultText title={title} text={result.text} isAll={isAll} onAll={() => setAll(true)} />;
}

interface ResultProps {
  title: string;
  text: string;
  isAll: boolean;
  onAll: () => void;
}

function ResultText({ title, text, isAll, onAll }: ResultProps) {
  const isCut = !isAll && text.length > SHOWN_CHARS;
  const shown = isCut ? text.slice(0, SHOWN_CHARS) : text;
  // Half a JSON would not be read as one.
  const asJson = useMemo(() => !isCut && isJson(shown), [isCut, shown]);
  return (
    <section class="call-part">
      <header>
        <h3>{title}</h3>
        <CopyButton text={() => text} label="Copy" />
      </header>
      {text === "" && <p class="quiet">Nothing came back.</p>}
      {text !== "" && (asJson ? <JsonText text={shown} isLive={false} /> : <pre class="plain-text" tabIndex={0}>{shown}</pre>)}
      {isCut && (
        <button type="button" class="small" onClick={onAll}>{`Show all ${inNumber(text.length)} characters`}</button>
      )}
    </section>
  );
}
