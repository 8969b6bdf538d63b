import { expect, test } from "vitest";
import type { WholeChat } from "../../src/api/chats";
import type { DiffRow, Inspection, InspectedMessage, PromptDiff } from "../../src/api/inspect";
import { around, blocksOf, cacheShare, droppedReasoning } from "../../src/inspector/tools/diff_rows";
import { answersOf, promptOf } from "../../src/inspector/tools/diff_side";

const row = (kind: DiffRow["kind"], before: number | null, after: number | null, reason: string | null = null): DiffRow => ({
  kind, before, after, reason,
});

/** Messages of three tokens each, whose ids count up. */
const messages = (count: number, channel: string | null = null) =>
  Array.from({ length: count }, (_, index) => {
    const at = index * 3;
    const span = { start_token: at, end_token: at + 1, start_char: at, end_char: at + 1 };
    return {
      index, role: "assistant", channel, tokens: { header: 1, body: 1, stop: 1 }, spans: { header: span, body: span },
      ids: { header: [at], body: [at + 1], stop: [at + 2] },
    } as unknown as InspectedMessage;
  });

const prompt = (count: number) => ({ messages: messages(count), outside: [] }) as unknown as Inspection;

test("messages that are the same are folded, the others stand alone", () => {
  const rows = [row("same", 0, 0), row("same", 1, 1), row("dropped", 2, null), row("same", 3, 2), row("added", null, 3)];
  expect(blocksOf(rows).map((block) => (block.kind === "same" ? block.rows.length : block.row.kind))).toEqual([2, "dropped", 1, "added"]);
});

test("dropped reasoning is told with its tokens and its reason", () => {
  const diff = {
    before: { messages: [...messages(1, "analysis"), ...messages(1, "final")] }, after: { messages: [] },
    rows: [row("dropped", 0, null, "its turn is over"), row("dropped", 1, null)],
  } as unknown as PromptDiff;
  expect(droppedReasoning(diff).map(({ tokens, reason }) => [tokens, reason])).toEqual([[3, "its turn is over"]]);
});

test("the tokens around a place go over the ends of messages and stop at the ends of the prompt", () => {
  expect(around(prompt(4), 5, 2)).toEqual({ ids: [3, 4, 5, 6, 7], here: 2, start: 3 });
  expect(around(prompt(4), 0, 2)).toEqual({ ids: [0, 1, 2], here: 0, start: 0 });
  expect(around(prompt(2), 6, 2)).toEqual({ ids: [4, 5], here: 2, start: 4 });
  expect(around(prompt(0), 0)).toEqual({ ids: [], here: 0, start: 0 });
});

test("the share of the cache is of the second prompt", () => {
  expect(cacheShare({ shared_prefix: 3, after: { tokens: 4 } } as PromptDiff)).toBe(0.75);
  expect(cacheShare({ shared_prefix: 0, after: { tokens: 0 } } as PromptDiff)).toBe(0);
});

test("the prompt of a turn ends where its answer begins", () => {
  const trace = { messages: messages(2), tokens: 6, prompt_tokens: 4 } as unknown as Inspection;
  expect(promptOf(trace, false)).toEqual({ tokens: [0, 1, 2, 3] });
  expect(promptOf(trace, true)).toEqual({ tokens: [0, 1, 2, 3, 4, 5] });
  expect(promptOf({ ...trace, tokens: 7 } as Inspection, true)).toBeNull();
});

test("answers are those of the branch, oldest first, and a circle does not hang", () => {
  const turn = (id: string, parent: string | null, role: "user" | "assistant") => ({ id, parent, role });
  const chat = {
    leaf: "d",
    turns: [turn("a", null, "user"), turn("b", "a", "assistant"), turn("x", "a", "assistant"), turn("c", "b", "user"), turn("d", "c", "assistant")],
  } as unknown as WholeChat;
  expect(answersOf(chat)).toEqual([{ turn: "b", label: "Answer 1" }, { turn: "d", label: "Answer 2" }]);
  expect(answersOf(chat, "x")).toEqual([{ turn: "x", label: "Answer 1" }]);
  chat.turns[0]!.parent = "d";
  expect(answersOf(chat)).toHaveLength(2);
});
