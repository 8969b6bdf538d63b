/** The turn that a search led to. The words of the query are marked in it until the person moves on. */

import { signal, type Signal } from "@preact/signals";
import { anyOf, wordsOf } from "../parts/query_words";

export interface SearchTarget {
  turn: string;
  query: string;
}

export const searchTarget: Signal<SearchTarget | null> = signal<SearchTarget | null>(null);

/** The name of the highlight, which the style sheet draws. */
const HIGHLIGHT = "search-words";
/** Nobody looks at more, and each one costs time. */
const MOST_MARKS = 500;

/** The start and end of each place to mark, in order: where the whole query stands as a phrase, otherwise where its words stand. */
export function placesOf(text: string, query: string): [number, number][] {
  const words = wordsOf(query);
  if (words.length === 0) return [];
  const phrase = matches(text, anyOf([words.join(" ")]));
  return phrase.length > 0 ? phrase : matches(text, anyOf(words));
}

function matches(text: string, pattern: RegExp): [number, number][] {
  const found: [number, number][] = [];
  for (const match of text.matchAll(pattern)) {
    if (found.length === MOST_MARKS) break;
    found.push([match.index, match.index + match[0].length]);
  }
  return found;
}

/** The places to mark in the text of a node. A place may span several elements. */
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
 * Mark the words in a turn and scroll to the first of them. The browser draws the marks over the text, so that no element
 * changes; a browser without highlights only scrolls.
 */
export function markWords(node: Element, query: string): void {
  // Each of these parts is searched as a whole, because its text may be split into several nodes.
  const parts = node.querySelectorAll(".markdown, .typed, .plain-text, pre, summary");
  const ranges = [...parts].flatMap((part) => rangesIn(part, query)).slice(0, MOST_MARKS);
  const [first] = ranges;
  if ("highlights" in CSS) CSS.highlights.set(HIGHLIGHT, new Highlight(...ranges));
  if (first === undefined) return;
  first.startContainer.parentElement?.scrollIntoView({ block: "center" });
  const scroller = node.closest(".chat-scroll");
  const box = first.getBoundingClientRect();
  if (scroller !== null && box.height > 0) {
    const frame = scroller.getBoundingClientRect();
    scroller.scrollTop += box.top - frame.top - frame.height / 3;
  }
}

export function removeMarks(): void {
  if ("highlights" in CSS) CSS.highlights.delete(HIGHLIGHT);
}
