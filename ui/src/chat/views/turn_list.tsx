/**
 * The conversation, the newest at the bottom. A turn is made again only when it, or the one after it, is another; an
 * answer that is being streamed changes inside its own turn.
 */

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Turn } from "../../api/chats";
import { DownIcon } from "../../parts/icons";
import { isOnlyAnswers } from "../answer";
import { markWords, removeMarks, searchTarget } from "../search_target";
import { branch, chat, regenerate, running } from "../session";
import { AssistantTurn } from "./assistant_turn";
import { keepFocus } from "./focus";
import { lastSwitch, Stick } from "./stick";
import { UserTurn } from "./user_turn";

/** The turn that the address names, which is shown instead of the end. */
export function TurnList({ wanted }: { wanted: string | null }) {
  const stick = useMemo(() => new Stick(), []);
  const scroller = useRef<HTMLDivElement>(null);
  const column = useRef<HTMLDivElement>(null);
  const turns = branch.value;
  const chatId = chat.value?.id ?? null;
  useLayoutEffect(() => {
    if (scroller.current === null || column.current === null) return;
    return stick.watch(scroller.current, column.current);
  }, [stick]);
  useLayoutEffect(() => {
    if (wanted !== null && wanted === lastSwitch.to) return; // it is in view already
    const aim = wanted === null ? null : drawnTurn(turns, wanted);
    if (aim === null) return stick.toEnd();
    stick.release();
    aim.scrollIntoView({ block: "start" });
  }, [chatId, wanted, turns.length === 0]);
  const found = searchTarget.value;
  useLayoutEffect(() => {
    const place = scroller.current;
    if (found === null || found.turn !== wanted || place === null || turns.length === 0) return;
    const look = (): void => {
      const aim = drawnTurn(branch.peek(), found.turn);
      if (aim === null) return;
      stick.release();
      markWords(aim, found.query);
    };
    look();
    // Rich text replaces the plain text that is drawn first, so mark again when it does, until the person scrolls or types.
    const drawn = new MutationObserver(look);
    drawn.observe(place, { childList: true, subtree: true, characterData: true });
    const end = (): void => drawn.disconnect();
    const signs = ["wheel", "touchmove", "pointerdown", "keydown"] as const;
    for (const sign of signs) addEventListener(sign, end, { passive: true, capture: true });
    return () => {
      end();
      for (const sign of signs) removeEventListener(sign, end, { capture: true });
      removeMarks();
    };
  }, [found, chatId, wanted, turns.length === 0]);
  // Whoever asks something wants to see what comes of it.
  const asked = running.value?.turn ?? null;
  useEffect(() => {
    if (asked === null) return;
    stick.toEnd();
    keepFocus(); // the button that asked may be gone
  }, [asked]);
  return (
    <div class="chat-turns">
      <div class="chat-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Conversation">
        <div class="turns" ref={column} tabIndex={-1}>
          {turns.map((turn, at) => (
            <OneTurn key={turn.id} turn={turn} next={turns[at + 1] ?? null} before={turns[at - 1] ?? null}
              asking={turns[at - 2] ?? null} after={turns[at + 2] ?? null} afterNext={turns[at + 3] ?? null} />
          ))}
          <Unanswered last={turns.at(-1) ?? null} />
        </div>
      </div>
      <JumpButton stick={stick} />
    </div>
  );
}

/** The element that shows a turn. Answers to calls are shown with the assistant turn before them. */
function drawnTurn(turns: readonly Turn[], id: string): HTMLElement | null {
  const before = turns[turns.findIndex((turn) => turn.id === id) - 1];
  return document.getElementById(id) ?? (before === undefined ? null : document.getElementById(before.id));
}

interface OneProps {
  turn: Turn;
  next: Turn | null;
  before: Turn | null;
  /** Two before it, and two and three after it: where an answer waited for the person, and where it goes on. */
  asking: Turn | null;
  after: Turn | null;
  afterNext: Turn | null;
}

function OneTurn({ turn, next, before, asking, after, afterNext }: OneProps) {
  const isContinued = turn.role === "assistant" && before !== null && isOnlyAnswers(before);
  // An answer is shown with the answers to its calls, and with the calls that were made of its questions.
  const answers = answersOnly(next);
  const goesOn = answers !== null && after?.role === "assistant" ? after : null;
  const goesOnNext = goesOn === null ? null : answersOnly(afterNext);
  const from = isContinued ? asking : null;
  return useMemo(() => {
    if (turn.role === "assistant") return <AssistantTurn turn={turn} next={answers} from={from} goesOn={goesOn} goesOnNext={goesOnNext} />;
    return isOnlyAnswers(turn) ? null : <UserTurn turn={turn} />;
  }, [turn, answers, from, goesOn, goesOnNext]);
}

const answersOnly = (turn: Turn | null): Turn | null => (turn !== null && isOnlyAnswers(turn) ? turn : null);

/** A question at the end of the branch whose answer was deleted, or never came. */
function Unanswered({ last }: { last: Turn | null }) {
  if (last === null || last.role !== "user" || last.status !== "completed" || running.value !== null) return null;
  return (
    <p class="turn-state">
      <span>There is no answer to this yet.</span>
      <button type="button" class="small" onClick={() => void regenerate(last.id)}>
        Ask the model
      </button>
    </p>
  );
}

function JumpButton({ stick }: { stick: Stick }) {
  if (stick.isAtEnd.value) return null;
  return (
    <button type="button" class="jump" onClick={() => stick.toEnd()}>
      <DownIcon />
      Jump to the latest
    </button>
  );
}
