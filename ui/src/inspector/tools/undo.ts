/**
 * Undo and redo, as a value.
 *
 * 1. A change drops what was undone before it.
 * 2. Changes of one group that follow one another (the letters of a word) are one step.
 * 3. What is kept is bounded, by number and by weight; the oldest go first. The present is always kept.
 */

export interface History<T> {
  past: readonly T[];
  present: T;
  future: readonly T[];
  /** The group that the present may still be changed in; null where the next change is a step of its own. */
  group: string | null;
}

export interface Bounds<T> {
  steps: number;
  weight: number;
  weigh: (state: T) => number;
}

export const begin = <T>(present: T): History<T> => ({ past: [], present, future: [], group: null });

export function record<T>(history: History<T>, next: T, bounds: Bounds<T>, group: string | null = null): History<T> {
  if (Object.is(next, history.present)) return history;
  const isSameStep = group !== null && group === history.group;
  const past = isSameStep ? history.past : bounded([...history.past, history.present], bounds);
  return { past, present: next, future: [], group };
}

export function undo<T>(history: History<T>): History<T> {
  const before = history.past.at(-1);
  if (before === undefined) return history;
  return { past: history.past.slice(0, -1), present: before, future: [history.present, ...history.future], group: null };
}

export function redo<T>(history: History<T>): History<T> {
  const [after, ...future] = history.future;
  if (after === undefined) return history;
  return { past: [...history.past, history.present], present: after, future, group: null };
}

function bounded<T>(past: readonly T[], bounds: Bounds<T>): readonly T[] {
  let weight = 0;
  let first = past.length;
  while (first > 0 && past.length - first < bounds.steps) {
    const state = past[first - 1] as T;
    weight += bounds.weigh(state);
    if (weight > bounds.weight) break;
    first -= 1;
  }
  return past.slice(first);
}
