/**
 * A replay, fetched by windows and kept by few of them.
 *
 * 1. A window is asked for once, however often it is needed while it is under way.
 * 2. At most `keep` windows are held; the ones that were used longest ago go first.
 * 3. A window that failed is asked for again when it is needed again.
 */

import type { Replay, ReplayEvent, ReplayStep } from "../../api/inspect";

export const WINDOW = 1000;
export const KEEP = 6;

export type LoadWindow = (start: number, count: number) => Promise<Replay>;

export class WindowCache {
  /** Steps in all; null until the first window came. */
  total: number | null = null;
  unit: Replay["unit"] = "tokens";
  /** What closing the parser said, once the last window came. */
  closing: ReplayEvent[] | null = null;
  private readonly windows = new Map<number, ReplayStep[]>(); // in the order of use
  private readonly pending = new Map<number, Promise<ReplayStep[]>>();

  constructor(
    private readonly load: LoadWindow,
    readonly size = WINDOW,
    private readonly keep = KEEP,
  ) {}

  get held(): number {
    return this.windows.size;
  }

  /** The step, where it is here. */
  step(at: number): ReplayStep | null {
    const first = this.startOf(at);
    return this.windows.get(first)?.[at - first] ?? null;
  }

  /** Have the window of this step, and tell whether it is (now) here. */
  async need(at: number): Promise<boolean> {
    if (at < 0 || (this.total !== null && at >= Math.max(this.total, 1))) return false;
    const first = this.startOf(at);
    const here = this.windows.get(first);
    if (here !== undefined) {
      this.windows.delete(first);
      this.windows.set(first, here);
      return true;
    }
    let coming = this.pending.get(first);
    if (coming === undefined) {
      coming = this.fetch(first);
      this.pending.set(first, coming);
    }
    await coming;
    return this.windows.has(first);
  }

  /** The first step from `at` on, going by 1 or -1, for which `wanted` is true; windows are fetched, at most `most`. */
  async find(at: number, by: 1 | -1, wanted: (step: ReplayStep) => boolean, most = 40): Promise<number | null> {
    let fetched = 0;
    for (let now = at; now >= 0 && (this.total === null || now < this.total); now += by) {
      if (this.step(now) === null) {
        if (fetched >= most) return null;
        fetched += 1;
        if (!(await this.need(now))) return null;
      }
      const step = this.step(now);
      if (step !== null && wanted(step)) return now;
    }
    return null;
  }

  /** The events up to this step, newest first, as far back as windows are here; at most `most`. */
  eventsUntil(at: number, most: number): { at: number; event: ReplayEvent }[] {
    const found: { at: number; event: ReplayEvent }[] = [];
    for (let now = at; now >= 0 && found.length < most; now -= 1) {
      const step = this.step(now);
      if (step === null) break;
      for (let index = step.events.length - 1; index >= 0 && found.length < most; index -= 1) {
        found.push({ at: now, event: step.events[index] as ReplayEvent });
      }
    }
    return found;
  }

  private startOf(at: number): number {
    return Math.floor(at / this.size) * this.size;
  }

  private async fetch(first: number): Promise<ReplayStep[]> {
    try {
      const got = await this.load(first, this.size);
      this.total = got.total;
      this.unit = got.unit;
      if (got.closing !== null) this.closing = got.closing;
      this.windows.set(first, got.steps);
      for (const oldest of this.windows.keys()) {
        if (this.windows.size <= this.keep) break;
        this.windows.delete(oldest);
      }
      return got.steps;
    } finally {
      this.pending.delete(first);
    }
  }
}
