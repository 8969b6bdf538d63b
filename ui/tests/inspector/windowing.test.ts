import { describe, expect, it } from "vitest";
import { Heights } from "../../src/inspector/windowing";

describe("heights", () => {
  it("agree with plain sums, however they are measured", () => {
    const plain = Array.from({ length: 137 }, (_, row) => 10 + (row % 7));
    const heights = new Heights(plain.length, (row) => plain[row] as number);
    let seed = 7;
    for (let round = 0; round < 300; round++) {
      seed = (seed * 48271) % 2147483647;
      const row = seed % plain.length;
      const height = seed % 50;
      expect(heights.measure(row, height)).toBe(height - (plain[row] as number));
      plain[row] = height;
      const at = (seed >> 3) % (plain.length + 1);
      expect(heights.top(at)).toBe(plain.slice(0, at).reduce((sum, one) => sum + one, 0));
    }
    expect(heights.total).toBe(plain.reduce((sum, one) => sum + one, 0));
  });

  it("find the row at a place", () => {
    const heights = new Heights(5, () => 10);
    expect([-5, 0, 9.9, 10, 49, 50, 1000].map((y) => heights.rowAt(y))).toEqual([0, 0, 0, 1, 4, 4, 4]);
    for (let count = 1; count < 40; count++) {
      const list = new Heights(count, (row) => row + 1);
      for (let row = 0; row < count; row++) expect(list.rowAt(list.top(row))).toBe(row);
    }
  });

  it("give a window that is bounded, also at the ends", () => {
    const heights = new Heights(2000, () => 100);
    expect(heights.between(0, 900, 120)).toEqual([0, 10]);
    expect(heights.between(-600, 300, 120)).toEqual([0, 4]);
    expect(heights.between(199_000, 300_000, 120)).toEqual([1990, 2000]);
    expect(new Heights(2000, () => 1).between(0, 900, 120)).toEqual([0, 120]);
    expect(new Heights(0, () => 1).between(0, 900, 120)).toEqual([0, 0]);
  });

  it("know what was measured", () => {
    const heights = new Heights(2, () => 10);
    heights.measure(1, 10);
    expect([heights.isMeasured(0), heights.isMeasured(1)]).toEqual([false, true]);
    expect(heights.measure(9, 10)).toBe(0);
  });
});
