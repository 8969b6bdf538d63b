/** Which messages are shown. Pure. A filter that is null lets everything pass; all filters must let a message pass. */

import type { InspectedMessage, Inspection } from "../api/inspect";
import type { Place } from "./problems";
import { type Row, rowKey } from "./trace";

export interface Filters {
  role: string | null;
  /** A channel; "" for messages that have none. */
  channel: string | null;
  /** A tool, as the recipient of calls and as the author of results. */
  tool: string | null;
  /** A code, or `any`. */
  problem: string | null;
}

export const NO_FILTERS: Filters = { role: null, channel: null, tool: null, problem: null };

export interface Choice {
  value: string;
  count: number;
}

export const isFiltered = (filters: Filters): boolean => Object.values(filters).some((value) => value !== null);

/** The tools that a message is about: whom it calls, and who wrote it. */
export function toolsOf(message: InspectedMessage): string[] {
  const tools: string[] = [];
  if (message.recipient !== null && message.recipient !== "assistant" && message.recipient !== "all") tools.push(message.recipient);
  if (message.role === "tool" && message.name !== null && !tools.includes(message.name)) tools.push(message.name);
  return tools;
}

/** The rows that pass. What is not a message passes where nothing is filtered, or where it has the problem asked for. */
export function shownRows(inspection: Inspection, rows: readonly Row[], places: readonly Place[], filters: Filters): readonly Row[] {
  if (!isFiltered(filters)) return rows;
  const { role, channel, tool, problem } = filters;
  const isAboutMessages = role !== null || channel !== null || tool !== null;
  const troubled = new Set<string>();
  inspection.diagnostics.forEach((diagnostic, at) => {
    const place = places[at];
    if (place !== undefined && (problem === "any" || problem === diagnostic.code)) troubled.add(place.key);
  });
  return rows.filter((row) => {
    if (problem !== null && !troubled.has(rowKey(row))) return false;
    if (row.kind !== "message") return !isAboutMessages;
    const message = inspection.messages[row.message];
    if (message === undefined) return false;
    return (
      (role === null || message.role === role) &&
      (channel === null || (message.channel ?? "") === channel) &&
      (tool === null || toolsOf(message).includes(tool))
    );
  });
}

/** What there is to choose from, with how many messages (or, of problems, how many problems) each has. */
export function choicesOf(inspection: Inspection): Record<keyof Filters, Choice[]> {
  const { messages, diagnostics } = inspection;
  return {
    role: tally(messages.map((message) => message.role)),
    channel: tally(messages.map((message) => message.channel ?? "")),
    tool: tally(messages.flatMap(toolsOf)),
    problem: tally(diagnostics.map((diagnostic) => diagnostic.code)),
  };
}

function tally(values: readonly string[]): Choice[] {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].map(([value, count]) => ({ value, count }));
}
