/**
 * Where the page is, in the fragment of the URL, after `#`: it never reaches the server or its logs.
 *
 *     #/                     a new chat
 *     #/chat/CHAT            a chat, at the branch that was shown last
 *     #/chat/CHAT/TURN       a chat, at the branch of this turn
 *     #/inspect              the inspector
 *     #/inspect/CHAT/TURN    a turn of a chat in the inspector
 */

import { signal } from "@preact/signals";

export type Route =
  | { view: "chat"; chat: string | null; turn: string | null }
  | { view: "inspect"; chat: string | null; turn: string | null };

export function readRoute(hash: string): Route {
  const [view = "", chat, turn] = hash.replace(/^#?\/?/, "").split("/").map(decoded);
  const rest = { chat: chat || null, turn: turn || null };
  return view === "inspect" ? { view, ...rest } : { view: "chat", ...(view === "chat" ? rest : { chat: null, turn: null }) };
}

export function hashOf(route: Route): string {
  const parts = [route.view, route.chat, route.turn].filter((part) => part !== null).map(encodeURIComponent);
  return route.view === "chat" && route.chat === null ? "#/" : `#/${parts.join("/")}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(readRoute(location.hash));
addEventListener("hashchange", () => (route.value = readRoute(location.hash)));

/** Go there. `replace` leaves no step behind for the back button. */
export function go(to: Route, replace = false): void {
  const hash = hashOf(to);
  if (replace) history.replaceState(null, "", hash);
  else if (hash !== location.hash) history.pushState(null, "", hash);
  route.value = to;
}
