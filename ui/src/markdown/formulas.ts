/** Where a formula stands in running text. Pure. */

export interface Formula {
  /** As written, delimiters and all. */
  raw: string;
  tex: string;
  isDisplay: boolean;
}

const SIZE = 2000;

/** The formula at the start of the text, if there is one. */
export function formulaAt(text: string): Formula | null {
  const opener = text.slice(0, 2);
  if (opener === "\\(" || opener === "\\[") return closedBy(text, opener === "\\(" ? "\\)" : "\\]", opener === "\\[");
  if (opener === "$$") return closedBy(text, "$$", true);
  if (text[0] !== "$") return null;
  const match = /^\$(?![\s$])((?:\\[\s\S]|[^\\$\n]|\n(?!\s*\n)){1,500}?)\$(?![\d\p{L}$])/u.exec(text);
  const tex = match?.[1] ?? "";
  if (match === null || /\s$/.test(tex)) return null;
  // "$5 (or 10$)" is money: what starts like an amount must also have something that only a formula has.
  if (/^[\d.,]+(?![\d.,]*$)/.test(tex) && !/[\\^_=+*/<>{}]|^\d+[a-z]$/i.test(tex)) return null;
  return { raw: match[0], tex, isDisplay: false };
}

/** Where the next formula could start, or -1. Behind a letter, a digit or another dollar, a dollar starts none. */
export function formulaStart(text: string): number {
  const match = /\\[([]|(?<![\p{L}\p{N}$\\])\$/u.exec(text);
  return match ? match.index : -1;
}

function closedBy(text: string, closer: string, isDisplay: boolean): Formula | null {
  const end = text.slice(0, SIZE).indexOf(closer, 2);
  const tex = end < 0 ? "" : text.slice(2, end);
  if (tex.trim() === "" || /\n\s*\n/.test(tex)) return null;
  return { raw: text.slice(0, end + closer.length), tex: tex.trim(), isDisplay };
}
