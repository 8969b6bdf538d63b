import { describe, expect, it } from "vitest";
import { NO_FILTERS, choicesOf, isFiltered, shownRows, toolsOf } from "../../src/inspector/filters";
import { placesOf } from "../../src/inspector/problems";
import { rowKey, rowsOf } from "../../src/inspector/trace";
import { inspectionOf, message, problem } from "./traces";

const inspection = inspectionOf(
  [
    message(0),
    message(1, { role: "assistant", channel: "analysis" }),
    message(2, { role: "assistant", channel: "commentary", recipient: "functions.x" }),
    message(3, { role: "tool", name: "functions.x", channel: "commentary", recipient: "assistant" }),
  ],
  {
    outside: [{ text: "stray", start_char: 260, tokens: 1 }],
    diagnostics: [problem("header.x", { character: 110, message: 1 }), problem("stream.text_outside", { character: 260, message: 3 })],
  },
);
const rows = rowsOf(inspection);
const shown = (filters: Partial<typeof NO_FILTERS>) =>
  shownRows(inspection, rows, placesOf(inspection, rows), { ...NO_FILTERS, ...filters }).map(rowKey);

describe("filters", () => {
  it("let everything pass where none is set", () => {
    expect(shown({})).toEqual(["m0", "m1", "m2", "o0", "m3"]);
    expect(isFiltered(NO_FILTERS)).toBe(false);
  });

  it("go by role, channel and tool, and hide what is no message", () => {
    expect(shown({ role: "assistant" })).toEqual(["m1", "m2"]);
    expect(shown({ channel: "" })).toEqual(["m0"]);
    expect(shown({ channel: "commentary", role: "tool" })).toEqual(["m3"]);
    expect(shown({ tool: "functions.x" })).toEqual(["m2", "m3"]);
  });

  it("go by problem, also where no message is", () => {
    expect(shown({ problem: "any" })).toEqual(["m1", "o0"]);
    expect(shown({ problem: "header.x" })).toEqual(["m1"]);
    expect(shown({ problem: "any", role: "user" })).toEqual([]);
  });

  it("offer what there is, with its number", () => {
    const choices = choicesOf(inspection);
    expect(choices.role).toContainEqual({ value: "assistant", count: 2 });
    expect(choices.channel).toContainEqual({ value: "", count: 1 });
    expect(choices.tool).toEqual([{ value: "functions.x", count: 2 }]);
    expect(choices.problem).toHaveLength(2);
  });

  it("do not take the assistant for a tool", () => {
    expect(toolsOf(message(0, { recipient: "assistant" }))).toEqual([]);
    expect(toolsOf(message(0, { recipient: "all" }))).toEqual([]);
  });
});
