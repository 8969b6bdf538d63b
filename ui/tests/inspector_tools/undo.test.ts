import { expect, test } from "vitest";
import { begin, record, redo, undo } from "../../src/inspector/tools/undo";

const bounds = { steps: 3, weight: 100, weigh: (text: string) => text.length };

test("undo goes back, redo forth, and a change drops what was undone", () => {
  let history = record(record(begin("a"), "b", bounds), "c", bounds);
  history = undo(history);
  expect(history.present).toBe("b");
  expect(redo(history).present).toBe("c");
  history = record(history, "d", bounds);
  expect(redo(history)).toBe(history);
  expect(undo(undo(history)).present).toBe("a");
  expect(undo(undo(undo(history))).present).toBe("a");
});

test("changes of a group are one step, until something else happens", () => {
  let history = begin("");
  for (const text of ["h", "hi", "hi!"]) history = record(history, text, bounds, "typing");
  expect(history.past).toEqual([""]);
  history = redo(undo(history));
  history = record(history, "hi!!", bounds, "typing");
  expect(undo(history).present).toBe("hi!");
});

test("what is kept is bounded by steps and by weight", () => {
  let history = begin("0");
  for (let at = 1; at < 9; at += 1) history = record(history, String(at), bounds);
  expect(history.past).toEqual(["5", "6", "7"]);
  history = record(record(history, "x".repeat(90), bounds), "y".repeat(20), bounds);
  expect(history.past).toEqual(["6", "7", "8", "x".repeat(90)].slice(-3));
  history = record(record(history, "x".repeat(90), bounds), "z", bounds);
  expect(history.past).toEqual(["x".repeat(90)]);
});
