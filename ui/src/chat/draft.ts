/**
 * What was typed and attached and not yet sent, kept for each chat, so that no error and no other view loses it.
 *
 * Text also outlives a reload, until the tab closes. Files do not: storage has no room for them.
 */

import { signal } from "@preact/signals";
import type { AttachedFile } from "./items";

const NAME = "harmonia.draft.";
/** Storage has room for some five million characters; a draft must not take it all. */
const MOST_CHARS = 500_000;
const NONE: readonly AttachedFile[] = [];

/** For what storage does not take, because it is switched off or full. */
const typed = new Map<string, string>();
const attached = signal<ReadonlyMap<string, readonly AttachedFile[]>>(new Map());

const nameOf = (chat: string | null): string => NAME + (chat ?? "new");

export function readDraft(chat: string | null): string {
  const name = nameOf(chat);
  try {
    return typed.get(name) ?? sessionStorage.getItem(name) ?? "";
  } catch {
    return ""; // storage is switched off
  }
}

export function keepDraft(chat: string | null, text: string): void {
  const name = nameOf(chat);
  typed.delete(name);
  try {
    if (text === "") return sessionStorage.removeItem(name);
    if (text.length <= MOST_CHARS) return sessionStorage.setItem(name, text);
  } catch {
    // Storage is switched off, or full.
  }
  if (text !== "") typed.set(name, text);
}

/** The files that wait for the next message of a chat. */
export const draftFiles = (chat: string | null): readonly AttachedFile[] => attached.value.get(nameOf(chat)) ?? NONE;

export function keepFiles(chat: string | null, files: readonly AttachedFile[]): void {
  const kept = new Map(attached.value);
  if (files.length === 0) kept.delete(nameOf(chat));
  else kept.set(nameOf(chat), files);
  attached.value = kept;
}
