/** What a search led to: a turn, and the words that were looked for, which are marked in it until the person goes on. */

import { signal, type Signal } from "@preact/signals";

export interface Sought {
  turn: string;
  query: string;
}

export const sought: Signal<Sought | null> = signal<Sought | null>(null);

const MARKED = "sought";
/** Nobody looks at more, and each costs. */
const MOST_MARKS = 500;

export const wordsOf = (query: string): string[] => query.toLowerCase().split(/\s+/).filter((word) => word !== "");

/** Where the words stand in a text: starts and ends, in order. All of them together, as they were written, count most: then only those. */
export function placesOf(text: string, query: string): [number, number][] {
  const words = wordsOf(query);
  const lowered = text.toLowerCase();
  if (words.length === 0 || lowered.length !== text.length) return [];
  const phrase = occurrences(lowered, words.join(" "));
  const places = phrase.length > 0 ? phrase : words.flatMap((word) => occurrences(lowered, word));
  return places.sort(([one], [other]) => one - other).slice(0, MOST_MARKS);
}

function occurrences(text: string, wanted: string): [number, number][] {
  const found: [number, number][] = [];
  for (let at = text.indexOf(wanted); at >= 0 && found.length < MOST_MARKS; at = text.indexOf(wanted, at + wanted.length)) {
    found.push([at, at + wanted.length]);
  }
  return found;
}

/** The words in what is drawn of a node. They may go over several elements. */
export function rangesIn(node: Node, query: string): Range[] {
  const texts: Text[] = [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() !== null) texts.push(walker.currentNode as Text);
  const starts: number[] = [];
  let length = 0;
  for (const text of texts) {
    starts.push(length);
    length += text.data.length;
  }
  let at = 0;
  const place = (offset: number, isEnd: boolean): [Text, number] => {
    while (at + 1 < texts.length && ((starts[at + 1] ?? 0) < offset || (!isEnd && starts[at + 1] === offset))) at += 1;
    return [texts[at] as Text, offset - (starts[at] ?? 0)];
  };
  return placesOf(texts.map((text) => text.data).join(""), query).map(([start, end]) => {
    const range = document.createRange();
    range.setStart(...place(start, false));
    range.setEnd(...place(end, true));
    return range;
  });
}

/**
 * Mark the words in a turn, and bring the first of them into view. Drawn by the browser over the text, so that nothing in
 * the page changes; one that cannot do that shows the place alone. False where there is nothing to mark.
 */
export function markIn(node: Element, query: string): boolean {
  // Where text may be cut into several nodes, a part of the turn is looked at as a whole.
  const parts = node.querySelectorAll(".markdown, .typed, .plain-text, pre, summary");
  const ranges = [...parts].flatMap((part) => rangesIn(part, query)).slice(0, MOST_MARKS);
  const [first] = ranges;
  if ("highlights" in CSS) CSS.highlights.set(MARKED, new Highlight(...ranges));
  if (first === undefined) return false;
  const target = first.startContainer.parentElement;
  target?.scrollIntoView({ block: "center" });
  const scroller = node.closest(".chat-scroll");
  const box = first.getBoundingClientRect();
  if (scroller !== null && box.height > 0) {
    const frame = scroller.getBoundingClientRect();
    scroller.scrollTop += box.top - frame.top - frame.height / 3;
  }
  return true;
}

export function unmark(): void {
  if ("highlights" in CSS) CSS.highlights.delete(MARKED);
}
