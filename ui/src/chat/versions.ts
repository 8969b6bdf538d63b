/** Turns that are made here: new ones, and other versions of old ones. Pure but for chance and the date. */

import type { Turn } from "../api/chats";
import type { Item } from "../api/wire";
import { sameContent, sendable, textOf, typedIn, userItem, withoutSeal, withText } from "./items";
import { childrenOf, type Tree } from "./tree";

export const nowSeconds = (): number => Math.floor(Date.now() / 1000);

/** A turn for this place in the tree. Siblings are in the order of their seconds, so that no two may have the same. */
export function newTurn(tree: Tree, parent: string | null, made: Pick<Turn, "role" | "items" | "status"> & { details?: Turn["details"] }): Turn {
  const letters = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const newest = Math.max(0, ...childrenOf(tree, parent).map((turn) => turn.created_at));
  return { id: `turn_${letters}`, parent, created_at: Math.max(nowSeconds(), Math.floor(newest) + 1), details: {}, ...made };
}

/** What a person said, in other words. Files, and answers to calls, stay. */
export function editedQuestion(turn: Turn, edited: string | readonly Item[]): Item[] {
  if (typeof edited !== "string") return [...edited];
  return [...turn.items.filter((item) => item.type !== "message"), userItem(edited, typedIn(turn).files)];
}

/** What the model said, in other words: items that were changed lose their seals, which have the old words. */
export function editedAnswer(turn: Turn, edited: string | readonly Item[]): Item[] {
  const items = typeof edited === "string" ? withLastText(turn.items, edited) : edited;
  return items.map((item, at) => {
    const old = turn.items[at];
    return old !== undefined && sameContent(old, item) ? item : { ...withoutSeal(item), id: null };
  });
}

function withLastText(items: readonly Item[], text: string): Item[] {
  const at = items.findLastIndex((item) => item.type === "message");
  if (at < 0) return [...items, { type: "message", role: "assistant", phase: "final_answer", content: [{ type: "output_text", text, annotations: [] }] }];
  return items.map((item, index) => (index === at && textOf(item) !== text ? withText(item, text) : item));
}

/** An answer as it is gone on with: what was stored as running is unfinished, and calls that were not made are left out. */
export function toContinue(turn: Turn): Turn {
  const items = sendable(turn).map((item) => (item.status === "in_progress" ? ({ ...item, status: "incomplete" } as Item) : item));
  return { ...turn, items };
}
