/** Where a replay may stand, and where it goes next. A position is how many steps were read: 0 is before the first. Pure. */

import type { Inspection, Replay, ReplayEvent } from "../../api/inspect";
import { countBelow } from "./characters";

/** Steps a second. */
export const SPEEDS = [2, 10, 50, 250, 1000] as const;

export type Station = "start" | "header" | "body";

/** The machine's states as the diagram has them; the parser's own word for the first is `wait`. */
export function stationOf(state: string): Station | null {
  if (state === "header" || state === "body") return state;
  return state === "wait" || state === "start" ? "start" : null;
}

export const clamp = (position: number, total: number): number => Math.max(0, Math.min(Math.round(position), total));

/** How far a time takes a replay, and what is left of the time for the next step. */
export function advance(rest_s: number, passed_s: number, speed: number): { steps: number; rest_s: number } {
  // A tab that slept does not catch up.
  const time = rest_s + Math.min(passed_s, 1);
  const steps = Math.floor(time * speed + 1e-9);
  return { steps, rest_s: Math.max(0, time - steps / speed) };
}

/** Sorted positions to jump to. They are after the step that they name, so that this step is the one just read. */
export interface Marks {
  messages: number[];
  problems: number[];
}

export function marksOf(found: Inspection, unit: Replay["unit"], total: number): Marks {
  const messages: number[] = [];
  for (const { spans } of found.messages) {
    const at = unit === "tokens" ? spans.header.start_token : spans.header.start_char;
    if (at !== null) messages.push(at + 1);
  }
  const problems: number[] = [];
  for (const { at } of found.diagnostics) {
    const place = unit === "tokens" ? at.token : at.character;
    if (place != null) problems.push(place + 1);
  }
  // What is wrong at the very end has its place after the last step.
  const sorted = (list: number[]): number[] => [...new Set(list.map((at) => Math.min(at, total)))].sort((one, other) => one - other);
  return { messages: sorted(messages), problems: sorted(problems) };
}

/** The next (1) or previous (-1) mark from here; null where there is none. */
export function nextMark(marks: readonly number[], position: number, by: 1 | -1): number | null {
  const at = by === 1 ? countBelow(marks, position + 1) : countBelow(marks, position) - 1;
  return marks[at] ?? null;
}

const SPAN = new Set(["type", "start_token", "end_token", "start_char", "end_char"]);

type Loose = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Loose => typeof value === "object" && value !== null && !Array.isArray(value);

/** An event in a line, shortened: of known kinds what matters, of others all fields but their span. */
export function sayEvent(event: ReplayEvent, most = 160): string {
  const line = words(event);
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

function words(event: ReplayEvent): string {
  const { header, diagnostic } = event;
  if (isNotable(event) === false && typeof event["text"] === "string") return JSON.stringify(event["text"]);
  if (isObject(header)) {
    const { role, name, channel, recipient, content_type } = header;
    const parts = [role, name, channel, typeof recipient === "string" ? `to ${recipient}` : null, content_type];
    return parts.filter((part) => typeof part === "string").join(" · ");
  }
  if (isObject(diagnostic)) return `${String(diagnostic["code"])}: ${String(diagnostic["message"])} Repair: ${String(diagnostic["repair"])}`;
  const parts: string[] = [];
  for (const [name, value] of Object.entries(event)) {
    // A message was told before it ended; a position among messages is counted from 1 for people.
    if (SPAN.has(name) || value === null || value === undefined || (name === "message" && isObject(value))) continue;
    if (name === "index" && typeof value === "number") parts.push(`message ${value + 1}`);
    else parts.push(`${name}: ${typeof value === "string" ? value : (JSON.stringify(value) ?? "")}`);
  }
  return parts.join(", ");
}

/** Deltas come with nearly every token, so that going to the next event means the next of another kind. */
export const isNotable = (event: ReplayEvent): boolean => !/delta/i.test(event.type);
