/**
 * Work that one thing on the page waits for: one request at a time. A newer one stops the one before it; what failed
 * leaves the last result in place. Nothing is told to a component that is gone.
 */

import { useEffect, useState } from "preact/hooks";
import { type Failure, failureOf } from "../../api/client";

export interface Task<T> {
  value: T | null;
  failure: Failure | null;
  isBusy: boolean;
  /** Do it after `delay_ms`, unless something newer comes before. */
  run: (work: (signal: AbortSignal) => Promise<T>, delay_ms?: number) => void;
  stop: () => void;
}

interface State<T> {
  value: T | null;
  failure: Failure | null;
  isBusy: boolean;
}

export class Runner<T> {
  private running: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  state: State<T> = { value: null, failure: null, isBusy: false };

  constructor(private readonly tell: (state: State<T>) => void) {}

  run(work: (signal: AbortSignal) => Promise<T>, delay_ms = 0): void {
    this.halt();
    this.set({ isBusy: true });
    if (delay_ms === 0) void this.start(work);
    else this.timer = setTimeout(() => void this.start(work), delay_ms);
  }

  stop(): void {
    this.halt();
    this.set({ isBusy: false });
  }

  /** Like `stop`, without telling anybody. */
  halt(): void {
    this.running?.abort();
    this.running = null;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private async start(work: (signal: AbortSignal) => Promise<T>): Promise<void> {
    const mine = (this.running = new AbortController());
    try {
      const value = await work(mine.signal);
      if (this.running === mine) this.set({ value, failure: null, isBusy: false });
    } catch (error) {
      if (this.running === mine) this.set({ failure: failureOf(error), isBusy: false });
    } finally {
      if (this.running === mine) this.running = null;
    }
  }

  private set(change: Partial<State<T>>): void {
    this.state = { ...this.state, ...change };
    this.tell(this.state);
  }
}

export function useTask<T>(): Task<T> {
  const [state, setState] = useState<State<T>>({ value: null, failure: null, isBusy: false });
  const [runner] = useState(() => new Runner<T>(setState));
  useEffect(() => () => runner.halt(), [runner]);
  return { ...state, run: (work, delay_ms) => runner.run(work, delay_ms), stop: () => runner.stop() };
}
