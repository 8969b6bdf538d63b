import { describe, expect, it } from "vitest";
import { childrenOf, EMPTY, newestLeaf, parentOf, pathTo, put, remove, siblingsOf, treeOf } from "../../src/chat/tree";
import { turn } from "./recorded";

const at = (created_at: number): { created_at: number } => ({ created_at });
const chat = treeOf([
  turn("turn_q", null, "user", [], at(1)),
  turn("turn_a1", "turn_q", "assistant", [], at(2)),
  turn("turn_a2", "turn_q", "assistant", [], at(3)),
  turn("turn_q2", "turn_a1", "user", [], at(9)),
  turn("turn_a3", "turn_q", "assistant", [], at(4)),
]);
const ids = (turns: { id: string }[]): string[] => turns.map((each) => each.id);

describe("a tree of turns", () => {
  it("gives the path to a leaf", () => {
    expect(ids(pathTo(chat, "turn_q2"))).toEqual(["turn_q", "turn_a1", "turn_q2"]);
    expect(pathTo(chat, null)).toEqual([]);
    expect(pathTo(chat, "turn_nowhere")).toEqual([]);
  });

  it("tells where a turn stands among its siblings, in the order of their creation", () => {
    const { turns, at: place } = siblingsOf(chat, "turn_a2");
    expect(ids(turns)).toEqual(["turn_a1", "turn_a2", "turn_a3"]);
    expect(place).toBe(1);
    expect(siblingsOf(chat, "turn_nowhere")).toEqual({ turns: [], at: -1 });
  });

  it("finds the newest leaf below a turn, and of all", () => {
    expect(newestLeaf(chat, "turn_q")).toBe("turn_q2");
    expect(newestLeaf(chat, "turn_a2")).toBe("turn_a2");
    expect(newestLeaf(chat, null)).toBe("turn_q2");
    expect(newestLeaf(chat, "turn_nowhere")).toBeNull();
    expect(newestLeaf(EMPTY, null)).toBeNull();
  });

  it("takes the one that came last of two leaves of one second", () => {
    const same = treeOf([turn("turn_1", null, "user", [], at(5)), turn("turn_2", null, "user", [], at(5))]);
    expect(newestLeaf(same, null)).toBe("turn_2");
  });

  it("puts a turn in and another in its place, without changing the old tree", () => {
    const more = put(chat, turn("turn_a4", "turn_q2", "assistant", [], at(10)));
    expect(ids(childrenOf(more, "turn_q2"))).toEqual(["turn_a4"]);
    expect(chat.turns.has("turn_a4")).toBe(false);
    const changed = put(more, { ...turn("turn_a4", "turn_q2", "assistant", [], at(10)), status: "failed" });
    expect(changed.turns.get("turn_a4")?.status).toBe("failed");
    expect(changed.turns.get("turn_q")).toBe(chat.turns.get("turn_q"));
    expect(changed.children).toBe(more.children);
  });

  it("removes a turn with all behind it", () => {
    expect([...remove(chat, "turn_a1").turns.keys()]).toEqual(["turn_q", "turn_a2", "turn_a3"]);
    expect(remove(chat, "turn_nowhere").turns.size).toBe(5);
    expect(remove(chat, "turn_q").turns.size).toBe(0);
  });

  it("shows an orphan as a first turn", () => {
    const orphaned = treeOf([turn("turn_b", "turn_gone", "assistant"), turn("turn_c", "turn_b", "user")]);
    expect(ids(pathTo(orphaned, "turn_c"))).toEqual(["turn_b", "turn_c"]);
    expect(parentOf(orphaned, "turn_b")).toBeNull();
    expect(ids(childrenOf(orphaned, null))).toEqual(["turn_b"]);
  });

  it("cuts a circle at its oldest turn and loses none", () => {
    const circle = treeOf([
      turn("turn_1", "turn_3", "user", [], at(2)),
      turn("turn_2", "turn_1", "assistant", [], at(1)),
      turn("turn_3", "turn_2", "user", [], at(3)),
      turn("turn_4", "turn_3", "assistant", [], at(4)),
      turn("turn_self", "turn_self", "user", [], at(5)),
    ]);
    expect(ids(pathTo(circle, "turn_4"))).toEqual(["turn_2", "turn_3", "turn_4"]);
    expect(ids(pathTo(circle, "turn_1"))).toEqual(["turn_2", "turn_3", "turn_1"]);
    expect(ids(childrenOf(circle, null))).toEqual(["turn_2", "turn_self"]);
    expect(newestLeaf(circle, null)).toBe("turn_self");
  });

  it("walks a long chat without recursion", () => {
    const long = treeOf(Array.from({ length: 20_000 }, (_, n) => turn(`turn_${n}`, n === 0 ? null : `turn_${n - 1}`, "user", [], at(n))));
    expect(pathTo(long, "turn_19999")).toHaveLength(20_000);
    expect(newestLeaf(long, "turn_0")).toBe("turn_19999");
    expect(remove(long, "turn_1").turns.size).toBe(1);
  });
});
