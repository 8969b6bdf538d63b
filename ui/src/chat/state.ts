/** The chat that is open, as signals; `session.ts` is what views use. Every turn goes through `keep`: shown, then saved. */

import { batch, computed, effect, signal, untracked, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Chat, ChatSettings, Turn } from "../api/chats";
import { apiKey, failureOf, type Failure } from "../api/client";
import type { LiveAnswer } from "./answer";
import { NOTHING_WAITS, waitingIn, type Waiting } from "./decisions";
import { Saver, type Saving } from "./saver";
import { EMPTY, pathTo, put, type Tree } from "./tree";
import { nowSeconds } from "./versions";

export interface ChatFailure {
  failure: Failure;
  /** What could not be done; `retry()` does it again. */
  doing: "loading" | "answering" | "creating";
  /** The turn that failed, where there is one. */
  turn: string | null;
  /** What was typed and did not reach the chat; it is also in `draft` again. */
  typed: string;
}

/** Null for a new chat that the server does not have yet. */
export const chat: Signal<Chat | null> = signal<Chat | null>(null);
export const saver = new Saver((id) => chat.value?.id === id);
export const tree: Signal<Tree> = signal<Tree>(EMPTY);
export const leaf: Signal<string | null> = signal<string | null>(null);
/** The turns from the first to the leaf. */
export const branch: ReadonlySignal<readonly Turn[]> = computed(() => pathTo(tree.value, leaf.value));
export const settings: Signal<ChatSettings> = signal<ChatSettings>({});
export const running: Signal<LiveAnswer | null> = signal<LiveAnswer | null>(null);
export const failure: Signal<ChatFailure | null> = signal<ChatFailure | null>(null);
export const saving: ReadonlySignal<Saving> = saver.state;
/** Why the last save failed. It is tried again by itself; `retrySaving` does it now. */
export const saveFailure: ReadonlySignal<Failure | null> = saver.failure;
export const retrySaving = (): void => saver.retry();
/** Until nothing is on its way to the server: it was saved, or it failed. */
export function untilSaved(): Promise<void> {
  return new Promise((resolve) => {
    const stop = effect(() => {
      if (saving.value === "saving") return;
      resolve();
      queueMicrotask(() => stop()); // not at once: the first time it has no name yet
    });
  });
}
/** Whether a chat is being loaded. */
export const loading: Signal<boolean> = signal(false);
/** Whether a chat is being created, for its first message. */
export const creating: Signal<boolean> = signal(false);
/** What stands in the composer: bind it there. `sendMessage` empties it, a failure puts it back. */
export const draft: Signal<string> = signal("");
/** Approvals and calls at the end of the branch that wait for the person: ids of requests, and call ids. */
export const waitingFor: ReadonlySignal<Waiting> = computed(() =>
  running.value !== null && running.value.turn === leaf.value ? NOTHING_WAITS : waitingIn(branch.value),
);

export const isBusy = (): boolean => running.value !== null || creating.value || loading.value;

/** Nothing is open: a new chat. */
export function reset(): void {
  batch(() => {
    chat.value = null;
    tree.value = EMPTY;
    leaf.value = null;
    settings.value = {};
    running.value = null;
    loading.value = false;
  });
}

// ── failures ──

let again: (() => unknown) | null = null;

/** Something could not be done. `repeat` does it again, if the person wants to. */
export function fail(error: unknown, told: Omit<ChatFailure, "failure">, repeat: () => unknown): void {
  again = repeat;
  failure.value = { failure: failureOf(error), ...told };
}

export function dismissFailure(): void {
  failure.value = null;
  again = null;
}

/** Do again what failed. */
export async function retry(): Promise<void> {
  const repeat = again;
  dismissFailure();
  saver.retry();
  await repeat?.();
}

// ── turns ──

/** Put a turn into the tree, show it, and save it. */
export function keep(id: string, turn: Turn): void {
  batch(() => {
    tree.value = put(tree.value, turn);
    saver.turn(id, turn);
    if (leaf.value !== turn.id) show(turn.id);
  });
}

export function show(to: string | null): void {
  leaf.value = to;
  if (chat.value === null) return;
  chat.value = { ...chat.value, leaf: to };
  saver.change(chat.value.id, { leaf: to });
}

/** `undefined` takes a setting away. */
export async function changeSettings(change: { [Name in keyof ChatSettings]?: ChatSettings[Name] | undefined }): Promise<void> {
  const merged = Object.entries({ ...settings.value, ...change }).filter(([, value]) => value !== undefined);
  settings.value = Object.fromEntries(merged) as ChatSettings;
  if (chat.value === null) return; // the chat is created with them
  chat.value = { ...chat.value, settings: settings.value, updated_at: nowSeconds() };
  saver.change(chat.value.id, { settings: settings.value });
}

// With another key, what could not be loaded, asked or saved perhaps can.
effect(() => {
  if (apiKey.value === null) return;
  untracked(() => {
    const failed = failure.value;
    if (failed?.failure.kind === "key") void retry();
    else if (saver.state.value === "failed") saver.retry();
  });
});

// What is not saved would be lost with the page; the browser asks the person.
addEventListener("beforeunload", (event) => {
  if (saver.state.value === "failed") event.preventDefault();
});
