/** The rows of a comparison for people: messages that are the same are folded, the rest stands alone. Pure. */

import type { DiffRow, InspectedMessage, Inspection, PromptDiff } from "../../api/inspect";
import { idsOf, piecesOf } from "../trace";

export type Block = { kind: "same"; rows: DiffRow[] } | { kind: "row"; row: DiffRow };

export function blocksOf(rows: readonly DiffRow[]): Block[] {
  const blocks: Block[] = [];
  for (const row of rows) {
    const last = blocks.at(-1);
    if (row.kind !== "same") blocks.push({ kind: "row", row });
    else if (last?.kind === "same") last.rows.push(row);
    else blocks.push({ kind: "same", rows: [row] });
  }
  return blocks;
}

export interface Dropped {
  message: InspectedMessage;
  reason: string | null;
  tokens: number;
}

/** Reasoning that is in the first prompt and not in the second. */
export function droppedReasoning(diff: PromptDiff): Dropped[] {
  return diff.rows.flatMap((row) => {
    const message = row.before === null ? undefined : diff.before.messages[row.before];
    if (row.kind !== "dropped" || message?.channel !== "analysis") return [];
    const { header, body, stop } = message.tokens;
    return [{ message, reason: row.reason, tokens: header + body + stop }];
  });
}

export interface Around {
  ids: number[];
  /** Which of them is the one; past the end where the prompt has ended. */
  here: number;
  /** The position of the first. */
  start: number;
}

/** A few tokens around a position; those outside of messages are left out, because their ids are not told. */
export function around(found: Inspection, token: number, context = 6): Around {
  const ids: number[] = [];
  const from = Math.max(0, token - context);
  let here: number | null = null;
  let begin: number | null = null;
  for (const { message, start, count } of piecesOf(found)) {
    if (start + count <= from || message === null) continue;
    if (start > token + context) break;
    const known = found.messages[message];
    if (known === undefined) continue;
    const first = Math.max(from, start);
    begin ??= first;
    if (token >= first && token < start + count) here = ids.length + token - first;
    ids.push(...idsOf(known).slice(first - start, token + context + 1 - start));
  }
  return { ids, here: here ?? ids.length, start: begin ?? token };
}

/** How much of the second prompt need not be read again. */
export const cacheShare = (diff: PromptDiff): number => (diff.after.tokens === 0 ? 0 : diff.shared_prefix / diff.after.tokens);
