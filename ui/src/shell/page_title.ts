/** The name of the page in tabs, bookmarks and the browser's history: what is open. */

import { effect } from "@preact/signals";
import { chat } from "../chat/session";
import { route, type Route } from "../route";

export function pageTitle(view: Route["view"], title: string | null): string {
  const open = view === "inspect" ? "Inspector" : (title ?? "").trim();
  return open === "" ? "Harmonia" : `${open} · Harmonia`;
}

/** Keeps it up to date; gives back what ends that. */
export const followTitle = (): (() => void) =>
  effect(() => {
    document.title = pageTitle(route.value.view, chat.value?.title ?? null);
  });
