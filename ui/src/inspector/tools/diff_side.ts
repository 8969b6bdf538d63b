/** One side of a comparison: where a prompt comes from, and what to send for it. */

import type { WholeChat } from "../../api/chats";
import type { Inspection, InspectInput } from "../../api/inspect";
import { knownChat } from "../../chat/known";
import type { Origin } from "../state";
import { isTurnTrace } from "../trace";
import { allIds, inputOf } from "./source";

export type Side =
  | { from: "text"; text: string; name: string | null }
  /** `whole` is a turn with its answer: what an engine has read and written, and may have in its cache. */
  | { from: "current"; whole: boolean }
  | { from: "turn"; chat: string; turn: string; whole: boolean };

export const EMPTY: Side = { from: "text", text: "", name: null };

export const isGiven = (side: Side): boolean =>
  side.from === "text" ? side.text.trim() !== "" : side.from === "current" || (side.chat !== "" && side.turn !== "");

/** The prompt of a turn, which stands before its answer; or both. */
export function promptOf(found: Inspection, whole: boolean): InspectInput | null {
  const ids = allIds(found);
  return ids === null ? null : { tokens: isTurnTrace(found) && !whole ? ids.slice(0, found.prompt_tokens) : ids };
}

export class NothingToCompare extends Error {}

export async function sideInput(
  side: Side,
  open: { inspection: Inspection | null; origin: Origin; input: InspectInput },
  loadTurn: (chat: string, turn: string) => Promise<Inspection>,
): Promise<InspectInput> {
  if (side.from === "text") return { text: side.text };
  const found = side.from === "turn" ? await loadTurn(side.chat, side.turn) : open.inspection;
  if (found === null) throw new NothingToCompare("Nothing is open in the inspector.");
  const input = isTurnTrace(found) ? promptOf(found, side.whole) : inputOf(found, open.origin, open.input);
  if (input === null) throw new NothingToCompare("The server did not send the tokens of that trace.");
  return input;
}

export interface TurnChoice {
  turn: string;
  label: string;
}

/** The answers of the branch that is shown, oldest first; each has a prompt. */
export function answersOf(chat: WholeChat, leaf: string | null = chat.leaf): TurnChoice[] {
  const byId = new Map(chat.turns.map((turn) => [turn.id, turn]));
  const choices: TurnChoice[] = [];
  const seen = new Set<string>();
  let at = leaf === null ? undefined : byId.get(leaf);
  while (at !== undefined && !seen.has(at.id)) {
    seen.add(at.id);
    if (at.role === "assistant") choices.unshift({ turn: at.id, label: "" });
    at = at.parent === null ? undefined : byId.get(at.parent);
  }
  return choices.map((choice, index) => ({ ...choice, label: `Answer ${index + 1}` }));
}

/** The answer before this one; null where it is the first. */
export async function answerBefore(chat: string, turn: string): Promise<string | null> {
  const answers = answersOf(await knownChat(chat), turn);
  return answers.at(-2)?.turn ?? null;
}
