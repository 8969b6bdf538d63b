import { expect, test } from "vitest";
import type { Inspection } from "../../src/api/inspect";
import { advance, clamp, isNotable, marksOf, nextMark, sayEvent, stationOf } from "../../src/inspector/tools/playback";

test("the parser's words are stations of the diagram", () => {
  expect(["wait", "start", "header", "body", "other"].map(stationOf)).toEqual(["start", "start", "header", "body", null]);
});

test("time becomes steps, and what is left of it is not lost", () => {
  let rest_s = 0;
  let steps = 0;
  for (let frame = 0; frame < 100; frame += 1) {
    const next = advance(rest_s, 0.04, 10);
    steps += next.steps;
    rest_s = next.rest_s;
  }
  expect(steps).toBe(40);
  expect(advance(0, 3600, 10).steps).toBe(10);
});

test("marks are behind the step they name, sorted, in the unit of the replay", () => {
  const span = (token: number | null, character: number) => ({ header: { start_token: token, start_char: character } });
  const found = {
    messages: [{ spans: span(0, 0) }, { spans: span(5, 40) }],
    diagnostics: [{ at: { token: 7, character: 50 } }, { at: { token: 3, character: 20 } }, { at: { message: 1 } }, { at: { token: 3 } }],
  } as unknown as Inspection;
  expect(marksOf(found, "tokens", 7)).toEqual({ messages: [1, 6], problems: [4, 7] });
  expect(marksOf(found, "characters", 99)).toEqual({ messages: [1, 41], problems: [21, 51] });
});

test("jumping goes to the next or the previous mark, never to the one it stands on", () => {
  expect(nextMark([1, 6, 9], 0, 1)).toBe(1);
  expect(nextMark([1, 6, 9], 6, 1)).toBe(9);
  expect(nextMark([1, 6, 9], 6, -1)).toBe(1);
  expect(nextMark([1, 6, 9], 9, 1)).toBeNull();
  expect(nextMark([1, 6, 9], 1, -1)).toBeNull();
});

test("events are told in a line, shortened; pieces of text are not notable", () => {
  expect(sayEvent({ type: "text_delta", text: "a\n", start_token: 3 })).toBe('"a\\n"');
  expect(sayEvent({ type: "message_ended", index: 3, stop: "call", message: { role: "user" }, characters: 7, end_char: 9 })).toBe(
    "message 4, stop: call, characters: 7",
  );
  expect(sayEvent({ type: "header_completed", header: { role: "assistant", name: null, channel: "final", recipient: "f" } })).toBe(
    "assistant · final · to f",
  );
  expect(sayEvent({ type: "repaired", diagnostic: { code: "a.b", message: "m.", repair: "r" } })).toBe("a.b: m. Repair: r");
  expect(sayEvent({ type: "text_delta", text: "x".repeat(500) }, 20)).toHaveLength(21);
  expect(isNotable({ type: "text_delta" })).toBe(false);
  expect(isNotable({ type: "message_started" })).toBe(true);
  expect(clamp(12.4, 12)).toBe(12);
  expect(clamp(-1, 12)).toBe(0);
});
