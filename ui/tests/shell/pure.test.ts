import { describe, expect, it } from "vitest";
import { hashOf, readRoute } from "../../src/route";
import { byDay } from "../../src/shell/days";
import { safeName } from "../../src/shell/downloads";
import { pieces } from "../../src/shell/marks";

describe("routes", () => {
  it.each([
    ["", { view: "chat", chat: null, turn: null }],
    ["#/", { view: "chat", chat: null, turn: null }],
    ["#/chat/chat_1", { view: "chat", chat: "chat_1", turn: null }],
    ["#/chat/chat_1/turn_2", { view: "chat", chat: "chat_1", turn: "turn_2" }],
    ["#/inspect", { view: "inspect", chat: null, turn: null }],
    ["#/inspect/chat_1/turn_2", { view: "inspect", chat: "chat_1", turn: "turn_2" }],
    ["#/nowhere/at/all", { view: "chat", chat: null, turn: null }],
    ["#/chat/%", { view: "chat", chat: "%", turn: null }],
  ] as const)("reads %s", (hash, expected) => {
    expect(readRoute(hash)).toEqual(expected);
  });

  it("come back as they went, whatever the ids have in them", () => {
    for (const chat of ["a", "a/b", "#?&", "ä €"]) {
      const route = { view: "inspect", chat, turn: "t/1" } as const;
      expect(readRoute(hashOf(route))).toEqual(route);
    }
  });
});

describe("days", () => {
  const now = new Date(2026, 10, 16, 12).getTime() / 1000;
  const daysAgo = (days: number) => ({ updated_at: now - days * 86_400 });

  it("are named as people name them, and keep the order", () => {
    const names = byDay([0, 0.2, 1, 3, 20, 400].map(daysAgo), now).map(({ name, items }) => [name, items.length]);
    expect(names).toEqual([
      ["Today", 2],
      ["Yesterday", 1],
      ["The last seven days", 1],
      ["The last thirty days", 1],
      ["October 2025", 1],
    ]);
  });

  it("are today for a clock that is a little ahead", () => {
    expect(byDay([daysAgo(-0.6)], now)[0]?.name).toBe("Today");
  });
});

describe("marks", () => {
  it("are every second piece, whatever stands in the query", () => {
    expect(pieces("A cat (black) and a CAT", "cat (b")).toEqual(["A ", "cat", " ", "(b", "lack) and a ", "CAT", ""]);
    expect(pieces("nothing", "  ")).toEqual(["nothing"]);
    expect(pieces("a.b", ".")).toEqual(["a", ".", "b"]);
  });
});

describe("names of files", () => {
  it.each([
    ["Weather in Paris", "Weather in Paris"],
    ["../../etc/passwd", "etc passwd"],
    ['a"b\r\nc', "a b c"],
    ["\u202egpj.exe", "gpj exe"],
    ["", "chat"],
    ["<|end|>", "end"],
    ["Grüße 你好", "Grüße 你好"],
  ])("of %j", (title, expected) => {
    expect(safeName(title)).toBe(expected);
  });
});
