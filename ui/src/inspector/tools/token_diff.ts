/**
 * Which tokens differ between two lists. Pure.
 *
 * 1. The runs cover both lists, in order: what is the same, what was removed, what was added.
 * 2. Work and memory are bounded: a common beginning and end cost one look at each token, and between them at most
 *    `MOST_EDITS` edits are searched for. Lists that differ more are told as one removal and one addition.
 */

export const MOST_EDITS = 400;

export interface Run {
  kind: "same" | "removed" | "added";
  /** Where it stands in the first list, and in the second; one of them is empty unless it is the same. */
  before: readonly [number, number];
  after: readonly [number, number];
}

export function sharedStart(before: readonly number[], after: readonly number[]): number {
  const most = Math.min(before.length, after.length);
  let shared = 0;
  while (shared < most && before[shared] === after[shared]) shared += 1;
  return shared;
}

export function sharedEnd(before: readonly number[], after: readonly number[], from: number): number {
  const most = Math.min(before.length, after.length) - from;
  let shared = 0;
  while (shared < most && before[before.length - 1 - shared] === after[after.length - 1 - shared]) shared += 1;
  return shared;
}

export function diffTokens(before: readonly number[], after: readonly number[], mostEdits = MOST_EDITS): Run[] {
  const start = sharedStart(before, after);
  const end = sharedEnd(before, after, start);
  const runs = new Runs();
  runs.add("same", start);
  const removed = before.slice(start, before.length - end);
  const added = after.slice(start, after.length - end);
  const path = removed.length === 0 || added.length === 0 ? null : shortestEdits(removed, added, mostEdits);
  if (path === null) {
    runs.add("removed", removed.length);
    runs.add("added", added.length);
  } else for (const kind of path) runs.add(kind, 1);
  runs.add("same", end);
  return runs.list;
}

export interface Marked {
  id: number;
  kind: Run["kind"];
}

/** How many tokens were removed and added. */
export function countChanges(runs: readonly Run[]): { removed: number; added: number } {
  const counts = { removed: 0, added: 0 };
  for (const run of runs) {
    if (run.kind === "removed") counts.removed += run.before[1] - run.before[0];
    else if (run.kind === "added") counts.added += run.after[1] - run.after[0];
  }
  return counts;
}

/** Tokens to show, or how many of a kind are left out. */
export type Piece = { kind: "tokens"; tokens: Marked[] } | { kind: "gap"; of: Run["kind"]; tokens: number };

/** So many tokens of one removal or addition are shown, most of them from its beginning. */
const MOST_IN_RUN = 90;
const LAST_IN_RUN = 20;

/** What to show of a diff: changed tokens, and `context` tokens of what is the same around them; at most `most` tokens. */
export function excerpt(
  runs: readonly Run[],
  before: readonly number[],
  after: readonly number[],
  context = 6,
  most = 600,
): Piece[] {
  const pieces: Piece[] = [];
  let left = most;
  const put = (kind: Run["kind"], ids: readonly number[]): void => {
    const taken = ids.slice(0, Math.max(left, 0));
    left -= taken.length;
    const last = pieces.at(-1);
    const tokens = taken.map((id) => ({ id, kind }));
    if (last?.kind === "tokens") last.tokens.push(...tokens);
    else if (tokens.length > 0) pieces.push({ kind: "tokens", tokens });
    skip(kind, ids.length - taken.length);
  };
  const skip = (of: Run["kind"], tokens: number): void => {
    if (tokens === 0) return;
    const last = pieces.at(-1);
    if (last?.kind === "gap" && last.of === of) last.tokens += tokens;
    else pieces.push({ kind: "gap", of, tokens });
  };
  const putRun = (kind: Run["kind"], ids: readonly number[]): void => {
    if (ids.length <= MOST_IN_RUN) return put(kind, ids);
    put(kind, ids.slice(0, MOST_IN_RUN - LAST_IN_RUN));
    skip(kind, ids.length - MOST_IN_RUN);
    put(kind, ids.slice(-LAST_IN_RUN));
  };
  runs.forEach((run, at) => {
    if (run.kind === "removed") return putRun("removed", before.slice(...run.before));
    if (run.kind === "added") return putRun("added", after.slice(...run.after));
    const [from, to] = run.after;
    const head = at === 0 ? 0 : Math.min(context, to - from);
    const tail = at === runs.length - 1 ? 0 : Math.min(context, to - from - head);
    put("same", after.slice(from, from + head));
    skip("same", to - from - head - tail);
    put("same", after.slice(to - tail, to));
  });
  return pieces;
}

class Runs {
  readonly list: Run[] = [];
  private x = 0;
  private y = 0;

  add(kind: Run["kind"], count: number): void {
    if (count === 0) return;
    const dx = kind === "added" ? 0 : count;
    const dy = kind === "removed" ? 0 : count;
    const last = this.list.at(-1);
    const isMore = last?.kind === kind;
    const run: Run = {
      kind,
      before: [isMore ? last.before[0] : this.x, this.x + dx],
      after: [isMore ? last.after[0] : this.y, this.y + dy],
    };
    if (isMore) this.list[this.list.length - 1] = run;
    else this.list.push(run);
    this.x += dx;
    this.y += dy;
  }
}

/**
 * The shortest way from one list to the other, token by token; null where it takes more than `most` edits.
 *
 * `reach[k]` is how far the first list is used up on the diagonal k = x - y after d edits; a copy per d lets the way be
 * walked back. Removals come before additions where there is a choice, so that they read as one change.
 */
function shortestEdits(before: readonly number[], after: readonly number[], most: number): Run["kind"][] | null {
  const limit = Math.min(most, before.length + after.length);
  const middle = limit + 1;
  const reach = new Int32Array(2 * middle + 1);
  const kept: Int32Array[] = [];
  for (let d = 0; d <= limit; d += 1) {
    kept.push(reach.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const fromAbove = k === -d || (k !== d && reach[middle + k - 1]! < reach[middle + k + 1]!);
      let x = fromAbove ? reach[middle + k + 1]! : reach[middle + k - 1]! + 1;
      let y = x - k;
      while (x < before.length && y < after.length && before[x] === after[y]) {
        x += 1;
        y += 1;
      }
      reach[middle + k] = x;
      if (x >= before.length && y >= after.length) return walkBack(kept, d, k, x);
    }
  }
  return null;
}

function walkBack(kept: readonly Int32Array[], edits: number, diagonal: number, end: number): Run["kind"][] {
  const way: Run["kind"][] = [];
  let x = end;
  let k = diagonal;
  for (let d = edits; d > 0; d -= 1) {
    // Diagonal k of step d - 1 stands at k + d + 1, because the copy begins at -d - 1.
    const reach = kept[d]!;
    const above = reach[k + 1 + d + 1]!;
    const below = reach[k - 1 + d + 1]!;
    const fromAbove = k === -d || (k !== d && below < above);
    const start = fromAbove ? above : below + 1;
    for (; x > start; x -= 1) way.push("same");
    way.push(fromAbove ? "added" : "removed");
    x = fromAbove ? above : below;
    k += fromAbove ? 1 : -1;
  }
  for (; x > 0; x -= 1) way.push("same");
  return way.reverse();
}
