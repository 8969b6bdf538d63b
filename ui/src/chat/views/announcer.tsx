/** Says once that an answer is finished, to those who hear the page. Nothing is said while it is being written. */

import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { itemsOf } from "../answer";
import { branch, running } from "../session";
import { plainWords } from "./plain_words";
import { beginning } from "./words";

/** Enough of an answer to find its first words in, after a long piece of code perhaps. */
const MOST_READ = 4000;

const said = signal("");

export function Announcer() {
  useEffect(() => {
    let asked: string | null = null;
    return effect(() => {
      const now = running.value?.turn ?? null;
      if (now === null && asked !== null) said.value = announcement(asked);
      else if (now !== asked) said.value = "";
      asked = now;
    });
  }, []);
  return (
    <p class="hidden-visually" role="status">
      {said.value}
    </p>
  );
}

/** Of the turn at the end of what is shown; failures are told as alerts. */
function announcement(id: string): string {
  const turn = branch.peek().find((each) => each.id === id);
  if (turn === undefined || turn.status === "failed") return "";
  const items = itemsOf(turn);
  const waits = items.some((item) => item.state.peek() === "waiting");
  const text = items.filter((item) => item.kind === "final").map((item) => item.text.peek()).join(" ");
  const end = { cancelled: "stopped", incomplete: "cut off", completed: "finished", in_progress: "not finished" }[turn.status];
  return waits ? "The model waits for your decision about a tool call." : `Answer ${end}. ${beginning(plainWords(text.slice(0, MOST_READ)), 200)}`.trim();
}
