/**
 * What the inspector has open: the input, what the server made of it, and where in it the reader is.
 *
 * 1. There is one inspection at a time; a newer one replaces an older one, also while that is under way.
 * 2. An inspection that fails leaves the one before it in its place, and `failure` says what happened.
 * 3. Selecting something goes to it: the view that is open scrolls there (`selected`, and `jumps` counts the times, so
 *    that the same place can be asked for twice).
 */

import { batch, computed, signal } from "@preact/signals";
import { Failure, failureOf } from "../api/client";
import { type Includable, type Inspection, type InspectInput, type TurnTrace, inspect } from "../api/inspect";
import { go, route } from "../route";
import { NO_FILTERS, type Filters, shownRows } from "./filters";
import { placesOf, problemsByRow } from "./problems";
import { NO_SEARCH, type Hit, type Search, findHits } from "./search";
import { isTurnTrace, lastNotAbove, messagesStarting, rowKey, rowsOf } from "./trace";

export const INCLUDE: Includable[] = ["ids", "token_table", "text", "spellings", "schemas"];

/** `message` is a position in `messages`, `token` one in the whole trace, `diagnostic` one in `diagnostics`. */
export type Selection =
  | { kind: "message"; message: number }
  | { kind: "token"; token: number }
  | { kind: "diagnostic"; diagnostic: number };

/** Where an inspection came from. */
export type Origin = { kind: "input" } | { kind: "turn"; chat: string; turn: string; title: string };

/** What was asked for last; the forms start from it. */
export const input = signal<InspectInput>({ text: "" });
export const origin = signal<Origin>({ kind: "input" });
export const inspection = signal<Inspection | null>(null);
export const failure = signal<Failure | null>(null);
export const isBusy = signal(false);
export const selected = signal<Selection | null>(null);
export const jumps = signal(0);
export const filters = signal<Filters>(NO_FILTERS);
export const search = signal<Search>(NO_SEARCH);
/** The id of the tab that is open; see `tabs.ts`. */
export const tab = signal("messages");
/** Whether the form of the input is open, or folded to a line. */
export const isInputOpen = signal(true);

/** The prompt of a turn and its answer, where that is what is open. */
export const turnTrace = computed<TurnTrace | null>(() => {
  const found = inspection.value;
  return found !== null && isTurnTrace(found) ? found : null;
});

/** All rows, those that pass the filters, and the problems of each. */
export const rows = computed(() => (inspection.value === null ? [] : rowsOf(inspection.value)));
export const places = computed(() => (inspection.value === null ? [] : placesOf(inspection.value, rows.value)));
export const problems = computed(() => problemsByRow(places.value));
export const shown = computed(() =>
  inspection.value === null ? [] : shownRows(inspection.value, rows.value, places.value, filters.value),
);

/** Where the search finds something, in the messages that pass the filters. */
export const hits = computed(() => (inspection.value === null ? [] : findHits(inspection.value, shown.value, search.value)));
/** Which hit the reader is at; -1 before the first. */
export const hitAt = signal(-1);
export const currentHit = computed<Hit | null>(() => hits.value[hitAt.value] ?? null);

/** Where each message begins in the flat list of the trace's tokens. */
export const starts = computed(() => (inspection.value === null ? [] : messagesStarting(inspection.value)));

let running: AbortController | null = null;

/** Run `load`, and show what it gives unless something newer was asked for meanwhile. True where it is shown. */
export async function open(from: Origin, load: (signal: AbortSignal) => Promise<Inspection>): Promise<boolean> {
  running?.abort();
  const mine = (running = new AbortController());
  batch(() => {
    isBusy.value = true;
    failure.value = null;
  });
  try {
    const found = await load(mine.signal);
    if (running !== mine) return false;
    batch(() => {
      inspection.value = found;
      origin.value = from;
      selected.value = null;
      filters.value = NO_FILTERS;
      search.value = NO_SEARCH;
      hitAt.value = -1;
      isInputOpen.value = false;
    });
    return true;
  } catch (error) {
    if (running === mine) failure.value = failureOf(error);
    return false;
  } finally {
    if (running === mine) {
      running = null;
      isBusy.value = false;
    }
  }
}

