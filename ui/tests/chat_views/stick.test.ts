import { describe, expect, it } from "vitest";
import { sticks } from "../../src/chat/views/stick";

const place = (top: number, height = 1000) => ({ top, height, viewport: 400 });

describe("sticks", () => {
  it("follows the end while the column grows", () => {
    expect(sticks(true, 600, place(600, 1400))).toBe(true);
  });
  it("lets go when the person scrolls up", () => {
    expect(sticks(true, 600, place(400))).toBe(false);
  });
  it("follows again at the end", () => {
    expect(sticks(false, 500, place(590))).toBe(true);
    expect(sticks(false, 590, place(600))).toBe(true);
  });
  it("stays free while somebody reads above", () => {
    expect(sticks(false, 100, place(200))).toBe(false);
  });
  it("is not caught again by a small step up from the end", () => {
    expect(sticks(false, 600, place(580))).toBe(false);
  });
});
