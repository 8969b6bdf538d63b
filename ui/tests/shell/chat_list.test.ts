import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Chat, ListedChat } from "../../src/api/chats";
import { chat as opened } from "../../src/chat/session";
import { chats, deleteListed, hasMore, isLoading, listFailure, loadChats, loadMoreChats } from "../../src/shell/chat_list";

const listed = (id: string, updated_at: number): ListedChat => ({ id, object: "chat", title: id, created_at: 1, updated_at, leaf: null, turns: 0 });
const ids = (): string[] => chats.value.map((each) => each.id);

let asked: string[];
let answers: (() => Promise<Response> | Response)[];
const page = (data: ListedChat[], next?: string) => () =>
  new Response(JSON.stringify({ object: "list", data, has_more: next !== undefined, ...(next === undefined ? {} : { next }) }));

beforeEach(() => {
  asked = [];
  answers = [];
  opened.value = null;
  vi.stubGlobal("fetch", async (url: string, options: RequestInit) => {
    const { pathname, searchParams } = new URL(url);
    asked.push(`${options.method} ${pathname.slice(1)} ${searchParams.get("after") ?? ""}`.trim());
    return answers.shift()?.() ?? new Response("{}");
  });
});
afterEach(() => vi.unstubAllGlobals());

it("goes on behind the last page, wherever an old chat that was opened stands", async () => {
  answers = [page([listed("c", 30), listed("b", 20)], "b"), page([listed("a", 10)])];
  await loadChats();
  opened.value = { ...listed("old", 1), settings: {} } as Chat;
  expect(ids()).toEqual(["c", "b", "old"]);
  await loadMoreChats();
  expect(asked).toEqual(["GET v1/chats", "GET v1/chats b"]);
  expect(ids()).toContain("a");
  expect(hasMore.value).toBe(false);
});

it("goes on from the chat before one that was deleted", async () => {
  answers = [page([listed("c", 30), listed("b", 20)], "b"), () => new Response(null, { status: 204 }), page([listed("a", 10)])];
  await loadChats();
  await deleteListed("b");
  await loadMoreChats();
  expect(asked).toEqual(["GET v1/chats", "DELETE v1/chats/b", "GET v1/chats c"]);
  expect(ids()).toEqual(["c", "a"]);
});

it("takes the answer to the newest question", async () => {
  let answerFirst: (response: Response) => void = () => undefined;
  answers = [() => new Promise((resolve) => (answerFirst = resolve)), page([listed("new", 2)])];
  const first = loadChats();
  await loadChats();
  answerFirst(page([listed("old", 1)])());
  await first;
  expect(ids()).toEqual(["new"]);
  expect(isLoading.value).toBe(false);
});

it("says that the server is gone, and keeps the list", async () => {
  answers = [page([listed("a", 1)]), () => Promise.reject(new TypeError("Failed to fetch"))];
  await loadChats();
  await loadChats();
  expect(listFailure.value?.kind).toBe("gone");
  expect(ids()).toEqual(["a"]);
});
