/** An answer: reasoning, notes, calls and the final text in the order in which they came, and what became of it. */

import { useMemo, useState } from "preact/hooks";
import type { Turn } from "../../api/chats";
import { Markdown } from "../../markdown/markdown";
import { NoteIcon } from "../../parts/icons";
import { itemsOf, type LiveAnswer, type LiveItem } from "../answer";
import { legsTo } from "../decisions";
import { branch, editTurn, running, waitingFor } from "../session";
import { Accordion } from "./accordion";
import { Approval } from "./approval";
import { EditBox } from "./edit_box";
import { editablePlaces, rewritten } from "./edited";
import { focusInTurn, keepFocus } from "./focus";
import { Reasoning } from "./reasoning";
import { madeOf, requestOf, requestsIn } from "./made_calls";
import { ToolCall } from "./tool_call";
import { EDIT_ANSWER, TurnRow, Walker } from "./turn_row";
import { TurnState } from "./turn_state";
import { inNumber, inSeconds, inTokens } from "./words";

interface Props {
  turn: Turn;
  /** The turn after it, which has the answers to its calls. */
  next: Turn | null;
  /** The answer that waited for the person and goes on here: then this is not a new voice. */
  from: Turn | null;
  /** Where it goes on itself, and the answers to that: the two are shown as one answer, with one row of actions. */
  goesOn: Turn | null;
  goesOnNext: Turn | null;
}

export function AssistantTurn({ turn, next, from, goesOn, goesOnNext }: Props) {
  const [isEditing, setEditing] = useState(false);
  const isContinued = from !== null;
  const live = running.value?.turn === turn.id ? running.value : null;
  const isLive = live !== null;
  const stored = useMemo(() => (isLive ? [] : itemsOf(turn, next)), [turn, next, isLive]);
  const items = live?.items.value ?? stored;
  // A call that was asked for is one card: where it was asked, and not once more where it was made.
  const asked = useMemo(() => requestsIn(from), [from]);
  const shown = asked.size === 0 ? items : items.filter((item) => !asked.has(requestOf(item) ?? ""));
  const later = running.value !== null && running.value.turn === goesOn?.id ? running.value.items.value : goesOn === null ? [] : itemsOf(goesOn, goesOnNext);
  const stopEditing = (): void => {
    setEditing(false);
    focusInTurn(turn.id, EDIT_ANSWER);
  };
  return (
    <article class={`turn from-assistant ${isContinued ? "is-continued" : ""}`} id={turn.id} aria-label="Answer"
      aria-busy={isLive}>
      <h2 class="hidden-visually">{isContinued ? "Answer, continued" : "Answer"}</h2>
      {isEditing && !isLive ? (
        <AnswerEditor turn={turn} onDone={stopEditing} />
      ) : (
        // By position and kind: the items of the stream and those that are kept afterwards are shown by the same parts,
        // so that nothing flickers, and what was opened stays open.
        shown.map((item) => <ItemView key={`${item.index} ${item.kind}`} item={item} made={madeOf(item, later)} />)
      )}
      {live !== null && <Progress answer={live} isEmpty={items.every((item) => item.kind === "listing")} />}
      {!isLive && !isEditing && (
        <>
          <TurnState turn={turn} />
          {goesOn === null ? <TurnRow turn={turn} copyText={() => finalText(items)} onEdit={() => setEditing(true)} /> : <Walker turn={turn} />}
        </>
      )}
    </article>
  );
}

function Progress({ answer, isEmpty }: { answer: LiveAnswer; isEmpty: boolean }) {
  const state = answer.state.value;
  if (state === "ended") return null;
  const speed = answer.tokensPerSecond.value;
  const { count: last, estimated } = answer.tokens.value;
  const earlier = legsTo(branch.value, answer.turn).slice(0, -1);
  const count = earlier.reduce((sum, leg) => sum + (leg.details.usage?.output_tokens ?? 0), last);
  return (
    <p class="progress quiet">
      <span class="pulse" aria-hidden="true" />
      {isEmpty
        ? `Waiting for the first token, ${inSeconds(answer.seconds.value)}`
        : `${estimated ? "about " : ""}${inTokens(count)}${speed === null ? "" : `, ${inNumber(speed)} tokens/s`}`}
    </p>
  );
}

/** The text that matters: the final one, or where there is none what else was said. */
export function finalText(items: readonly LiveItem[]): string {
  const textsOf = (kind: LiveItem["kind"]): string[] => items.filter((item) => item.kind === kind).map((item) => item.text.peek());
  return textsOf("final").join("\n\n") || textsOf("preamble").join("\n\n");
}

/** `made` is the call that an approval became. */
function ItemView({ item, made }: { item: LiveItem; made: LiveItem | null }) {
  switch (item.kind) {
    case "reasoning":
      return <Reasoning item={item} />;
    case "preamble":
      return (
        <div class="note of-commentary">
          <p class="note-word">
            <NoteIcon />
            Note
          </p>
          <ItemText item={item} />
        </div>
      );
    case "final":
      return <ItemText item={item} />;
    case "call":
    case "approval":
      return isAsked(item) ? <Approval item={item} /> : <ToolCall item={made ?? item} approval={made === null ? null : item} />;
    case "listing":
      return null; // the settings of the chat show the tools
    case "other":
      return (
        <Accordion class="accordion" summary={<span class="accordion-title">{`Another item: ${item.raw().type}`}</span>}>
          {() => <pre class="plain-text" tabIndex={0}>{JSON.stringify(item.raw(), null, 2)}</pre>}
        </Accordion>
      );
  }
}

/** Whether it is the person's turn to say something to it: a call of an old branch that nobody answered is history. */
function isAsked(item: LiveItem): boolean {
  if (item.state.value !== "waiting") return false;
  const { approvals, calls } = waitingFor.value;
  return item.kind === "approval" ? approvals.includes(item.id ?? "") : calls.includes(item.callId ?? "");
}

function ItemText({ item }: { item: LiveItem }) {
  return <Markdown text={item.text.value} isLive={item.state.value === "running"} annotations={item.annotations.value} />;
}

function AnswerEditor({ turn, onDone }: { turn: Turn; onDone: () => void }) {
  const places = editablePlaces(turn.items);
  if (places.length === 0) {
    return (
      <p class="quiet">
        There is no text to edit in this answer. <button type="button" class="small" onClick={onDone}>Back</button>
      </p>
    );
  }
  return (
    <EditBox label="Answer" texts={places.map((place) => place.text)} labels={places.map((place) => place.label)}
      focusAt={Math.max(0, places.findLastIndex((place) => place.label === "Answer"))} act="Save as a new version" hint="Keeps the old version; switch with ‹ 1 of 2 ›." onCancel={onDone}
      onSave={(texts) => {
        onDone();
        const changed = new Map(places.map((place, at) => [place.at, texts[at] ?? ""]));
        void editTurn(turn.id, rewritten(turn.items, changed)).then(keepFocus);
      }} />
  );
}
