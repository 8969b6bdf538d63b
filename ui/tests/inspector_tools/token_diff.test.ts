import { expect, test } from "vitest";
import { countChanges, diffTokens, excerpt, type Run } from "../../src/inspector/tools/token_diff";

/** What the runs say the second list is, read from the first; and that they cover both. */
function replayed(runs: Run[], before: number[], after: number[]): number[] {
  const built: number[] = [];
  let x = 0;
  let y = 0;
  for (const run of runs) {
    expect(run.before[0]).toBe(x);
    expect(run.after[0]).toBe(y);
    [x, y] = [run.before[1], run.after[1]];
    if (run.kind === "same") built.push(...before.slice(...run.before));
    if (run.kind === "added") built.push(...after.slice(...run.after));
  }
  expect([x, y]).toEqual([before.length, after.length]);
  return built;
}

function slowDistance(a: number[], b: number[]): number {
  let row = b.map((_, at) => at + 1);
  row.unshift(0);
  a.forEach((left, x) => {
    const next = [x + 1];
    b.forEach((right, y) => next.push(left === right ? row[y]! : 1 + Math.min(row[y + 1]!, next[y]!)));
    row = next;
  });
  return row[b.length]!;
}

test("equal lists are one run, empty lists none", () => {
  expect(diffTokens([1, 2], [1, 2])).toEqual([{ kind: "same", before: [0, 2], after: [0, 2] }]);
  expect(diffTokens([], [])).toEqual([]);
});

test("a change in the middle is a removal and an addition", () => {
  expect(diffTokens([1, 2, 3], [1, 9, 3]).map(({ kind }) => kind)).toEqual(["same", "removed", "added", "same"]);
});

test("every pair of short lists is covered with the fewest edits", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 400; round += 1) {
    const before = Array.from({ length: random(9) }, () => (random(8) >> 1) % 3);
    const after = Array.from({ length: random(9) }, () => (random(8) >> 1) % 3);
    const runs = diffTokens(before, after);
    expect(replayed(runs, before, after)).toEqual(after);
    const { removed, added } = countChanges(runs);
    expect(removed + added).toBe(slowDistance(before, after));
  }
});

test("lists that differ too much are told as one removal and one addition", () => {
  const before = Array.from({ length: 5000 }, (_, at) => at);
  const after = before.map((id) => id + 10_000);
  const runs = diffTokens([7, ...before, 8], [7, ...after, 8]);
  expect(runs.map(({ kind }) => kind)).toEqual(["same", "removed", "added", "same"]);
});

test("an excerpt keeps what changed and a little around it", () => {
  const before = Array.from({ length: 100 }, (_, at) => at);
  const after = [...before];
  after[50] = 999;
  const pieces = excerpt(diffTokens(before, after), before, after, 2);
  expect(pieces).toEqual([
    { kind: "gap", of: "same", tokens: 48 },
    {
      kind: "tokens",
      tokens: [
        { id: 48, kind: "same" },
        { id: 49, kind: "same" },
        { id: 50, kind: "removed" },
        { id: 999, kind: "added" },
        { id: 51, kind: "same" },
        { id: 52, kind: "same" },
      ],
    },
    { kind: "gap", of: "same", tokens: 47 },
  ]);
});

test("an excerpt is bounded", () => {
  const before = Array.from({ length: 5000 }, (_, at) => at);
  const after = before.map((id) => id + 10_000);
  const pieces = excerpt(diffTokens(before, after), before, after, 2, 100);
  // Both ends of what was removed, the beginning of what was added, and how much is left out of each.
  expect(pieces.map((piece) => (piece.kind === "gap" ? `${piece.tokens} ${piece.of}` : piece.tokens.length))).toEqual([
    70,
    "4910 removed",
    30,
    "4990 added",
  ]);
});
