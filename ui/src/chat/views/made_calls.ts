/** Calls that were asked for in one turn and made in the next: which belong together. */

import type { Turn } from "../../api/chats";
import type { LiveItem } from "../answer";

/** The request that a call was approved by. */
export function requestOf(item: LiveItem): string | null {
  const raw = item.raw();
  return raw.type === "mcp_call" ? (raw.approval_request_id ?? null) : null;
}

/** The requests of an answer that waited for the person. */
export function requestsIn(turn: Turn | null): ReadonlySet<string> {
  const found = (turn?.items ?? []).flatMap((item) => (item.type === "mcp_approval_request" && item.id != null ? [item.id] : []));
  return new Set(found);
}

/** The call that a request became, among the items of where the answer goes on. */
export function madeOf(item: LiveItem, later: readonly LiveItem[]): LiveItem | null {
  if (item.kind !== "approval" || item.id === null) return null;
  return later.find((each) => requestOf(each) === item.id) ?? null;
}
