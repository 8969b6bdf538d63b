import { describe, expect, it } from "vitest";
import { Timing } from "../../src/chat/timing";

describe("timing", () => {
  it("measures the first token, each item, and speed without the time of tools", () => {
    let now = 10;
    const timing = new Timing(() => now);
    expect([timing.firstToken, timing.speed(5), timing.seconds(0)]).toEqual([null, null, null]);
    now = 12;
    timing.begin(0);
    expect(timing.firstToken).toBe(2);
    expect(timing.speed(5)).toBeNull();
    now = 14;
    timing.end(0);
    timing.begin(1);
    timing.toolRuns();
    now = 20;
    expect(timing.seconds(0)).toBe(2);
    expect(timing.seconds(1)).toBe(6);
    expect(timing.speed(20)).toBe(10);
    timing.toolEnded();
    timing.end(1);
    now = 22;
    timing.stop();
    now = 99;
    expect(timing.speed(20)).toBe(5);
    expect(timing.total).toBe(12);
  });

  it("ends with the answer what is still open", () => {
    let now = 0;
    const timing = new Timing(() => now);
    timing.begin(0);
    now = 3;
    timing.stop();
    now = 9;
    expect(timing.seconds(0)).toBe(3);
  });

  it("goes on from what a continued answer took", () => {
    let now = 0;
    const timing = new Timing(() => now, { total_s: 5, first_token_s: 1 });
    now = 2;
    timing.token();
    expect([timing.total, timing.firstToken]).toEqual([7, 1]);
  });
});
