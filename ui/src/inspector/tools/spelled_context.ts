/** A spelling in the text around it. Pure. */

import type { Spelling } from "../../api/inspect";
import type { Characters } from "./characters";

export interface Context {
  before: string;
  text: string;
  after: string;
}

/** A few characters on both sides; null where the place does not hold what it should (a header's field, for example). */
export function contextOf(characters: Characters | null, spelling: Spelling, width = 32): Context | null {
  if (characters === null) return null;
  const { start_char, end_char, text } = spelling;
  if (characters.slice(start_char, end_char) !== text) return null;
  return {
    before: (start_char > width ? "…" : "") + characters.slice(Math.max(0, start_char - width), start_char),
    text,
    after: characters.slice(end_char, Math.min(characters.length, end_char + width)) + (end_char + width < characters.length ? "…" : ""),
  };
}
