/**
 * The tokens of a trace in blocks, so that only those in sight are in the page. Pure.
 *
 * A block lies in one message (or in one text outside of messages) and never cuts a character that several tokens share.
 */

import type { InspectedMessage, Inspection, OutsideText } from "../api/inspect";
import type { Hit } from "./search";
import { type Group, type TokenTable, groupTokens } from "./spelled";
import { type Piece, type Row, idsOf, piecesOf } from "./trace";

export interface Block {
  key: string;
  message: number | null;
  outside: number | null;
  /** Groups whose `start` counts from the message's first token. */
  groups: Group[];
  /** The position of the block's first token in the trace, and how many it has. */
  start: number;
  count: number;
  /** The position of the message's first token. */
  base: number;
  isFirst: boolean;
}

export const TOKENS_PER_BLOCK = 96;

const grouped = new WeakMap<InspectedMessage | OutsideText, Group[]>();

/** The groups of the tokens of a message, or of a text outside of messages. They are found once. */
export function groupsOf(piece: InspectedMessage | OutsideText, table: TokenTable): Group[] {
  let found = grouped.get(piece);
  if (found === undefined) grouped.set(piece, (found = groupTokens("role" in piece ? idsOf(piece) : (piece.ids ?? []), table)));
  return found;
}

/**
 * The token in which a hit of a text begins, counted from the message's first. A body whose text is not that of its
 * tokens, as after a repair, is counted as far as it goes.
 */
export function tokenOfHit(message: InspectedMessage, table: TokenTable, hit: Hit): number {
  if (hit.part === "token") return hit.start;
  const first = hit.part === "header" ? 0 : message.tokens.header;
  const end = hit.part === "header" ? message.tokens.header : message.tokens.header + message.tokens.body;
  let length = 0;
  for (const group of groupsOf(message, table)) {
    if (group.start < first) continue;
    if (group.start >= end) break;
    length += group.text.length;
    if (length > hit.start) return group.start;
  }
  return first;
}

export function blocksOf(inspection: Inspection, shown: readonly Row[]): Block[] {
  const pieces = new Map<string, Piece>();
  for (const piece of piecesOf(inspection)) pieces.set(piece.message === null ? `o${piece.outside}` : `m${piece.message}`, piece);
  const blocks: Block[] = [];
  for (const row of shown) {
    if (row.kind !== "message" && row.kind !== "outside") continue;
    const piece = pieces.get(row.kind === "message" ? `m${row.message}` : `o${row.outside}`);
    if (piece === undefined) continue;
    const { message, outside, start } = piece;
    const whole = message === null ? inspection.outside[outside ?? -1] : inspection.messages[message];
    if (whole === undefined) continue;
    for (const groups of chunks(groupsOf(whole, inspection.token_table ?? {}))) {
      const from = groups[0]?.start ?? 0;
      const size = groups.reduce((sum, group) => sum + group.ids.length, 0);
      blocks.push({ key: `${message === null ? `o${outside}` : `m${message}`}-${from}`, message, outside, groups, start: start + from, count: size, base: start, isFirst: from === 0 });
    }
  }
  return blocks;
}

function chunks(groups: Group[]): Group[][] {
  if (groups.length <= TOKENS_PER_BLOCK) return [groups];
  const found: Group[][] = [];
  for (let at = 0; at < groups.length; at += TOKENS_PER_BLOCK) found.push(groups.slice(at, at + TOKENS_PER_BLOCK));
  return found;
}
