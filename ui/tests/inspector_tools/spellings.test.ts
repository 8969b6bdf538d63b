import { expect, test } from "vitest";
import { findSpellings } from "../../src/inspector/tools/spellings";

test("spellings of control tokens are found, look-alikes are not", () => {
  const found = findSpellings("a <|end|> <|reserved_200019|> <|ende|> < |end|> <|END|> <|im_start|>");
  expect(found.map(({ text }) => text)).toEqual(["<|end|>", "<|reserved_200019|>"]);
  expect(found[0]).toEqual({ text: "<|end|>", start: 2, end: 9 });
});

test("no more are found than asked for", () => {
  expect(findSpellings("<|end|>".repeat(9), 4)).toHaveLength(4);
});
