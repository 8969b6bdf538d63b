/**
 * Which rows of a long list are in sight, when only those that were ever shown have been measured. Pure.
 *
 * Heights are kept in a Fenwick tree: changing one, asking where a row begins, and asking which row is at a place all
 * take steps that grow with the logarithm of the number of rows.
 */

export class Heights {
  private readonly heights: Float64Array;
  private readonly tree: Float64Array;
  private readonly measured: Uint8Array;

  constructor(
    readonly count: number,
    estimate: (row: number) => number,
  ) {
    this.heights = new Float64Array(count);
    this.tree = new Float64Array(count + 1);
    this.measured = new Uint8Array(count);
    for (let row = 0; row < count; row++) {
      this.heights[row] = estimate(row);
      this.tree[row + 1] = estimate(row);
    }
    for (let at = 1; at <= count; at++) {
      const above = at + (at & -at);
      if (above <= count) this.tree[above]! += this.tree[at]!;
    }
  }

  get total(): number {
    return this.top(this.count);
  }

  height(row: number): number {
    return this.heights[row] ?? 0;
  }

  isMeasured(row: number): boolean {
    return this.measured[row] === 1;
  }

  /** By how much the row is higher than it was thought to be. */
  measure(row: number, height: number): number {
    if (row < 0 || row >= this.count) return 0;
    const more = height - this.height(row);
    this.measured[row] = 1;
    if (more === 0) return 0;
    this.heights[row] = height;
    for (let at = row + 1; at <= this.count; at += at & -at) this.tree[at]! += more;
    return more;
  }

  /** Where a row begins; of the number of rows, where the last one ends. */
  top(row: number): number {
    let sum = 0;
    for (let at = Math.min(row, this.count); at > 0; at -= at & -at) sum += this.tree[at]!;
    return sum;
  }

  /** The row at a place: the last one that does not begin below it. */
  rowAt(y: number): number {
    let at = 0;
    let rest = y;
    for (let step = 2 ** Math.floor(Math.log2(Math.max(1, this.count))); step >= 1; step /= 2) {
      const next = at + step;
      if (next <= this.count && this.tree[next]! <= rest) {
        at = next;
        rest -= this.tree[next]!;
      }
    }
    return Math.min(at, Math.max(0, this.count - 1));
  }

  /** The rows between two places, the last one not included, with at most `most` rows. */
  between(from: number, to: number, most: number): [number, number] {
    if (this.count === 0) return [0, 0];
    const first = this.rowAt(Math.max(0, from));
    return [first, Math.min(this.rowAt(Math.max(0, to)) + 1, first + most, this.count)];
  }
}
