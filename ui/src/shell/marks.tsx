/** The words of a query, marked in a text. */

import type { ComponentChild } from "preact";

/** Pieces of the text; every second one, from the second on, is a word that was looked for. */
export function pieces(text: string, query: string): string[] {
  const words = query.split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return [text];
  const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return text.split(new RegExp(`(${pattern})`, "giu"));
}

export function marked(text: string, query: string): ComponentChild[] {
  return pieces(text, query).map((piece, at) => (at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece));
}
