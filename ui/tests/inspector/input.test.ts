import { describe, expect, it } from "vitest";
import type { Turn } from "../../src/api/chats";
import { EXAMPLES } from "../../src/inspector/examples";
import { EMPTY_DRAFT, draftOf, readDraft, readTools } from "../../src/inspector/input";
import { cutBranch } from "../../src/inspector/turn";
import { foldAt } from "../../src/inspector/views/message_card";

describe("the input", () => {
  it("says nothing that was not chosen", () => {
    expect(readDraft({ ...EMPTY_DRAFT, text: "x" })).toEqual({ input: { text: "x" } });
    expect(readDraft({ text: "x", as: "stripped", isCompletion: true, isStopSwallowed: true, tools: "a, b" })).toEqual({
      input: { text: "x", as: "stripped", role: "assistant", stop_swallowed: true, tools: ["a", "b"] },
    });
  });

  it("wants something to read", () => {
    expect(readDraft({ ...EMPTY_DRAFT, text: " \n" })).toHaveProperty("error");
  });

  it("reads tools as names and as JSON", () => {
    expect(readTools("a b,\nc")).toEqual({ tools: ["a", "b", "c"] });
    expect(readTools(' [{"name": "a"}]')).toEqual({ tools: [{ name: "a" }] });
    expect(readTools('{"name": "a"}')).toEqual({ tools: [{ name: "a" }] });
    expect(readTools("[{")).toHaveProperty("error");
    expect(readTools("")).toEqual({ tools: [] });
  });

  it("comes back into the form as it was", () => {
    for (const { input } of EXAMPLES.filter((example) => example.input.text !== undefined)) {
      expect(readDraft(draftOf(input))).toEqual({ input });
    }
    expect(draftOf({ tokens: [1, 2] })).toMatchObject({ text: "1 2", as: "tokens" });
  });
});

describe("a turn", () => {
  const turn = (id: string, role: Turn["role"]): Turn => ({ id, parent: null, role, items: [], status: "completed", created_at: 0, details: {} });

  it("is an answer behind its prompt, or a prompt alone", () => {
    const [user, answer] = [turn("a", "user"), turn("b", "assistant")];
    expect(cutBranch([user, answer])?.branch).toEqual([user]);
    expect(cutBranch([user])?.branch).toEqual([user]);
    expect(cutBranch([])).toBeNull();
  });
});

describe("a long body", () => {
  it("is folded by its length or its lines, never inside a character", () => {
    expect(foldAt("short")).toBeNull();
    expect(foldAt("a".repeat(1300))).toBeNull();
    expect(foldAt("a".repeat(5000))).toBe(1200);
    expect(foldAt(`a${"🦜".repeat(3000)}`)).toBe(1199);
    expect(foldAt("line of text\n".repeat(60))).toBe(12 + 13 * 19);
  });
});
