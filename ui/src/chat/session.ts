/**
 * The chat that is open, as signals, and everything that can be done with it.
 *
 * 1. What a person does stands in the tree at once, and is saved after it. What could not be saved is tried again.
 * 2. Nothing that was typed or streamed is lost by a failure: it is in the tree, or in `draft`.
 * 3. Old versions stay: editing and regenerating make siblings. Only a continuation changes its turn in place, because
 *    all of the old text is still there, at the beginning of the new one.
 * 4. An answer goes on when another chat is opened, and is there again when its own is.
 */

import { batch } from "@preact/signals";
import { createChat, deleteChat } from "../api/chats";
import { Failure } from "../api/client";
import type { Item } from "../api/wire";
import { go, route } from "../route";
import { answer, asked, runOf } from "./asking";
import { asksIn, unanswered } from "./decisions";
import { CHANGED_ELSEWHERE } from "./failure_words";
import { knownChat } from "./known";
import { isChangedElsewhere, isHeard, noteHeard } from "./refresh";
import { takeLeft } from "./left";
import { titleFrom, userItem, type AttachedFile } from "./items";
import { branch, chat, creating, dismissFailure, draft, fail, isBusy, keep, leaf, loading, reset, running, saver, settings, show, tree, waitingFor } from "./state";
import { newestLeaf, parentOf, put, remove, siblingsOf, treeOf, type Tree } from "./tree";
import { editedAnswer, editedQuestion, newTurn } from "./versions";

export { answerCall, canContinue, continueAnswer, decide, regenerate, settled, stop, stopAnswer } from "./asking";
export type { Choice } from "./decisions";
export type { AttachedFile } from "./items";
export type { Saving } from "./saver";
export {
  branch, changeSettings, chat, creating, dismissFailure, draft, failure, leaf, loading, retry, retrySaving, running, saveFailure, saving, settings, tree, untilSaved, waitingFor,
} from "./state";
export type { ChatFailure } from "./state";

/** Counts what is opened, so that an answer to an older question is not taken for this one. */
let opened = 0;
/** Whether a message waits to know what others did with the chat. */
let isChecking = false;

/** Show a chat at the branch of a turn, or where it was left. Again the same chat: only the branch changes. */
export async function openChat(id: string, turn: string | null = null): Promise<void> {
  if (chat.value?.id === id && !loading.value) {
    if (turn !== null && !branch.value.some((each) => each.id === turn)) showBranch(turn);
    return;
  }
  const now = (opened += 1);
  dismissFailure();
  reset();
  loading.value = true;
  const run = runOf(id);
  try {
    const { turns, ...found } = await knownChat(id);
    // The answer may have ended while the chat came, which then has it as it was.
    const ended = run === undefined || runOf(id) === run ? [] : [(await run.ended).turn];
    if (now !== opened) return;
    const live = runOf(id)?.live;
    const left = takeLeft(id, turns);
    for (const each of left) saver.turn(id, each);
    batch(() => {
      const newer = [...left, ...ended, ...(live === undefined ? [] : [live.turnNow()])];
      tree.value = newer.reduce(put, treeOf(turns));
      chat.value = found;
      settings.value = found.settings;
      leaf.value = leafOf(tree.value, turn, live?.turn ?? left.at(-1)?.id ?? found.leaf);
      running.value = live ?? null;
      loading.value = false;
      noteHeard(id, found.updated_at);
    });
  } catch (error) {
    if (now !== opened) return;
    loading.value = false;
    fail(error, { doing: "loading", turn: null, typed: "" }, () => openChat(id, turn));
  }
}

function leafOf(whole: Tree, wanted: string | null, kept: string | null): string | null {
  if (wanted !== null && whole.turns.has(wanted)) return newestLeaf(whole, wanted);
  return kept !== null && whole.turns.has(kept) ? kept : newestLeaf(whole, null);
}

/** Begin a chat. The server has it when its first message is sent; settings that were chosen before that stay. */
export function newChat(): void {
  dismissFailure();
  if (chat.value === null && !loading.value && !creating.value) return;
  opened += 1;
  reset();
}

