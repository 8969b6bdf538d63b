import { describe, expect, it } from "vitest";
import { plainWords } from "../../src/chat/views/plain_words";
import { settle } from "../../src/markdown/settle";

/**
 * How many times as long the second text takes. What else the machine does only ever adds to a time, so the least of
 * several counts; more are taken while that is not enough.
 */
function growth(read: (text: string) => string, short: string, long: string): number {
  const least = [Infinity, Infinity];
  for (let round = 0; round < 3 || (round < 30 && quotient(least) > MOST_GROWTH); round++) {
    [short, long].forEach((text, which) => {
      const began = performance.now();
      read(text);
      least[which] = Math.min(least[which] ?? Infinity, performance.now() - began);
    });
  }
  return quotient(least);
}

/** Below a millisecond, nothing can be told. */
function quotient([short = 0, long = 0]: readonly number[]): number {
  return long < 1 ? 1 : long / Math.max(short, 0.01);
}

/** Ten for what is linear, a hundred for what is quadratic. The texts are longer than every bound in an expression. */
const MOST_GROWTH = 50;

describe("ten times the text takes about ten times as long, not a hundred times", () => {
  const texts: [string, (count: number) => string][] = [
    ["dashes", (count) => `${"-".repeat(count)}x`],
    ["spaces", (count) => `a${" ".repeat(count)}x`],
    ["bars", (count) => `a${"|".repeat(count)}x`],
    ["commas", (count) => `a${", ".repeat(count / 2)}x`],
    ["stars", (count) => `${"*".repeat(count)}x`],
    ["quotes", (count) => `${">".repeat(count)}x`],
    ["fences", (count) => "```\n".repeat(count / 4)],
    ["unequal fences", (count) => `~~~\n${"```\n".repeat(count / 4)}`],
    ["half links", (count) => "[a](".repeat(count / 4)],
    ["half links with titles", (count) => "[a](b c".repeat(count / 7)],
    ["opened and other marks", (count) => " *a".repeat(count / 6) + "b** ".repeat(count / 8)],
    ["opened and other tags", (count) => "<sub>".repeat(count / 10) + "</sup>".repeat(count / 12)],
    ["runs of backticks", (count) => Array.from({ length: Math.sqrt(count) }, (_, at) => `${"`".repeat(at)}a`).join("")],
    ["half tags", (count) => `<br${" ".repeat(count)}x`],
  ];
  const functions: [string, (text: string) => string][] = [
    ["plainWords", plainWords],
    ["settle", settle],
  ];
  it.each(texts.flatMap(([name, make]) => functions.map(([which, read]) => [which, name, read, make] as const)))(
    "%s of %s",
    (_which, _name, read, make) => {
      expect(growth(read, make(10_000), make(100_000))).toBeLessThanOrEqual(MOST_GROWTH);
    },
  );
});
