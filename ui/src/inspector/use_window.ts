/**
 * A long list of which only the rows in sight are in the page.
 *
 * 1. Work per scroll and nodes in the page are bounded by what fits on the screen, not by the length of the list.
 * 2. Rows are measured when they are shown. What is measured above the screen does not move what is on it.
 * 3. The row that has the focus stays in the page, wherever the list is scrolled to.
 * 4. For print the rows stand one below the other, as far as `MOST_PRINTED` goes.
 */

import { signal } from "@preact/signals";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights } from "./windowing";

/** How far above and below the screen rows are kept, in pixels, and how many there are at most. */
const MARGIN = 600;
const MOST_ROWS = 120;
export const MOST_PRINTED = 1000;

export const isPrinting = signal(false);
addEventListener("beforeprint", () => (isPrinting.value = true));
addEventListener("afterprint", () => (isPrinting.value = false));

export interface ListWindow {
  listRef: (element: HTMLElement | null) => void;
  /** The rows to render, in order. */
  rows: number[];
  /** For the list itself, and for each row. */
  listStyle: Record<string, string>;
  rowStyle: (row: number) => Record<string, string>;
  rowRef: (row: number) => (element: HTMLElement | null) => void;
  /** Scroll a row to the top, and then call `then` with its element once it stands still. */
  goTo: (row: number, then?: (element: HTMLElement) => void) => void;
}

function scrollerOf(element: HTMLElement): HTMLElement {
  for (let at = element.parentElement; at !== null; at = at.parentElement) {
    const { overflowY } = getComputedStyle(at);
    if (overflowY === "auto" || overflowY === "scroll") return at;
  }
  return document.documentElement;
}

/** `keys` names the rows; it must be the same list as long as the rows are. `covered` is how much of the screen's top is hidden by bars. */
export function useWindow(keys: readonly string[], estimate: (row: number) => number, covered: () => number): ListWindow {
  const known = useRef(new Map<string, number>());
  const heights = useMemo(() => new Heights(keys.length, (row) => known.current.get(keys[row] ?? "") ?? estimate(row)), [keys]);
  const list = useRef<HTMLElement | null>(null);
  const scroller = useRef<HTMLElement | null>(null);
  const elements = useRef(new Map<string, HTMLElement>());
  const refs = useRef(new Map<string, (element: HTMLElement | null) => void>());
  const [range, setRange] = useState<[number, number]>([0, Math.min(keys.length, 10)]);
  const [, setMoved] = useState(0);
  const live = useRef({ keys, heights });
  live.current = { keys, heights };

  const topOfList = (): number => {
    if (list.current === null || scroller.current === null) return 0;
    const outer = scroller.current === document.documentElement ? 0 : scroller.current.getBoundingClientRect().top;
    return list.current.getBoundingClientRect().top - outer;
  };

  const look = useCallback((): void => {
    if (list.current === null || scroller.current === null) return;
    const seen = -topOfList();
    const next = live.current.heights.between(seen - MARGIN, seen + scroller.current.clientHeight + MARGIN, MOST_ROWS);
    setRange((now) => (now[0] === next[0] && now[1] === next[1] ? now : next));
  }, []);

  const observer = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let moved = 0;
        let isChanged = false;
        const seen = -topOfList();
        for (const entry of entries) {
          const element = entry.target as HTMLElement;
          const key = element.dataset["key"] ?? "";
          const row = Number(element.dataset["row"]);
          if (live.current.keys[row] !== key || !element.isConnected || isPrinting.value) continue;
          const height = entry.borderBoxSize[0]?.blockSize ?? element.offsetHeight;
          const isAbove = live.current.heights.top(row) + live.current.heights.height(row) <= seen;
          const more = live.current.heights.measure(row, height);
          known.current.set(key, height);
          if (more === 0) continue;
          isChanged = true;
          if (isAbove) moved += more;
        }
        if (!isChanged) return;
        setMoved((count) => count + 1);
        if (moved !== 0 && scroller.current !== null && list.current !== null) {
          // The list must have its new height before it can be scrolled that far.
          list.current.style.height = `${live.current.heights.total}px`;
          scroller.current.scrollTop += moved;
        }
        look();
      }),
    [],
  );

  const listRef = useCallback((element: HTMLElement | null): void => {
    list.current = element;
    scroller.current = element === null ? null : scrollerOf(element);
  }, []);

  useEffect(() => {
    const scrolled = scroller.current;
    if (scrolled === null) return;
    let frame = 0;
    const onScroll = (): void => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        look();
      });
    };
    const target: EventTarget = scrolled === document.documentElement ? document : scrolled;
    target.addEventListener("scroll", onScroll, { passive: true });
    const sized = new ResizeObserver(onScroll);
    sized.observe(scrolled);
    return () => {
      cancelAnimationFrame(frame);
      target.removeEventListener("scroll", onScroll);
      sized.disconnect();
    };
  }, []);
  useEffect(() => () => observer.disconnect(), []);
  useLayoutEffect(look, [keys]);

  const rowRef = (row: number): ((element: HTMLElement | null) => void) => {
    const key = keys[row] ?? "";
    let found = refs.current.get(key);
    if (found === undefined) {
      found = (element) => {
        const before = elements.current.get(key);
        if (before !== undefined) observer.unobserve(before);
        elements.current.delete(key);
        if (element === null) return;
        elements.current.set(key, element);
        observer.observe(element);
      };
      refs.current.set(key, found);
    }
    return found;
  };

  const goTo = useCallback((row: number, then?: (element: HTMLElement) => void): void => {
    let frames = 0;
    const settle = (): void => {
      const { keys: now, heights: sizes } = live.current;
      if (list.current === null || scroller.current === null || row >= now.length) return;
      const wanted = scroller.current.scrollTop + topOfList() + sizes.top(row) - covered() - 8;
      const before = scroller.current.scrollTop;
      if (Math.abs(before - wanted) > 1) scroller.current.scrollTop = wanted;
      look();
      const element = elements.current.get(now[row] ?? "");
      // What was asked for may also unfold the row: then it must be rendered and measured again, or it cannot be scrolled to.
      const isRendered = frames > 0 && element !== undefined && Math.abs(element.offsetHeight - sizes.height(row)) <= 1;
      const isStill = Math.abs(scroller.current.scrollTop - before) <= 1 && isRendered && sizes.isMeasured(row);
      if (isStill && element !== undefined) then?.(element);
      // Rows above it that were never measured may move it a few times.
      else if (frames++ < 12) requestAnimationFrame(settle);
      else if (element !== undefined) then?.(element);
    };
    settle();
  }, []);

  if (isPrinting.value) {
    const rows = Array.from({ length: Math.min(keys.length, MOST_PRINTED) }, (_, row) => row);
    return { listRef, rows, listStyle: {}, rowStyle: () => ({}), rowRef, goTo };
  }
  const [first, end] = [Math.min(range[0], keys.length), Math.min(range[1], keys.length)];
  const rows = Array.from({ length: end - first }, (_, offset) => first + offset);
  const focused = list.current?.contains(document.activeElement) ? document.activeElement?.closest<HTMLElement>("[data-row]") : null;
  const kept = focused == null ? -1 : Number(focused.dataset["row"]);
  if (kept >= 0 && kept < keys.length && keys[kept] === focused?.dataset["key"]) {
    if (kept < first) rows.unshift(kept);
    else if (kept >= end) rows.push(kept);
  }
  return {
    listRef,
    rows,
    listStyle: { height: `${heights.total}px` },
    rowStyle: (row) => ({ top: `${heights.top(row)}px` }),
    rowRef,
    goTo,
  };
}
