/** What is open in the inspector, as an input for the server's other endpoints, and as one list of ids. */

import type { Inspection, InspectInput } from "../../api/inspect";
import type { Origin } from "../state";

/** The ids of a trace, in order; null where the server did not tell all of them (text outside messages has none). */
export function allIds(found: Inspection): number[] | null {
  const ids: number[] = [];
  for (const message of found.messages) {
    if (message.ids === undefined) return null;
    const start = message.spans.header.start_token;
    if (start !== null && start !== ids.length) return null;
    ids.push(...message.ids.header, ...message.ids.body, ...message.ids.stop);
  }
  return ids.length === found.tokens ? ids : null;
}

/** The ids that somebody wrote: a JSON list, or numbers with spaces or commas between. */
export function readIds(text: string): number[] | null {
  if (!/^\s*\[?[\s\d,]*\d[\s\d,]*\]?\s*$/.test(text)) return null;
  return (text.match(/\d+/g) ?? []).map(Number);
}

/** The ids that the parser read, where it read ids. */
export function givenIds(found: Inspection, input: InspectInput): number[] | null {
  const given = input.tokens ?? (input.text === undefined ? null : readIds(input.text));
  return given !== null && given.length === found.tokens ? given : allIds(found);
}

/** The same again, for `diff` and `replay`. A turn of a chat is its tokens. */
export function inputOf(found: Inspection, origin: Origin, input: InspectInput): InspectInput | null {
  if (origin.kind === "input") return input;
  const ids = allIds(found);
  return ids !== null ? { tokens: ids } : found.text === undefined ? null : { text: found.text, as: "text" };
}