/** Have the server read this. */
export function inspectInput(asked: InspectInput): Promise<boolean> {
  input.value = asked;
  // The address must not name a turn that is not what is shown.
  if (route.value.view === "inspect" && route.value.chat !== null) go({ view: "inspect", chat: null, turn: null });
  return open({ kind: "input" }, (signal) => inspect(asked, INCLUDE, signal));
}

/** Show a turn of a chat: the prompt that the model got, and its answer. */
export async function inspectTurn(chat: string, turn: string): Promise<boolean> {
  const origin: Origin = { kind: "turn", chat, turn, title: "" };
  return open(origin, async (signal) => {
    const { traceOf } = await import("./turn");
    const { trace, title } = await traceOf(chat, turn, signal);
    origin.title = title;
    return trace;
  });
}

/** Nothing is open any more. */
export function closeInspection(): void {
  running?.abort();
  running = null;
  batch(() => {
    inspection.value = null;
    failure.value = null;
    selected.value = null;
    isBusy.value = false;
    isInputOpen.value = true;
    origin.value = { kind: "input" };
  });
}

/** Go there. A row that the filters hide is shown again, by dropping the filters. */
export function select(to: Selection): void {
  batch(() => {
    const key = keyOf(to);
    if (key !== null && !shown.value.some((row) => rowKey(row) === key)) filters.value = NO_FILTERS;
    selected.value = to;
    jumps.value += 1;
  });
}

let arrived = 0;

/** Whether nobody went there yet. Who goes there first takes the focus along; a view that is opened later only scrolls. */
export function arrive(): boolean {
  const isNew = jumps.peek() !== arrived;
  arrived = jumps.peek();
  return isNew;
}

/** The key of the row that a selection lies in. */
export function keyOf(to: Selection): string | null {
  if (to.kind === "diagnostic") return places.value[to.diagnostic]?.key ?? null;
  const message = messageOf(to);
  return message === null ? null : rowKey({ kind: "message", message });
}

/** The message that a selection lies in. */
export function messageOf(to: Selection | null): number | null {
  const found = inspection.value;
  if (to === null || found === null) return null;
  if (to.kind === "message") return to.message;
  if (to.kind === "diagnostic") return found.diagnostics[to.diagnostic]?.at.message ?? null;
  return found.messages.length === 0 ? null : lastNotAbove(starts.value, to.token);
}

/** Go to the problem after (1) or before (-1) the one that is selected. */
export function stepProblem(by: 1 | -1): void {
  const count = inspection.value?.diagnostics.length ?? 0;
  if (count === 0) return;
  const at = selected.value;
  const now = at?.kind === "diagnostic" ? at.diagnostic : by === 1 ? -1 : count;
  select({ kind: "diagnostic", diagnostic: (now + by + count) % count });
}

/** Look for something. Nothing moves until the reader goes to a hit. */
export function look(changed: Partial<Search>): void {
  batch(() => {
    search.value = { ...search.value, ...changed };
    hitAt.value = -1;
  });
}

/** Go to the hit after (1) or before (-1) the one that the reader is at. */
export function stepHit(by: 1 | -1): void {
  const count = hits.value.length;
  if (count === 0) return;
  const now = hitAt.value === -1 && by === -1 ? count : hitAt.value;
  batch(() => {
    hitAt.value = (now + by + count) % count;
    const hit = hits.value[hitAt.value];
    if (hit === undefined) return;
    if (hit.part === "token") select({ kind: "token", token: (starts.value[hit.message] ?? 0) + hit.start });
    else select({ kind: "message", message: hit.message });
  });
}
