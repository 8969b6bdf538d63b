/** The messages of the trace, one card each, with what stands between them. Only the cards in sight are in the page. */

import { computed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { coveredTop } from "../covered";
import { isOpened, toggle } from "../opened";
import { arrive, inspection, jumps, keyOf, problems, selected, shown } from "../state";
import { type Row, counted, number, rowKey } from "../trace";
import { MOST_PRINTED, isPrinting, useWindow } from "../use_window";
import { FilterBar } from "./filter_bar";
import { MessageCard } from "./message_card";
import { ProblemCard } from "./problem_card";
import { ProblemList } from "./problem_list";

const keys = computed(() => shown.value.map(rowKey));

export function MessagesView() {
  const list = useWindow(keys.value, (row) => estimate(shown.value[row]), coveredTop);
  useEffect(() => {
    const to = selected.value;
    const key = to === null ? null : keyOf(to);
    const row = key === null ? -1 : keys.value.indexOf(key);
    if (to === null || row === -1) return;
    const isNew = arrive();
    const focused = document.activeElement;
    list.goTo(row, (element) => {
      // The search box keeps the focus, so that Enter goes on to the next hit.
      if (to.kind !== "diagnostic") return element.querySelector("mark.current")?.scrollIntoView({ block: "nearest" });
      const problem = element.querySelector<HTMLElement>(`#problem-${to.diagnostic}`);
      problem?.scrollIntoView({ block: "nearest" });
      // Not where the reader has gone somewhere else meanwhile.
      if (isNew && document.activeElement === focused) problem?.focus({ preventScroll: true });
    });
  }, [jumps.value]);
  const found = inspection.value;
  if (found === null) return null;
  return (
    <div class="messages-view">
      <h2 class="hidden-visually">Messages</h2>
      <FilterBar />
      {found.diagnostics.length > 0 && (
        <details class="problems-fold" open={isOpened("problems")} onToggle={(event) => event.currentTarget.open !== isOpened("problems") && toggle("problems")}>
          <summary>{`List of ${counted(found.diagnostics_total, "problem")}`}</summary>
          {isOpened("problems") && <ProblemList />}
        </details>
      )}
      {shown.value.length === 0 && (
        <p class="quiet">{found.messages.length === 0 ? "The trace contains no message." : "No message matches the filters."}</p>
      )}
      <ol ref={list.listRef} class={isPrinting.value ? "rows" : "rows windowed"} style={list.listStyle} aria-label="Messages">
        {list.rows.map((at) => {
          const row = shown.value[at];
          if (row === undefined) return null;
          const key = rowKey(row);
          return (
            <li
              key={key}
              ref={list.rowRef(at)}
              style={list.rowStyle(at)}
              data-row={at}
              data-key={key}
              aria-posinset={at + 1}
              aria-setsize={shown.value.length}
            >
              <RowView row={row} />
            </li>
          );
        })}
      </ol>
      {isPrinting.value && shown.value.length > MOST_PRINTED && (
        <p>{`${number(shown.value.length - MOST_PRINTED)} more are not printed. Filter them to print others.`}</p>
      )}
    </div>
  );
}

function RowView({ row }: { row: Row }) {
  switch (row.kind) {
    case "message":
      return <MessageCard at={row.message} />;
    case "outside":
      return <Outside at={row.outside} />;
    case "turn":
      return <TurnEnd at={row.turn} />;
    case "answer":
      return <AnswerBegins token={row.token} />;
  }
}

function Outside({ at }: { at: number }) {
  const piece = inspection.value?.outside[at];
  if (piece === undefined) return null;
  return (
    <div class="outside">
      <p class="between-title">
        Outside of messages <span class="quiet">{counted(piece.tokens, "token")}</span>
      </p>
      <pre class="body-text">{piece.text}</pre>
      {(problems.value.get(`o${at}`) ?? []).map((problem) => (
        <ProblemCard key={problem} at={problem} />
      ))}
    </div>
  );
}

function TurnEnd({ at }: { at: number }) {
  const turn = inspection.value?.turns[at];
  if (turn === undefined) return null;
  return (
    <p class="between">
      <span>
        {turn.stop === null ? "The turn ends without a stop token" : "The turn ends with "}
        {turn.stop !== null && <code class="special">{`<|${turn.stop}|>`}</code>}
        {turn.hidden_because !== null && `, and there is nothing to show: ${turn.hidden_because}`}
      </span>
    </p>
  );
}

function AnswerBegins({ token }: { token: number }) {
  return (
    <div class="between answer">
      <span>
        <strong>The answer begins.</strong>
        {` The prompt has ${counted(token, "token")}; its last ones are the beginning of the next message's header.`}
      </span>
    </div>
  );
}

/** A guess, until it was measured. */
function estimate(row: Row | undefined): number {
  if (row === undefined || row.kind === "turn" || row.kind === "answer") return 44;
  if (row.kind === "outside") return 120;
  const message = inspection.value?.messages[row.message];
  const lines = Math.min(24, 1 + Math.ceil((message?.content.length ?? 0) / 100));
  return 130 + lines * 24 + (message?.faults.length ?? 0) * 220;
}
