/** Texts that spell a control token. Which of them became one, only the server knows; this finds what to ask about. */

const SPELLING = /<\|(?:start|end|message|channel|constrain|return|call|startoftext|endoftext|endofprompt|reserved_\d{6})\|>/g;

export interface Spelled {
  text: string;
  /** In UTF-16 units. */
  start: number;
  end: number;
}

/** The first `most` spellings in a text. */
export function findSpellings(text: string, most = 200): Spelled[] {
  const found: Spelled[] = [];
  if (!text.includes("<|")) return found;
  for (const match of text.matchAll(SPELLING)) {
    found.push({ text: match[0], start: match.index, end: match.index + match[0].length });
    if (found.length === most) break;
  }
  return found;
}
