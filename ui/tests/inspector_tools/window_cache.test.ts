import { expect, test } from "vitest";
import type { Replay } from "../../src/api/inspect";
import { WindowCache } from "../../src/inspector/tools/window_cache";

function source(total: number, asked: number[] = []) {
  return async (start: number, count: number): Promise<Replay> => {
    asked.push(start);
    const steps = Array.from({ length: Math.max(0, Math.min(count, total - start)) }, (_, index) => ({
      at: start + index, id: start + index, text: "x", state: "body", message: 0, channel: null, recipient: null, pending: "",
      events: (start + index) % 25 === 24 ? [{ type: "message_ended", n: start + index }] : [],
    }));
    return { total, unit: "tokens", start, steps, closing: start + count >= total ? [{ type: "closed" }] : null };
  };
}

test("a window is asked for once, also while it is under way", async () => {
  const asked: number[] = [];
  const cache = new WindowCache(source(100, asked), 10, 3);
  expect(cache.step(5)).toBeNull();
  await Promise.all([cache.need(5), cache.need(6), cache.need(9)]);
  await cache.need(0);
  expect(asked).toEqual([0]);
  expect(cache.step(7)?.id).toBe(7);
  expect(cache.total).toBe(100);
});

test("few windows are kept, and those in use longest", async () => {
  const cache = new WindowCache(source(1000), 10, 3);
  for (const at of [0, 10, 20]) await cache.need(at);
  await cache.need(3);
  await cache.need(500);
  expect(cache.held).toBe(3);
  expect(cache.step(3)).not.toBeNull();
  expect(cache.step(12)).toBeNull();
});

test("steps outside the trace are not asked for", async () => {
  const asked: number[] = [];
  const cache = new WindowCache(source(20, asked), 10, 3);
  await cache.need(0);
  expect(await cache.need(20)).toBe(false);
  expect(await cache.need(-1)).toBe(false);
  expect(asked).toEqual([0]);
});

test("something is found in windows that were not here, and the search is bounded", async () => {
  const asked: number[] = [];
  const cache = new WindowCache(source(1000, asked), 10, 3);
  expect(await cache.find(0, 1, (step) => step.events.length > 0)).toBe(24);
  expect(await cache.find(99, -1, (step) => step.events.length > 0)).toBe(99);
  expect(await cache.find(98, -1, (step) => step.events.length > 0)).toBe(74);
  asked.length = 0;
  expect(await cache.find(500, 1, () => false, 4)).toBeNull();
  expect(asked).toHaveLength(4);
  expect(await cache.find(990, 1, () => false)).toBeNull();
});

test("events are told newest first, and no more than asked for", async () => {
  const cache = new WindowCache(source(100), 50, 3);
  await cache.need(0);
  await cache.need(50);
  expect(cache.eventsUntil(80, 10).map(({ at }) => at)).toEqual([74, 49, 24]);
  expect(cache.eventsUntil(80, 2).map(({ at }) => at)).toEqual([74, 49]);
  expect(cache.closing).toEqual([{ type: "closed" }]);
});

test("a window that failed is asked for again", async () => {
  let fails = true;
  const good = source(10);
  const cache = new WindowCache((start, count) => (fails ? Promise.reject(new Error("gone")) : good(start, count)), 10);
  await expect(cache.need(0)).rejects.toThrow("gone");
  fails = false;
  expect(await cache.need(0)).toBe(true);
});
