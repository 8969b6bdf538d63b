import { describe, expect, it } from "vitest";
import type { TurnTrace } from "../../src/api/inspect";
import { TOKENS_PER_BLOCK, blocksOf, tokenOfHit } from "../../src/inspector/blocks";
import { placesOf, problemsByRow } from "../../src/inspector/problems";
import { counted, lastNotAbove, messagesStarting, partAt, percent, piecesOf, rowKey, rowsOf, toneOf, toneOfChannel } from "../../src/inspector/trace";
import { TABLE, inspectionOf, message, problem } from "./traces";

const three = [message(0), message(1), message(2)];
const outside = [
  { text: "stray", start_char: 150, tokens: 2 },
  { text: "🦜🦜", start_char: 260, tokens: 6 },
];

describe("rows", () => {
  it("stand in the order of the trace", () => {
    const turns = [
      { stop: "call", hidden_because: null, messages: 2, outside: 0 },
      { stop: "return", hidden_because: null, messages: 3, outside: 2 },
    ];
    expect(rowsOf(inspectionOf(three, { outside, turns })).map(rowKey)).toEqual(["m0", "m1", "t0", "o0", "m2", "o1", "t1"]);
  });

  it("say where an answer begins, which is in the header of a message", () => {
    const trace: TurnTrace = { ...inspectionOf(three), prompt_tokens: 7, left_out: null, faults: [] };
    expect(rowsOf(trace).map(rowKey)).toEqual(["m0", "answer", "m1", "m2"]);
  });

  it("have no beginning of an answer where there is none behind the prompt", () => {
    const trace: TurnTrace = { ...inspectionOf(three), prompt_tokens: 15, left_out: null, faults: [] };
    expect(rowsOf(trace).map(rowKey)).toEqual(["m0", "m1", "m2"]);
  });
});

describe("tokens", () => {
  it("are counted on through what is outside of messages", () => {
    expect(piecesOf(inspectionOf(three, { outside })).map((piece) => piece.start)).toEqual([0, 5, 10, 12, 17]);
    expect(messagesStarting(inspectionOf(three, { outside }))).toEqual([0, 5, 12]);
  });

  it("have the places of the ids where the input was ids", () => {
    const late = message(1);
    late.spans.header.start_token = 9;
    expect(messagesStarting(inspectionOf([message(0), late, message(2)]))).toEqual([0, 9, 14]);
  });

  it("know their part", () => {
    expect([0, 2, 3, 4].map((offset) => partAt(message(0), offset))).toEqual(["header", "header", "body", "stop"]);
  });

  it("are found again from a hit in the text", () => {
    const parrot = message(0, { body: [12194, 9552, 99, 250, 1354], content: "Hi 🦜 there" });
    expect(tokenOfHit(parrot, TABLE, { message: 0, part: "body", start: 0, end: 1 })).toBe(3);
    expect(tokenOfHit(parrot, TABLE, { message: 0, part: "body", start: 3, end: 5 })).toBe(4);
    expect(tokenOfHit(parrot, TABLE, { message: 0, part: "body", start: 6, end: 9 })).toBe(7);
    expect(tokenOfHit(parrot, TABLE, { message: 0, part: "header", start: 10, end: 12 })).toBe(1);
    expect(tokenOfHit(parrot, TABLE, { message: 0, part: "token", start: 2, end: 3 })).toBe(2);
  });
});

describe("blocks", () => {
  it("are bounded, cover every token once, and never cut a character", () => {
    const body = Array.from({ length: 200 }, () => [12194, 9552, 99, 250]).flat();
    const inspection = inspectionOf([message(0, { body }), message(1)], { outside: [{ text: "x", start_char: 90, tokens: 1, ids: [12194] }] });
    const blocks = blocksOf(inspection, rowsOf(inspection));
    expect(blocks.every((block) => block.groups.length <= TOKENS_PER_BLOCK)).toBe(true);
    let next = 0;
    for (const block of blocks) {
      expect(block.start).toBe(next);
      next += block.count;
    }
    expect(next).toBe(inspection.tokens + 1);
    expect(blocks.flatMap((block) => block.groups.filter((group) => group.ids.length === 3))).toHaveLength(200);
  });
});

describe("problems", () => {
  it("are at the header, at the body, outside, and at the end", () => {
    const inspection = inspectionOf(three, {
      outside,
      diagnostics: [
        problem("header.x", { character: 110, message: 1 }),
        problem("body.x", { character: 135, message: 1 }),
        problem("stream.text_outside", { character: 152, message: 2 }),
        problem("stream.unfinished", { character: 300, message: 3 }),
        problem("header.y", { message: 2 }),
      ],
    });
    const places = placesOf(inspection, rowsOf(inspection));
    expect(places).toEqual([
      { key: "m1", part: "header" },
      { key: "m1", part: "body" },
      { key: "o0", part: "body" },
      { key: "o1", part: "body" },
      { key: "m2", part: "header" },
    ]);
    expect(problemsByRow(places).get("m1")).toEqual([0, 1]);
  });

  it("have a place where there is no message at all", () => {
    const inspection = inspectionOf([], { diagnostics: [problem("input.empty", {})] });
    expect(placesOf(inspection, rowsOf(inspection))).toEqual([{ key: "", part: "body" }]);
  });
});

describe("words", () => {
  it("give each message a tone", () => {
    expect(toneOf({ role: "assistant", channel: "analysis" })).toBe("analysis");
    expect(toneOf({ role: "assistant", channel: "finalx" })).toBe("unknown");
    expect(toneOf({ role: "tool", channel: "commentary" })).toBe("tool");
    expect(toneOfChannel("no channel (user)")).toBe("user");
    expect(toneOfChannel("outside messages")).toBe("unknown");
  });

  it("never say 0 for something or 100 for less than all", () => {
    expect([0, 0.0001, 0.05, 0.5, 0.9999, 1].map(percent)).toEqual(["0 %", "< 0.1 %", "5.0 %", "50 %", "> 99.9 %", "100 %"]);
    expect(counted(1, "token")).toBe("1 token");
    expect(counted(1234, "token")).toBe("1,234 tokens");
  });

  it("find the last one that is not above", () => {
    expect([0, 4, 5, 9, 100].map((value) => lastNotAbove([0, 5, 10], value))).toEqual([0, 0, 1, 1, 2]);
  });
});
