/** Search in the text and the headers of messages, and for a token by its id. Pure. */

import type { Inspection } from "../api/inspect";
import { spellingOf } from "./spelled";
import { type Row, idsOf } from "./trace";

export type SearchPlace = "all" | "bodies" | "headers" | "ids";

export interface Search {
  query: string;
  place: SearchPlace;
}

export const NO_SEARCH: Search = { query: "", place: "all" };

/** `start` and `end` are those of the string that the part is shown as; of an id, the token's offset in its message. */
export interface Hit {
  message: number;
  part: "header" | "body" | "token";
  start: number;
  end: number;
}

/** More are not looked for: nobody walks them. */
export const MOST_HITS = 10_000;

/** A pattern that finds the query as it is typed, in upper or lower case; null where there is nothing to look for. */
export function patternOf({ query, place }: Search): RegExp | null {
  if (query === "" || place === "ids") return null;
  return new RegExp(query.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");
}

/** The ids that are looked for: the query as numbers with spaces or commas between. */
export function idsIn(query: string): number[] {
  return /^[\s,[\]\d]+$/.test(query) ? (query.match(/\d+/g) ?? []).map(Number) : [];
}

/** The text of a header, special tokens spelled out. */
export function headerText(inspection: Inspection, message: number): string {
  const ids = inspection.messages[message]?.ids?.header ?? [];
  return spellingOf(ids, inspection.token_table ?? {})
    .map((piece) => piece.text)
    .join("");
}

export function findHits(inspection: Inspection, rows: readonly Row[], search: Search): Hit[] {
  const hits: Hit[] = [];
  const pattern = patternOf(search);
  const ids = search.place === "ids" ? idsIn(search.query) : [];
  if (pattern === null && ids.length === 0) return hits;
  for (const row of rows) {
    if (row.kind !== "message") continue;
    const message = inspection.messages[row.message];
    if (message === undefined) continue;
    const add = (part: Hit["part"], spans: [number, number][]): void => {
      for (const [start, end] of spans) hits.push({ message: row.message, part, start, end });
    };
    if (pattern === null) add("token", runsIn(idsOf(message), ids));
    else {
      if (search.place !== "bodies") add("header", spansIn(headerText(inspection, row.message), pattern));
      if (search.place !== "headers") add("body", spansIn(message.content, pattern));
    }
    if (hits.length >= MOST_HITS) return hits.slice(0, MOST_HITS);
  }
  return hits;
}

export function spansIn(text: string, pattern: RegExp): [number, number][] {
  const spans: [number, number][] = [];
  for (const match of text.matchAll(pattern)) {
    if (match[0] !== "") spans.push([match.index, match.index + match[0].length]);
    if (spans.length >= MOST_HITS) break;
  }
  return spans;
}

function runsIn(ids: readonly number[], wanted: readonly number[]): [number, number][] {
  const spans: [number, number][] = [];
  for (let at = 0; at + wanted.length <= ids.length; at++) {
    if (wanted.every((id, offset) => ids[at + offset] === id)) spans.push([at, at + wanted.length]);
  }
  return spans;
}

export interface Marked {
  text: string;
  isMarked: boolean;
  /** Where it begins in the whole text. */
  start: number;
}

/** More marks in one text are not made: a text that is all marks would be all elements. */
const MOST_MARKS = 500;

/** A piece of a text that begins at `offset`, cut where the spans of the whole text begin and end. */
export function markedPieces(text: string, spans: readonly [number, number][], offset = 0): Marked[] {
  const pieces: Marked[] = [];
  let end = 0;
  for (const [from, to] of spans.slice(0, MOST_MARKS)) {
    const start = Math.max(from - offset, end);
    const stop = Math.min(to - offset, text.length);
    if (start >= stop) continue;
    if (start > end) pieces.push({ text: text.slice(end, start), isMarked: false, start: offset + end });
    pieces.push({ text: text.slice(start, stop), isMarked: true, start: offset + start });
    end = stop;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), isMarked: false, start: offset + end });
  return pieces;
}
