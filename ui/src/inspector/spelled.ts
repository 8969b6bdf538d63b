/**
 * Token ids as text for people: which tokens make up one character, what their bytes are, where spaces are. Pure.
 *
 * A group is the smallest run of tokens that begins and ends between two characters. Most groups are one token; a
 * character that several tokens share is one group with all of them.
 */

import type { TokenInfo } from "../api/inspect";

export interface Group {
  /** The position of the first token in the list that was grouped. */
  start: number;
  ids: number[];
  /** Of the whole group; of a special token, its spelling. */
  text: string;
  isSpecial: boolean;
}

export type TokenTable = Record<string, TokenInfo>;

/** No character is longer, so that a list of broken bytes does not become one group. */
const LONGEST = 64;

const decoder = new TextDecoder("utf-8");

export function bytesOf(hex: string): number[] {
  const bytes: number[] = [];
  for (let at = 0; at + 1 < hex.length; at += 2) bytes.push(Number.parseInt(hex.slice(at, at + 2), 16));
  return bytes;
}

/** Hexadecimal in pairs: `f0 9f a6`. */
export const hexOf = (info: TokenInfo | undefined): string => info?.bytes?.replace(/(..)(?=.)/g, "$1 ") ?? "";

/** How many bytes a character still needs after these, when it needed `open` before them. */
function openAfter(bytes: readonly number[], open: number): number {
  for (const byte of bytes) {
    if (open > 0 && byte >= 0x80 && byte < 0xc0) open -= 1;
    else if (byte >= 0xf0 && byte < 0xf5) open = 3;
    else if (byte >= 0xe0 && byte < 0xf0) open = 2;
    else if (byte >= 0xc2 && byte < 0xe0) open = 1;
    else open = 0;
  }
  return open;
}

export function groupTokens(ids: readonly number[], table: TokenTable): Group[] {
  const groups: Group[] = [];
  let start = 0;
  let open = 0;
  let bytes: number[] = [];
  const close = (end: number): void => {
    if (end > start) groups.push(groupOf(ids.slice(start, end), start, bytes, table));
    start = end;
    open = 0;
    bytes = [];
  };
  for (let at = 0; at < ids.length; at++) {
    const info = table[String(ids[at])];
    if (info === undefined || info.bytes === null || info.special) {
      close(at);
      close(at + 1);
      continue;
    }
    const found = bytesOf(info.bytes);
    // A byte that does not go on begins something new: the broken character before it is a group of its own.
    if (open > 0 && !((found[0] ?? 0) >= 0x80 && (found[0] ?? 0) < 0xc0)) close(at);
    bytes.push(...found);
    open = openAfter(found, open);
    if (open === 0 || at + 1 - start >= LONGEST) close(at + 1);
  }
  close(ids.length);
  return groups;
}

function groupOf(ids: number[], start: number, bytes: readonly number[], table: TokenTable): Group {
  const info = table[String(ids[0])];
  if (ids.length > 1) return { start, ids, text: decoder.decode(new Uint8Array(bytes)), isSpecial: false };
  return { start, ids, text: info?.text ?? `(${ids[0]} is not a token)`, isSpecial: info?.special ?? false };
}

/** Spaces and other signs that cannot be seen, as signs that can be. */
export function visible(text: string): string {
  return text.replace(/[ \n\r\t\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]/g, (sign) => {
    if (sign === " ") return "·";
    if (sign === "\n") return "↵";
    if (sign === "\r") return "␍";
    if (sign === "\t") return "⇥";
    return `⟨${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** The spelling of ids in a row, cut into text and special tokens. */
export function spellingOf(ids: readonly number[], table: TokenTable): { text: string; isSpecial: boolean }[] {
  const pieces: { text: string; isSpecial: boolean }[] = [];
  for (const { text, isSpecial } of groupTokens(ids, table)) {
    const last = pieces.at(-1);
    if (last !== undefined && !last.isSpecial && !isSpecial) last.text += text;
    else pieces.push({ text, isSpecial });
  }
  return pieces;
}
