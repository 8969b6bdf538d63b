import { afterEach, expect, it, vi } from "vitest";
import type { ListedChat } from "../../src/api/chats";
import { MOST_FOUND, searchChats } from "../../src/shell/searching";

interface Page {
  data: ListedChat[];
  has_more: boolean;
  next?: string;
}

const chat = (id: string): ListedChat => ({ id, object: "chat", title: id, created_at: 1, updated_at: 1, leaf: null, turns: 0 });
const asked: URLSearchParams[] = [];

function answering(...pages: Page[]): void {
  asked.length = 0;
  vi.stubGlobal("fetch", async (url: string) => {
    asked.push(new URL(url).searchParams);
    return new Response(JSON.stringify({ object: "list", ...pages.shift() }));
  });
}

async function search(query: string): Promise<[string[], boolean][]> {
  const told: [string[], boolean][] = [];
  await searchChats(query, new AbortController().signal, (found, isWhole) => told.push([found.map((each) => each.id), isWhole]));
  return told;
}

afterEach(() => vi.unstubAllGlobals());

it("goes on behind pages on which nothing was found", async () => {
  answering({ data: [], has_more: true, next: "chat_9" }, { data: [], has_more: true, next: "chat_5" }, { data: [chat("chat_2")], has_more: false });
  expect(await search(" rain ")).toEqual([[[], false], [[], false], [["chat_2"], true]]);
  expect(asked.map((each) => [each.get("query"), each.get("after")])).toEqual([["rain", null], ["rain", "chat_9"], ["rain", "chat_5"]]);
});

it("ends when enough was found", async () => {
  const many = Array.from({ length: MOST_FOUND }, (_, at) => chat(`chat_${at}`));
  answering({ data: many, has_more: true, next: "chat_29" });
  expect((await search("a")).at(-1)?.[1]).toBe(true);
  expect(asked).toHaveLength(1);
});

it("shows the newest chats where nothing is looked for, and does not read on", async () => {
  answering({ data: [chat("chat_1")], has_more: true, next: "chat_1" });
  expect(await search("  ")).toEqual([[["chat_1"], true]]);
  expect(asked[0]?.has("query")).toBe(false);
});

it("does not go in circles", async () => {
  answering({ data: [], has_more: true, next: "chat_1" }, { data: [], has_more: true, next: "chat_1" });
  expect(await search("a")).toEqual([[[], false], [[], true]]);
});
