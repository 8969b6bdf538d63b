import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Failure } from "../../src/api/client";
import { Runner } from "../../src/inspector/tools/task";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("letters that are typed quickly are one request, and a newer one stops the one before it", async () => {
  const started: string[] = [];
  const stopped: string[] = [];
  const runner = new Runner<string>(() => undefined);
  const work = (name: string) => (signal: AbortSignal) => {
    started.push(name);
    return new Promise<string>((resolve, reject) => {
      signal.addEventListener("abort", () => (stopped.push(name), reject(new DOMException("", "AbortError"))));
      setTimeout(() => resolve(name), 100);
    });
  };
  runner.run(work("a"), 50);
  await vi.advanceTimersByTimeAsync(20);
  runner.run(work("b"), 50);
  await vi.advanceTimersByTimeAsync(60);
  runner.run(work("c"), 0);
  await vi.advanceTimersByTimeAsync(200);
  expect(started).toEqual(["b", "c"]);
  expect(stopped).toEqual(["b"]);
  expect(runner.state).toEqual({ value: "c", failure: null, isBusy: false });
});

test("a failure leaves the last result in place", async () => {
  const runner = new Runner<string>(() => undefined);
  runner.run(async () => "good");
  await vi.runAllTimersAsync();
  runner.run(async () => Promise.reject(new Failure("gone", "The server does not answer.")));
  await vi.runAllTimersAsync();
  expect(runner.state.value).toBe("good");
  expect(runner.state.failure?.kind).toBe("gone");
});
