/** Keeps a scrolled column at its end while it grows, until the person scrolls up; then it stays where it is. */

import { type Signal, signal } from "@preact/signals";

/** So near to the end counts as at the end. */
const NEAR_PX = 48;

/** The version that the person switched to last. It is in view already, so the page does not scroll to it. */
export const lastSwitch: { to: string | null } = { to: null };

export interface Place {
  top: number;
  height: number;
  viewport: number;
}

/** Whether to go on sticking to the end after a scroll. Only moving up lets go: growing moves nothing. */
export function sticks(was: boolean, before: number, { top, height, viewport }: Place): boolean {
  const left = height - viewport - top;
  if (left <= NEAR_PX) return top >= before || left <= 1 ? true : was;
  return top < before ? false : was;
}

export class Stick {
  /** Whether the end is in view and followed. */
  readonly isAtEnd: Signal<boolean> = signal(true);
  private scroller: HTMLElement | null = null;
  private before = 0;

  /** Watch a column inside its scroller; gives back what ends the watching. */
  watch(scroller: HTMLElement, column: HTMLElement): () => void {
    this.scroller = scroller;
    const onScroll = (): void => {
      const place = { top: scroller.scrollTop, height: scroller.scrollHeight, viewport: scroller.clientHeight };
      this.isAtEnd.value = sticks(this.isAtEnd.peek(), this.before, place);
      this.before = place.top;
    };
    const grown = new ResizeObserver(() => {
      if (this.isAtEnd.peek()) this.toEnd();
    });
    scroller.addEventListener("scroll", onScroll, { passive: true });
    grown.observe(column);
    grown.observe(scroller);
    return () => {
      grown.disconnect();
      scroller.removeEventListener("scroll", onScroll);
      this.scroller = null;
    };
  }

  toEnd(): void {
    const scroller = this.scroller;
    if (scroller === null) return;
    this.isAtEnd.value = true;
    scroller.scrollTop = scroller.scrollHeight;
    this.before = scroller.scrollTop;
  }

  /** Look at something else than the end. */
  release(): void {
    this.isAtEnd.value = false;
  }
}
