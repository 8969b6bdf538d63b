/**
 * An answer that was under way when its page was left, kept in the tab until the chat is opened again.
 *
 * It is also sent to the server while the page closes, but a reload may be faster than that, and long answers are not taken.
 */

import type { Turn } from "../api/chats";

const NAME = "harmonia.left.";

export function keepLeft(chat: string, turn: Turn): void {
  try {
    sessionStorage.setItem(NAME + chat, JSON.stringify(turn));
  } catch {
    // Storage is switched off, or full: the server may have it.
  }
}

/** The turn that was left in this chat, if the server's version of it is still the unfinished one. It is given once. */
export function takeLeft(chat: string, turns: readonly Turn[]): Turn | null {
  try {
    const left = JSON.parse(sessionStorage.getItem(NAME + chat) ?? "null") as Turn | null;
    if (left === null) return null;
    sessionStorage.removeItem(NAME + chat);
    return turns.some((turn) => turn.id === left.id && turn.status === "in_progress") ? left : null;
  } catch {
    return null;
  }
}
