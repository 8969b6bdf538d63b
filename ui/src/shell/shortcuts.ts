/** Keys that work everywhere on the page. Those of a view are the view's own; `?` lists all of them. */

import { newChat, stop, running } from "../chat/session";
import { isComposing } from "../parts/keys";
import { go } from "../route";
import { isListOpen, overlay } from "./overlays";

export interface Shortcut {
  keys: string;
  does: string;
}

/** For the list that `?` shows. */
export const SHORTCUTS: readonly Shortcut[] = [
  { keys: "Ctrl K", does: "Search all chats" },
  { keys: "Ctrl Shift O", does: "New chat" },
  { keys: "Shift Escape", does: "Go to the text field" },
  { keys: "Escape", does: "Stop the answer" },
  { keys: "Enter", does: "Send" },
  { keys: "Shift Enter", does: "New line" },
  { keys: "?", does: "This list" },
];

export function startNewChat(): void {
  newChat();
  isListOpen.value = false; // also where it is the new chat already
  go({ view: "chat", chat: null, turn: null });
  focusComposer();
}

export function focusComposer(): void {
  // Behind the next paint: the view may only be coming.
  requestAnimationFrame(() => document.querySelector<HTMLElement>("textarea[data-composer]")?.focus());
}

/** What the shortcut does, or null where the key is none. */
export function actionOf(event: KeyboardEvent): (() => void) | null {
  const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey;
  const key = event.key.toLowerCase();
  if (isCommand && key === "k") return () => (overlay.value = { name: "search" });
  if (isCommand && event.shiftKey && key === "o") return startNewChat;
  if (isCommand || event.altKey) return null;
  if (key === "escape" && event.shiftKey) return focusComposer;
  // In a dialog Escape closes it, and nothing else.
  if (key === "escape" && isListOpen.value && document.querySelector("dialog[open]") === null) return () => (isListOpen.value = false);
  if (key === "escape" && document.querySelector("dialog[open]") === null && running.value !== null) return stop;
  if (key === "?" && !isTyping(event.target)) return () => (overlay.value = { name: "help" });
  return null;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

export function listenForShortcuts(): () => void {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.defaultPrevented || isComposing(event)) return;
    const action = actionOf(event);
    if (action === null) return;
    event.preventDefault();
    action();
  };
  addEventListener("keydown", onKeyDown);
  return () => removeEventListener("keydown", onKeyDown);
}
