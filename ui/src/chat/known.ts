/** A chat as this page knows it: what the server has, and what was said here since, which may still be on its way there. */

import { loadChat, type WholeChat } from "../api/chats";
import { saver } from "./state";
import { put, remove, treeOf } from "./tree";

export async function knownChat(id: string): Promise<WholeChat> {
  // What is unsaved now may be saved when the answer comes, which may be older all the same.
  const before = saver.unsaved(id);
  const found = await loadChat(id);
  const after = saver.unsaved(id);
  const whole = [...before.turns, ...after.turns].reduce(put, treeOf(found.turns));
  const { turns } = [...before.deleted, ...after.deleted].reduce(remove, whole);
  return { ...found, ...before.change, ...after.change, turns: [...turns.values()] };
}
