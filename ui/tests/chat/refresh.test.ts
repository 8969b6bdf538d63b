import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ListedChat, Turn } from "../../src/api/chats";
import { textOf } from "../../src/chat/items";
import { refreshChat } from "../../src/chat/refresh";
import * as session from "../../src/chat/session";
import { go } from "../../src/route";
import { FakeServer, replying } from "./fake_server";
import { answered } from "./recorded";

let server: FakeServer;

beforeEach(() => {
  server = new FakeServer();
  go({ view: "chat", chat: null, turn: null }, true);
  session.newChat();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await vi.waitFor(() => expect(session.saving.value).not.toBe("saving"));
  vi.unstubAllGlobals();
});

async function begun(): Promise<string> {
  server.answers.push(replying(answered("One.")));
  await session.sendMessage("First");
  await session.settled();
  await vi.waitFor(() => expect(session.saving.value).toBe("saved"));
  return session.chat.value?.id as string;
}

/** What another tab says behind a turn. */
function elsewhere(id: string, behind: string | null, text: string): void {
  const chat = server.chats.get(id);
  if (chat === undefined) throw new Error("there is no such chat");
  const item: Turn["items"][number] = { type: "message", role: "user", content: text };
  const turn: Turn = { id: `turn_${text}`, parent: behind, role: "user", items: [item], status: "completed", created_at: 9e9, details: {} };
  Object.assign(chat, { turns: [...chat.turns, turn], leaf: turn.id, updated_at: 9e9 });
}

function row(id: string): ListedChat {
  const { turns, settings: _settings, ...listed } = server.chats.get(id) as NonNullable<ReturnType<typeof server.chats.get>>;
  return { ...listed, turns: turns.length };
}

const texts = (): string[] => session.branch.value.map((turn) => turn.items.map(textOf).join());

describe("a chat that was changed elsewhere", () => {
  it("is read again, and what did not change stays the same object", async () => {
    const id = await begun();
    const before = session.branch.value[0];
    elsewhere(id, session.leaf.value, "Second");
    await refreshChat(row(id));
    expect(texts()).toEqual(["First", "One.", "Second"]);
    expect(session.branch.value[0]).toBe(before);
  });

  it("stays at its branch where another one was begun", async () => {
    const id = await begun();
    elsewhere(id, null, "Otherwise");
    await refreshChat(row(id));
    expect(texts()).toEqual(["First", "One."]);
    expect(session.alternatives(session.branch.value[0]?.id as string).of).toBe(2);
  });

  it("is not read again where nothing is newer", async () => {
    const id = await begun();
    await refreshChat({ ...row(id), leaf: session.leaf.value, updated_at: 1 });
    expect(server.asked.filter((asked) => asked === `GET v1/chats/${id}`)).toEqual([]);
  });

  it("is told before a message is sent, which stays in the composer", async () => {
    const id = await begun();
    elsewhere(id, session.leaf.value, "Second");
    const now = Date.now();
    vi.spyOn(Date, "now").mockImplementation(() => now + 60_000);
    expect(await session.sendMessage("Third")).toBe(false);
    expect(session.failure.value?.failure.code).toBe("changed_elsewhere");
    expect(session.draft.value).toBe("Third");
    expect(texts().at(-1)).toBe("Second");
    server.answers.push(replying(answered("Three.")));
    expect(await session.sendMessage("Third")).toBe(true);
    await session.settled();
    expect(texts()).toEqual(["First", "One.", "Second", "Third", "Three."]);
  });
});
