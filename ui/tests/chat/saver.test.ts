import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Saver } from "../../src/chat/saver";
import { FakeServer } from "./fake_server";
import { said, turn } from "./recorded";

let server: FakeServer;
let saver: Saver;

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeServer();
  server.chats.set("chat_1", { id: "chat_1", object: "chat", title: "", created_at: 1, updated_at: 1, leaf: null, settings: {}, turns: [] });
  saver = new Saver((chat) => chat === "chat_1");
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Everything that can happen without time going by. */
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);
const ids = (): string[] => server.turns("chat_1").map((each) => each.id);

describe("a saver", () => {
  it("saves in order: parents first, the leaf last", async () => {
    saver.change("chat_1", { leaf: "turn_2" });
    saver.turn("chat_1", turn("turn_1", null, "user"));
    saver.turn("chat_1", turn("turn_2", "turn_1", "assistant"));
    saver.change("chat_1", { leaf: "turn_2", title: "T" });
    expect(saver.state.value).toBe("saving");
    await settle();
    await vi.advanceTimersByTimeAsync(3000); // the first change came before its turn
    expect(saver.state.value).toBe("saved");
    expect(ids()).toEqual(["turn_1", "turn_2"]);
    expect(server.chats.get("chat_1")).toMatchObject({ leaf: "turn_2", title: "T" });
  });

  it("saves a turn that changes while it waits once, as it is then", async () => {
    saver.turn("chat_1", turn("turn_0", null, "user"));
    for (let at = 0; at < 10; at += 1) saver.turn("chat_1", turn("turn_1", null, "user", [said(String(at))]));
    await settle();
    expect(server.asked.filter((each) => each.includes("turn_1"))).toHaveLength(1);
    expect(server.turns("chat_1").at(-1)?.items).toEqual([said("9")]);
  });

  it("saves again what changed while it was sent", async () => {
    saver.turn("chat_1", turn("turn_1", null, "user", [said("old")]));
    await Promise.resolve();
    saver.turn("chat_1", turn("turn_1", null, "user", [said("new")]));
    await settle();
    expect(server.turns("chat_1").at(-1)?.items).toEqual([said("new")]);
  });

  it("tries again by itself, later and later", async () => {
    server.failing = { path: /./, status: "gone" };
    saver.turn("chat_1", turn("turn_1", null, "user"));
    await settle();
    expect([saver.state.value, saver.failure.value?.kind]).toEqual(["failed", "gone"]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(server.asked).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(3000);
    expect(server.asked).toHaveLength(2);
    server.failing = null;
    await vi.advanceTimersByTimeAsync(1000);
    expect([saver.state.value, saver.failure.value]).toEqual(["saved", null]);
    expect(ids()).toEqual(["turn_1"]);
  });

  it("is not held up by what the server does not take", async () => {
    server.failing = { path: /turn_1$/, status: 413 };
    saver.turn("chat_1", turn("turn_1", null, "user"));
    saver.turn("chat_1", turn("turn_2", null, "user"));
    await settle();
    expect(ids()).toEqual(["turn_2"]);
    expect([saver.state.value, saver.failure.value?.status]).toEqual(["failed", 413]);
    server.failing = null;
    saver.retry();
    await settle();
    expect(ids()).toEqual(["turn_2", "turn_1"]);
    expect(saver.state.value).toBe("saved");
  });

  it("drops what belongs to a chat that was deleted, unless it is open", async () => {
    saver.turn("chat_gone", turn("turn_1", null, "user"));
    await settle();
    expect(saver.state.value).toBe("saved");
    server.chats.clear();
    saver.turn("chat_1", turn("turn_1", null, "user"));
    await settle();
    expect(saver.state.value).toBe("failed");
  });

  it("does not save what was deleted, and does not mind what was never saved", async () => {
    server.failing = { path: /./, status: "gone" };
    saver.turn("chat_1", turn("turn_1", null, "user"));
    saver.delete("chat_1", "turn_1", ["turn_1"]);
    await settle();
    server.failing = null;
    saver.retry();
    await settle();
    expect(saver.state.value).toBe("saved");
    expect(ids()).toEqual([]);
  });

  it("sends small turns when the page closes, and no large ones", () => {
    server.failing = { path: /./, status: "gone" };
    saver.turn("chat_1", turn("turn_1", null, "user", [said("x".repeat(70_000))]));
    saver.turn("chat_1", turn("turn_2", null, "user"));
    const left = saver.leave({ chat: "chat_1", turn: turn("turn_3", null, "assistant") });
    expect(left.get("chat_1")?.map((each) => each.id)).toEqual(["turn_1", "turn_2", "turn_3"]);
    expect(server.keptAlive.map((path) => path.split("/").at(-1))).toEqual(["turn_2", "turn_3"]);
  });
});
