/**
 * Places in a text. The server counts characters (code points), JavaScript counts UTF-16 units; an emoji is one of the
 * former and two of the latter.
 */

export class Characters {
  /** Which characters take two units, by their position in characters. */
  private readonly wide: number[] = [];

  constructor(readonly text: string) {
    for (const found of text.matchAll(/[\ud800-\udbff][\udc00-\udfff]/g)) this.wide.push(found.index - this.wide.length);
  }

  get length(): number {
    return this.text.length - this.wide.length;
  }

  /** Where a character begins, in units. */
  unitOf(character: number): number {
    return character + countBelow(this.wide, character);
  }

  /** Which character begins at, or has, this unit. */
  characterOf(unit: number): number {
    let low = 0;
    let high = this.wide.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      // The unit at which the character after this wide one begins.
      if ((this.wide[middle] ?? 0) + middle + 2 <= unit) low = middle + 1;
      else high = middle;
    }
    const inside = this.wide[low];
    return inside !== undefined && inside + low + 1 === unit ? inside : unit - low;
  }

  /** The text between two characters. */
  slice(start: number, end: number): string {
    return this.text.slice(this.unitOf(start), this.unitOf(end));
  }
}

/** How many of the sorted numbers are below this one. */
export function countBelow(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
