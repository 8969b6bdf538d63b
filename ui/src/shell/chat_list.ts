/** The chats that the server keeps, newest first, as far as they were asked for. The open one is kept up to date. */

import { effect, signal } from "@preact/signals";
import { changeChat, deleteChat, listChats, type Chat, type ListedChat } from "../api/chats";
import { failureOf, type Failure } from "../api/client";
import { chat as openedChat, newChat, stopAnswer } from "../chat/session";
import { go, route } from "../route";

const PAGE = 40;

export const chats = signal<readonly ListedChat[]>([]);
export const hasMore = signal(false);
export const isLoading = signal(false);
export const listFailure = signal<Failure | null>(null);

/** Where the next page begins. It need not be the last chat of the list: an old one that was opened stands there too. */
let next: string | undefined;
/** Counts what was asked, so that the answer to an older question is not taken for the newest. */
let asked = 0;

/** Ask for the list again. Gives its first rows as the server has them; none where it does not answer. */
export async function loadChats(): Promise<readonly ListedChat[]> {
  return load(undefined);
}

export async function loadMoreChats(): Promise<void> {
  if (!isLoading.value) await load(next);
}

async function load(after: string | undefined): Promise<readonly ListedChat[]> {
  const mine = (asked += 1);
  isLoading.value = true;
  try {
    const page = await listChats({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    if (mine !== asked) return page.data;
    chats.value = after === undefined ? page.data : [...chats.value, ...page.data.filter((each) => !has(each.id))];
    if (after === undefined && openedChat.value !== null) chats.value = placed(chats.value, openedChat.value);
    hasMore.value = page.has_more;
    next = page.next ?? page.data.at(-1)?.id;
    listFailure.value = null;
    return page.data;
  } catch (error) {
    if (mine === asked) listFailure.value = failureOf(error);
    return [];
  } finally {
    if (mine === asked) isLoading.value = false;
  }
}

export async function renameListed(id: string, title: string): Promise<void> {
  const changed = await changeChat(id, { title });
  if (openedChat.value?.id === id) openedChat.value = { ...openedChat.value, title: changed.title };
  chats.value = chats.value.map((each) => (each.id === id ? { ...each, title: changed.title } : each));
}

export async function deleteListed(id: string): Promise<void> {
  await deleteChat(id);
  stopAnswer(id);
  // The next page begins after the one before it.
  if (next === id) next = chats.value[chats.value.findIndex((each) => each.id === id) - 1]?.id;
  chats.value = chats.value.filter((each) => each.id !== id);
  if (openedChat.value?.id === id) newChat();
  if (route.value.chat === id) go({ view: "chat", chat: null, turn: null });
}

/** A chat that was just opened, begun or renamed, in its place in the list: the newest stands first. Renaming does not move it. */
export function placed(list: readonly ListedChat[], chat: Chat): readonly ListedChat[] {
  const known = list.find((each) => each.id === chat.id);
  if (known !== undefined && known.updated_at >= chat.updated_at) {
    return known.title === chat.title ? list : list.map((each) => (each === known ? { ...known, title: chat.title } : each));
  }
  const { settings: _, ...listed } = chat;
  const others = list.filter((each) => each.id !== chat.id);
  const after = others.findIndex((each) => each.updated_at <= chat.updated_at);
  others.splice(after < 0 ? others.length : after, 0, { turns: known?.turns ?? 0, ...listed });
  return others;
}

const has = (id: string): boolean => chats.value.some((each) => each.id === id);

effect(() => {
  const opened = openedChat.value;
  if (opened !== null) chats.value = placed(chats.peek(), opened);
});