/** True when the message stands in the chat; its answer goes on after that. False: it is in `draft`, `failure` says why. */
export async function sendMessage(text: string, files: readonly AttachedFile[] = []): Promise<boolean> {
  if (isBusy() || isChecking || (text.trim() === "" && files.length === 0)) return false;
  dismissFailure();
  const id = chat.value?.id ?? (await create(text, files));
  if (id === null) return false;
  if (!isHeard(id) && (await isStale())) {
    draft.value = text;
    fail(new Failure("request", "This chat was changed elsewhere.", CHANGED_ELSEWHERE), { doing: "creating", turn: null, typed: text }, () => sendMessage(draft.value, files));
    return false;
  }
  if (chat.value?.id !== id || isBusy()) return false;
  asked();
  draft.value = "";
  const { answers } = asksIn(branch.value);
  const items = [...(answers?.items ?? []), ...unanswered(waitingFor.value), userItem(text, files)];
  const turn = answers === null ? newTurn(tree.value, leaf.value, { role: "user", items, status: "completed" }) : { ...answers, items, status: "completed" as const };
  keep(id, turn);
  answer(turn.id);
  return true;
}

/** The message waits for this, and is not sent a second time meanwhile. */
async function isStale(): Promise<boolean> {
  isChecking = true;
  try {
    return await isChangedElsewhere();
  } finally {
    isChecking = false;
  }
}

async function create(text: string, files: readonly AttachedFile[]): Promise<string | null> {
  const now = opened;
  creating.value = true;
  try {
    const made = await createChat({ title: titleFrom(text, files), settings: settings.value });
    if (now !== opened) {
      // Another chat was opened meanwhile. The text is kept as the draft of a new chat, so that this one stays empty.
      void deleteChat(made.id).catch(() => undefined);
      return null;
    }
    chat.value = made;
    noteHeard(made.id, made.updated_at);
    // The address may still name a chat that could not be loaded.
    if (route.value.view === "chat") go({ view: "chat", chat: made.id, turn: null }, true);
    return made.id;
  } catch (error) {
    if (now !== opened) return null;
    draft.value = text;
    fail(error, { doing: "creating", turn: null, typed: text }, () => sendMessage(draft.value === "" ? text : draft.value, files));
    return null;
  } finally {
    creating.value = false;
  }
}

/**
 * Change what was said, as a version beside the old one. A user turn (a text, or items) is answered again. A turn of the
 * model's (items, or a text for its last message) is not; items that were changed lose their seals, which have the old words.
 */
export async function editTurn(turnId: string, edited: string | readonly Item[]): Promise<void> {
  const turn = tree.value.turns.get(turnId);
  const id = chat.value?.id;
  if (turn === undefined || id === undefined || isBusy()) return;
  asked();
  const parent = parentOf(tree.value, turnId);
  if (turn.role === "user") {
    const version = newTurn(tree.value, parent, { role: "user", items: editedQuestion(turn, edited), status: "completed" });
    keep(id, version);
    answer(version.id);
  } else {
    const { model, effort } = turn.details;
    const details = { edited: true, ...(model === undefined ? {} : { model }), ...(effort === undefined ? {} : { effort }) };
    keep(id, newTurn(tree.value, parent, { role: "assistant", items: editedAnswer(turn, edited), status: "completed", details }));
  }
}

/** Show the newest branch below a turn. */
export function showBranch(turnId: string): void {
  const to = newestLeaf(tree.value, turnId);
  if (to !== null) show(to);
}

/** Where a turn stands among its versions (from 1), and the versions beside it, for `showBranch`. */
export function alternatives(turnId: string): { at: number; of: number; before: string | null; after: string | null } {
  const { turns, at } = siblingsOf(tree.value, turnId);
  return { at: at + 1, of: turns.length, before: turns[at - 1]?.id ?? null, after: turns[at + 1]?.id ?? null };
}

/** Delete a turn and all after it. An answer that runs there is ended first. */
export async function deleteTurn(turnId: string): Promise<void> {
  const id = chat.value?.id;
  if (id === undefined || !tree.value.turns.has(turnId)) return;
  const before = tree.value;
  const parent = parentOf(before, turnId);
  const after = remove(before, turnId);
  const gone = [...before.turns.keys()].filter((each) => !after.turns.has(each));
  const run = runOf(id);
  batch(() => {
    dismissFailure();
    tree.value = after;
    if (leaf.value === null || gone.includes(leaf.value)) show(newestLeaf(after, parent));
  });
  if (run !== undefined && gone.includes(run.live.turn)) {
    run.stop();
    await run.ended;
  }
  saver.delete(id, turnId, gone);
}
