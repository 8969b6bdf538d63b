/** What the reader unfolded. It is kept outside of the cards, because those leave the page when they are scrolled away. */

import { effect, signal } from "@preact/signals";
import { inspection } from "./state";

const opened = signal<ReadonlySet<string>>(new Set());

effect(() => {
  void inspection.value;
  opened.value = new Set();
});

export const isOpened = (name: string): boolean => opened.value.has(name);

export function toggle(name: string): void {
  const next = new Set(opened.value);
  if (!next.delete(name)) next.add(name);
  opened.value = next;
}
