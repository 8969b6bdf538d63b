/** The words of a query, marked in a text. */

import type { ComponentChild } from "preact";
import { anyOf, wordsOf } from "../parts/query_words";

/** Pieces of the text; every second one, from the second on, is a word that was looked for. */
export function pieces(text: string, query: string): string[] {
  const words = wordsOf(query);
  return words.length === 0 ? [text] : text.split(anyOf(words));
}

export function marked(text: string, query: string): ComponentChild[] {
  return pieces(text, query).map((piece, at) => (at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece));
}
