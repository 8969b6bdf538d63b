/**
 * An edited trace: what it was, what it is now, and what the server says of it.
 *
 * A draft is a text, in which spellings are control tokens; or a conversation, in which everything typed stays text.
 * What was read as ids keeps the ids of every message that was not touched.
 */

import { type Diagnostic, type Inspection, type InspectInput, inspect } from "../../api/inspect";
import { counted } from "../trace";
import { type Cuts, cutsOf, joinIds, keepIds } from "./kept_ids";
import { encodeText, renderMessages } from "./rendering";
import { givenIds } from "./source";
import { type Fields, fieldsOf } from "./splice";
import { countChanges, diffTokens, type Run } from "./token_diff";

export type Draft = { kind: "text"; text: string } | { kind: "conversation"; messages: readonly Fields[] };

export interface Base {
  inspection: Inspection;
  text: string;
  /** What editing begins with: the text; or a conversation, where the text has lost its control tokens. */
  start: Draft;
  /** Null until they are known: the ids of a text are asked for with the first edit. */
  ids: number[] | null;
  /** Where ids may be kept; null where the trace was a text. */
  cuts: Cuts | null;
  /** What is said with each inspection: the role that a completion begins with, the declared tools. */
  options: Pick<InspectInput, "role" | "tools" | "stop_swallowed">;
}

export interface Outcome {
  draft: Draft;
  inspection: Inspection;
  text: string;
  before: number[];
  after: number[];
  runs: Run[];
  removed: number;
  added: number;
  /** The first position at which the tokens differ; null where none does. */
  first: number | null;
}

export function baseOf(inspection: Inspection, input: InspectInput): Base | null {
  const text = inspection.text;
  if (text === undefined) return null;
  const isText = inspection.messages[0]?.spans.header.start_token == null;
  const ids = isText ? null : givenIds(inspection, input);
  const { role, tools, stop_swallowed } = input;
  return {
    inspection,
    text,
    start: inspection.input === "stripped" ? conversationOf(inspection) : { kind: "text", text },
    ids,
    cuts: ids === null ? null : cutsOf(text, inspection.messages, ids.length),
    options: {
      ...(role === undefined ? {} : { role }),
      ...(tools === undefined ? {} : { tools }),
      ...(stop_swallowed === undefined ? {} : { stop_swallowed }),
    },
  };
}

/** What the server makes of a draft. */
export async function tryDraft(base: Base, draft: Draft, signal: AbortSignal): Promise<Outcome> {
  const before = (base.ids ??= await encodeBase(base, signal));
  const { tokens, input } = await encodeDraft(base, draft, before, signal);
  const inspection = await inspect(input, ["ids", "token_table", "text"], signal);
  const runs = diffTokens(before, tokens);
  const isSame = runs.length === 0 || (runs.length === 1 && runs[0]?.kind === "same");
  return {
    draft,
    inspection,
    text: draft.kind === "text" ? draft.text : (inspection.text ?? ""),
    before,
    after: tokens,
    runs,
    ...countChanges(runs),
    first: isSame ? null : runs[0]?.kind === "same" ? runs[0].after[1] : 0,
  };
}

const encodeBase = async ({ start, text }: Base, signal: AbortSignal): Promise<number[]> =>
  start.kind === "text" ? encodeText(text, signal) : (await renderMessages(start.messages, signal)).tokens;

async function encodeDraft(
  base: Base,
  draft: Draft,
  before: number[],
  signal: AbortSignal,
): Promise<{ tokens: number[]; input: InspectInput }> {
  const tools = base.options.tools === undefined ? {} : { tools: base.options.tools };
  if (draft.kind === "conversation") {
    const { tokens } = await renderMessages(draft.messages, signal);
    return { tokens, input: { tokens, ...tools } };
  }
  if (base.cuts !== null) {
    const tokens = await joinIds(before, keepIds(base.text, draft.text, base.cuts), (text) => encodeText(text, signal));
    return { tokens, input: { tokens, ...base.options } };
  }
  const tokens = await encodeText(draft.text, signal);
  return { tokens, input: { text: draft.text, as: "text", ...base.options } };
}

export const conversationOf = (inspection: Inspection): Draft & { kind: "conversation" } => ({
  kind: "conversation",
  messages: inspection.messages.map(fieldsOf),
});

export const weigh = (draft: Draft): number =>
  // Messages that were not changed are shared between drafts, so that they weigh little.
  draft.kind === "text" ? draft.text.length : draft.messages.length * 8;

/** Problems that were not there before, and how many are gone; two are the same if their code and what was found are. */
export function compareProblems(before: readonly Diagnostic[], after: readonly Diagnostic[]): { fresh: Diagnostic[]; gone: number } {
  const left = new Map<string, number>();
  const name = ({ code, found }: Diagnostic): string => `${code} ${found}`;
  for (const problem of before) left.set(name(problem), (left.get(name(problem)) ?? 0) + 1);
  const fresh = after.filter((problem) => {
    const many = left.get(name(problem)) ?? 0;
    if (many > 0) left.set(name(problem), many - 1);
    return many === 0;
  });
  return { fresh, gone: [...left.values()].reduce((sum, many) => sum + many, 0) };
}

/** What an edit did, in a sentence or two. */
export function sayOutcome(outcome: Outcome): string {
  const { before, after, first, removed, added } = outcome;
  if (first === null) return `Nothing changed: ${counted(after.length, "token")}.`;
  const more = after.length - before.length;
  const change = more === 0 ? "as many as before" : `${counted(Math.abs(more), "token")} ${more > 0 ? "more" : "fewer"}`;
  return (
    `${counted(before.length, "token")} before, ${counted(after.length, "token")} now: ${change}. ` +
    `The first change is at token ${first}; ${removed} removed, ${added} added.`
  );
}
