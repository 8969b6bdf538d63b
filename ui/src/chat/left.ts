/**
 * Turns that were not saved yet when the page was left, kept in the tab until their chat is opened again: those that waited,
 * and the answers that were under way.
 *
 * They are also sent to the server while the page closes, but a reload may be faster than that, and long ones are not taken.
 */

import type { Turn } from "../api/chats";

const NAME = "harmonia.left.";

/** The turns by their chats, parents first. */
export function keepLeft(left: ReadonlyMap<string, readonly Turn[]>): void {
  for (const [chat, turns] of left) {
    try {
      sessionStorage.setItem(NAME + chat, JSON.stringify(turns));
    } catch {
      // Storage is switched off, or full: the server may have them.
    }
  }
}

/** The page was not left after all: it came back as it was, and saves by itself. */
export function forgetLeft(): void {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(NAME)) sessionStorage.removeItem(name);
  } catch {
    // Storage is switched off.
  }
}

/** What was left in this chat, as far as the server does not have it, or has it unfinished. It is given once. */
export function takeLeft(chat: string, turns: readonly Turn[]): Turn[] {
  try {
    const left = JSON.parse(sessionStorage.getItem(NAME + chat) ?? "[]") as Turn[];
    sessionStorage.removeItem(NAME + chat);
    const known = new Map(turns.map((turn) => [turn.id, turn]));
    return left.filter((turn) => {
      // After a turn that is gone nothing can be said.
      if (turn.parent !== null && !known.has(turn.parent)) return false;
      const theirs = known.get(turn.id);
      known.set(turn.id, turn);
      return theirs === undefined || theirs.status === "in_progress";
    });
  } catch {
    return [];
  }
}
