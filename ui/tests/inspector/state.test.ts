import { beforeEach, describe, expect, it, vi } from "vitest";
import { Failure } from "../../src/api/client";
import type { Inspection } from "../../src/api/inspect";
import { NO_FILTERS } from "../../src/inspector/filters";
import {
  closeInspection,
  currentHit,
  failure,
  filters,
  hitAt,
  hits,
  inspection,
  isBusy,
  isInputOpen,
  jumps,
  look,
  open,
  select,
  selected,
  stepHit,
  stepProblem,
} from "../../src/inspector/state";
import { inspectionOf, message, problem } from "./traces";

const trace = (): Inspection =>
  inspectionOf([message(0), message(1, { role: "assistant", channel: "final", content: "Hi, hi" })], {
    diagnostics: [problem("header.x", { character: 10, message: 0 }), problem("body.x", { character: 140, message: 1 })],
  });
const input = { kind: "input" } as const;

beforeEach(() => closeInspection());

describe("opening", () => {
  it("shows what came, and folds the input", async () => {
    expect(await open(input, async () => trace())).toBe(true);
    expect(inspection.value?.messages).toHaveLength(2);
    expect(isInputOpen.value).toBe(false);
    expect(isBusy.value).toBe(false);
  });

  it("lets the newer one win, whichever comes first", async () => {
    let give: (found: Inspection) => void = () => undefined;
    const aborted = vi.fn();
    const older = open(input, (signal) => {
      signal.addEventListener("abort", aborted);
      return new Promise((resolve) => (give = resolve));
    });
    const newer = trace();
    expect(await open(input, async () => newer)).toBe(true);
    give(inspectionOf([]));
    expect(await older).toBe(false);
    expect(aborted).toHaveBeenCalled();
    expect(inspection.value).toBe(newer);
  });

  it("keeps what is open where the next one fails", async () => {
    const before = trace();
    await open(input, async () => before);
    expect(await open(input, () => Promise.reject(new Failure("request", "no")))).toBe(false);
    expect(failure.value?.message).toBe("no");
    expect(inspection.value).toBe(before);
    expect(isBusy.value).toBe(false);
  });

  it("forgets where the reader was in another trace", async () => {
    await open(input, async () => trace());
    select({ kind: "message", message: 1 });
    filters.value = { ...NO_FILTERS, role: "user" };
    look({ query: "hi" });
    await open(input, async () => trace());
    expect([selected.value, filters.value, hits.value.length, hitAt.value]).toEqual([null, NO_FILTERS, 0, -1]);
  });
});

describe("going somewhere", () => {
  beforeEach(async () => void (await open(input, async () => trace())));

  it("walks problems in a circle", () => {
    const walked = [1, 1, 1, -1, -1].map((by) => {
      stepProblem(by as 1 | -1);
      return selected.value?.kind === "diagnostic" ? selected.value.diagnostic : null;
    });
    expect(walked).toEqual([0, 1, 0, 1, 0]);
  });

  it("drops filters that hide where it goes, and only those", () => {
    filters.value = { ...NO_FILTERS, role: "assistant" };
    select({ kind: "message", message: 1 });
    expect(filters.value.role).toBe("assistant");
    select({ kind: "diagnostic", diagnostic: 0 });
    expect(filters.value).toEqual(NO_FILTERS);
  });

  it("counts each time, so that the same place can be asked for twice", () => {
    const before = jumps.value;
    select({ kind: "message", message: 0 });
    select({ kind: "message", message: 0 });
    expect(jumps.value).toBe(before + 2);
  });

  it("walks hits, also of ids", () => {
    look({ query: "hi", place: "bodies" });
    expect(hits.value).toHaveLength(3);
    stepHit(-1);
    expect(currentHit.value).toMatchObject({ message: 1, start: 4 });
    stepHit(1);
    expect(currentHit.value).toMatchObject({ message: 0, start: 0 });
    look({ query: "200008", place: "ids" });
    stepHit(1);
    stepHit(1);
    expect(selected.value).toEqual({ kind: "token", token: 7 });
  });
});
