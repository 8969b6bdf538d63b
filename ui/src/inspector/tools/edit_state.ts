/**
 * The draft that is being edited. It outlives the tab, so that a look elsewhere loses nothing, and it begins again when
 * something else is opened.
 */

import { batch, effect, signal } from "@preact/signals";
import { input, inspection } from "../state";
import { type Base, baseOf, type Draft, type Outcome, tryDraft, weigh } from "./draft";
import { Runner } from "./task";
import { begin, type Bounds, type History, record, redo, undo } from "./undo";
import type { Failure } from "../../api/client";

export const base = signal<Base | null>(null);
export const history = signal<History<Draft>>(begin({ kind: "text", text: "" }));
export const outcome = signal<Outcome | null>(null);
export const failure = signal<Failure | null>(null);
export const isBusy = signal(false);
/** Whether messages are edited one by one, or the text as a whole. */
export const byMessage = signal(true);
/** The message whose form is open. */
export const opened = signal<number | null>(null);
/** The first message of the page that is shown. */
export const page = signal(0);

const BOUNDS: Bounds<Draft> = { steps: 200, weight: 24_000_000, weigh };
const PAUSE_MS = 350;

const runner = new Runner<Outcome>((state) =>
  batch(() => {
    if (state.value !== null && !state.isBusy && state.failure === null) outcome.value = state.value;
    failure.value = state.failure;
    isBusy.value = state.isBusy;
  }),
);

effect(() => {
  const found = inspection.value;
  const next = found === null ? null : baseOf(found, input.peek());
  runner.halt();
  batch(() => {
    base.value = next;
    history.value = begin<Draft>(next?.start ?? { kind: "text", text: "" });
    outcome.value = null;
    failure.value = null;
    isBusy.value = false;
    opened.value = null;
    page.value = 0;
  });
});

/** Ask the server about the draft as it is now; after a pause, where letters are still being typed. */
export function tryNow(delay_ms = 0): void {
  const now = base.value;
  if (now === null) return;
  const draft = history.value.present;
  runner.run((stop) => tryDraft(now, draft, stop), delay_ms);
}

export function change(draft: Draft, group: string | null = null): void {
  history.value = record(history.value, draft, BOUNDS, group);
  tryNow(group === null ? 0 : PAUSE_MS);
}

export function stepBack(): void {
  history.value = undo(history.value);
  opened.value = null;
  tryNow();
}

export function stepForth(): void {
  history.value = redo(history.value);
  opened.value = null;
  tryNow();
}

/** The inspection of exactly this draft; null while it is under way. */
export function current(): Outcome | null {
  const found = outcome.value;
  return found !== null && found.draft === history.value.present ? found : null;
}
