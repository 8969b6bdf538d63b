/** Which dialog of the shell is open, and what is being told. One of each at a time. */

import { effect, signal } from "@preact/signals";
import type { ListedChat } from "../api/chats";
import { route } from "../route";

export type Overlay =
  | { name: "search" }
  | { name: "help" }
  | { name: "import" }
  | { name: "rename" | "delete" | "export"; chat: Pick<ListedChat, "id" | "title"> };

export const overlay = signal<Overlay | null>(null);
/** Whether the list of chats is shown where there is no room for it beside the chat. */
export const isListOpen = signal(false);
// Whoever goes somewhere wants to see it: the list would cover it.
effect(() => {
  void route.value;
  isListOpen.value = false;
});
/** What was just done, in words; said once, also to those who do not see it. */
export const notice = signal<{ text: string; isError: boolean } | null>(null);

export function tell(text: string, isError = false): void {
  notice.value = { text, isError };
}
