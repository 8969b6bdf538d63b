import { describe, expect, it } from "vitest";
import type { Item } from "../../src/api/wire";
import { errorText, isOnlyAnswers, joinItems, sameContent, textOf, titleFrom, typedIn, userItem, withText } from "../../src/chat/items";
import { editedAnswer, editedQuestion, newTurn } from "../../src/chat/versions";
import { treeOf } from "../../src/chat/tree";
import { answered, said, turn } from "./recorded";

describe("what a person typed", () => {
  it("comes back with its files", () => {
    const files = [{ name: "a.txt", text: "Grüße 🦜\n" }, { name: "big.txt", text: "x".repeat(100_000) }];
    const item = userItem("Read this", files);
    expect(item.content).toMatchObject([{ type: "input_file", filename: "a.txt" }, { type: "input_file" }, { type: "input_text", text: "Read this" }]);
    expect(typedIn(turn("turn_q", null, "user", [item]))).toEqual({ text: "Read this", files });
    expect(typedIn(turn("turn_q", null, "user", [userItem("", files)])).text).toBe("");
    expect(userItem("Hi", []).content).toBe("Hi");
  });

  it("may be damaged, as imports are", () => {
    const item: Item = { type: "message", role: "user", content: [{ type: "input_file", filename: "x", file_data: "data:;base64,%%%" }] };
    expect(typedIn(turn("turn_q", null, "user", [item])).files).toEqual([{ name: "x", text: "" }]);
  });

  it("gives the title: the first line, cut at a word", () => {
    expect(titleFrom("\n  What   is this?\nMore")).toBe("What is this?");
    expect(titleFrom("word ".repeat(40))).toMatch(/^(word )+word…$/);
    expect([...titleFrom("🦜".repeat(100))]).toHaveLength(60);
    expect(titleFrom(" ", [{ name: "notes.txt", text: "" }])).toBe("notes.txt");
    expect(titleFrom("")).toBe("New chat");
  });

  it("is told from answers to calls alone", () => {
    const output: Item = { type: "function_call_output", call_id: "call_1", output: "" };
    expect(isOnlyAnswers(turn("turn_u", null, "user", [output]))).toBe(true);
    expect(isOnlyAnswers(turn("turn_u", null, "user", [output, said("Hi")]))).toBe(false);
    expect(isOnlyAnswers(turn("turn_u", null, "user", []))).toBe(false);
  });
});

describe("another text", () => {
  it.each<Item>([
    said("old"),
    answered("old"),
    { type: "reasoning", content: [{ type: "reasoning_text", text: "old" }] },
    { type: "function_call", name: "f", call_id: "c", arguments: "old" },
    { type: "function_call_output", call_id: "c", output: "old" },
  ])("takes the place of the old one in $type, without its seal", (item) => {
    const changed = withText({ ...item, encrypted_content: "hs1.a", id: "x_1" } as Item, "new");
    expect(textOf(changed)).toBe("new");
    expect(changed.encrypted_content).toBeUndefined();
    expect(sameContent(item, changed)).toBe(false);
  });

  it("of a question keeps its files", () => {
    const asked = turn("turn_q", null, "user", [userItem("old", [{ name: "a", text: "b" }])]);
    expect(typedIn({ ...asked, items: editedQuestion(asked, "new") })).toEqual({ text: "new", files: [{ name: "a", text: "b" }] });
  });

  it("of an answer drops the seals of what was changed, and of nothing else", () => {
    const hidden: Item = { type: "reasoning", summary: [], encrypted_content: "hs1.a" };
    const old = turn("turn_a", null, "assistant", [hidden, answered("old", { encrypted_content: "hs1.b", id: "msg_1" })]);
    const edited = editedAnswer(old, "new");
    expect(edited[0]).toEqual(hidden);
    expect(edited[1]).toMatchObject({ id: null, content: [{ text: "new" }] });
    expect(edited[1]).not.toHaveProperty("encrypted_content");
    const byItems = editedAnswer(old, [hidden, { ...(old.items[1] as Item), content: "newer" } as Item]);
    expect(byItems[1]).not.toHaveProperty("encrypted_content");
    expect(editedAnswer(turn("turn_a", null, "assistant", []), "new").map(textOf)).toEqual(["new"]);
  });
});

describe("joining", () => {
  it("needs an unfinished item of the same kind", () => {
    const old = answered("a", { status: "incomplete" });
    expect(textOf(joinItems(old, answered("b")) as Item)).toBe("ab");
    expect(joinItems(answered("a"), answered("b"))).toBeNull();
    expect(joinItems(old, { ...answered("b"), phase: "commentary" } as Item)).toBeNull();
    expect(joinItems(old, { type: "reasoning" })).toBeNull();
  });
});

describe("a new turn", () => {
  it("is younger than its siblings, so that their order stays", () => {
    const tree = treeOf([turn("turn_1", null, "user", [], { created_at: 1e11 })]);
    const made = newTurn(tree, null, { role: "user", items: [], status: "completed" });
    expect(made.created_at).toBe(1e11 + 1);
    expect(made.id).toMatch(/^turn_[0-9a-f]{24}$/);
  });
});

it("an error of a tool is told in its words", () => {
  expect(errorText('{"error": "no such city", "code": "tool.failed"}')).toBe("no such city");
  expect(errorText("plain")).toBe("plain");
  expect(errorText({ message: "said" })).toBe("said");
  expect(errorText(null)).toBe("The tool failed.");
});
