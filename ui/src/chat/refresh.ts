/**
 * The open chat as the server has it now: another tab, or another device, may have changed it.
 *
 * 1. Nothing of this tab is lost: while it answers or saves nothing is looked at, and what is the same stays the same
 *    object, so that what is open stays open.
 * 2. Where somebody continued after the turn that is shown, their turns are shown. Another branch is only there to be walked.
 */

import { batch } from "@preact/signals";
import { listChats, loadChat, type ListedChat, type Turn } from "../api/chats";
import { branch, chat, isBusy, leaf, saving, settings, tree } from "./state";
import { pathTo, treeOf, type Tree } from "./tree";

/** A tab that heard from the server a moment ago need not ask again before it sends. */
const FRESH_MS = 10_000;
const LISTED = 40;

/** When the server was last heard about a chat, and when that said it was changed, in its own seconds. */
let heard = { chat: "", at: 0, updated: 0 };

export function noteHeard(id: string, updated: number | null = null): void {
  heard = { chat: id, at: Date.now(), updated: updated ?? (heard.chat === id ? heard.updated : 0) };
}

export const isHeard = (id: string): boolean => heard.chat === id && Date.now() - heard.at < FRESH_MS;

/** Before something is said: whether somebody else said something at this place. */
export async function isChangedElsewhere(): Promise<boolean> {
  const id = chat.value?.id;
  const before = branch.value.length;
  try {
    const { data } = await listChats({ limit: LISTED });
    const row = data.find((each) => each.id === id);
    if (row !== undefined && isGrown(row)) await refreshChat(row);
    else if (id !== undefined) noteHeard(id);
  } catch {
    return false; // whatever is wrong is told when the message is sent
  }
  return chat.value?.id === id && branch.value.length > before;
}

/** Take over what changed. `row` is the chat as a list has it; without one it did not change lately. */
export async function refreshChat(row: ListedChat | undefined): Promise<void> {
  const id = chat.value?.id;
  if (id === undefined || !isQuiet()) return;
  if (row === undefined || row.id !== id || !isNewer(row)) return noteHeard(id);
  const { turns, ...found } = await loadChat(id);
  if (chat.value?.id !== id || !isQuiet()) return;
  noteHeard(id, found.updated_at);
  const whole = treeOf(turns.map(kept));
  batch(() => {
    const shown = leafIn(whole, found.leaf);
    tree.value = whole;
    leaf.value = shown;
    chat.value = { ...found, leaf: shown };
    settings.value = found.settings;
  });
}

const isQuiet = (): boolean => !isBusy() && saving.value === "saved";

/** What this tab saved itself makes a chat newer, too: then it is read once in vain. */
function isNewer(row: ListedChat): boolean {
  return heard.chat !== row.id || row.updated_at > heard.updated || row.title !== chat.value?.title || isGrown(row);
}

const isGrown = (row: ListedChat): boolean => row.turns !== tree.value.turns.size || row.leaf !== leaf.value;

function kept(turn: Turn): Turn {
  const old = tree.value.turns.get(turn.id);
  return old !== undefined && JSON.stringify(old) === JSON.stringify(turn) ? old : turn;
}

function leafIn(whole: Tree, theirs: string | null): string | null {
  const mine = leaf.value;
  if (mine === null || !whole.turns.has(mine)) return theirs;
  return pathTo(whole, theirs).some((turn) => turn.id === mine) ? theirs : mine;
}
