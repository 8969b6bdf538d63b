import { expect, test } from "vitest";
import type { Spelling } from "../../src/api/inspect";
import { Characters } from "../../src/inspector/tools/characters";
import { costsOf, sumOf } from "../../src/inspector/tools/costs";
import { contextOf } from "../../src/inspector/tools/spelled_context";

test("the dearest tool is first, with its shares", () => {
  const schemas = [
    { tool: "functions.b", tokens: 10, share: 0 },
    { tool: "functions.c", tokens: 40, share: 0 },
    { tool: "functions.a", tokens: 10, share: 0 },
  ];
  const costs = costsOf(schemas, 100, 1000);
  expect(costs.map(({ tool }) => tool)).toEqual(["functions.c", "functions.a", "functions.b"]);
  expect(costs[0]).toEqual({ tool: "functions.c", tokens: 40, ofPrompt: 0.4, ofContext: 0.04, ofLargest: 1 });
  expect(sumOf(costs)).toBe(60);
  expect(costsOf(schemas, 0, null)[0]).toMatchObject({ ofPrompt: 0, ofContext: null });
});

test("a spelling is shown in its context, or not at all where the place holds something else", () => {
  const characters = new Characters("🦜🦜 say <|end|> now");
  const spelling = { text: "<|end|>", start_char: 7, end_char: 14 } as Spelling;
  expect(contextOf(characters, spelling, 4)).toEqual({ before: "…say ", text: "<|end|>", after: " now" });
  expect(contextOf(characters, { ...spelling, start_char: 6, end_char: 13 }, 4)).toBeNull();
  expect(contextOf(null, spelling)).toBeNull();
});
