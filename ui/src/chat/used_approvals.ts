/** Approvals that were used: the server accepts each one once, so the call that came of it is sent along from then on. Pure. */

import type { Turn } from "../api/chats";
import type { Failure } from "../api/client";
import type { Item, McpCallItem } from "../api/wire";
import { isUnfinished } from "./items";
import type { Tree } from "./tree";

const RESULT_UNKNOWN = "This call was already approved or refused, and its result is not known. It was not run again.";

/** Whether an item is the call that a request for approval became. */
export const isMadeCall = (item: Item): item is McpCallItem & { approval_request_id: string } =>
  item.type === "mcp_call" && item.approval_request_id != null;

/** The call that a request became, in any branch, and how long it took. */
function madeCall(tree: Tree, requestId: string): { call: McpCallItem; seconds: number | undefined } | null {
  for (const turn of tree.turns.values()) {
    for (const [index, item] of turn.items.entries()) {
      if (isMadeCall(item) && item.approval_request_id === requestId && !isUnfinished(item)) {
        return { call: item, seconds: turn.details.item_s?.[index] };
      }
    }
  }
  return null;
}

/** The calls that came of a turn of decisions. Another answer to that turn begins with them, so that none is made again. */
export function callsOf(tree: Tree, decisions: Turn | undefined): { items: Item[]; item_s: Record<number, number> } {
  const items: Item[] = [];
  const item_s: Record<number, number> = {};
  for (const each of decisions?.role === "user" ? decisions.items : []) {
    const made = each.type === "mcp_approval_response" ? madeCall(tree, each.approval_request_id) : null;
    if (made === null) continue;
    if (made.seconds !== undefined) item_s[items.length] = made.seconds;
    items.push(made.call);
  }
  return { items, item_s };
}

/** The request whose approval the server refuses as used. Null where the request to the server had its call already. */
export function usedApproval(failure: Failure, input: readonly Item[]): string | null {
  const at = failure.code === "approval_used" ? /input\[(\d+)\]\.approval_request_id$/.exec(failure.param ?? "")?.[1] : undefined;
  const given = at === undefined ? undefined : input[Number(at)];
  if (given?.type !== "mcp_approval_response") return null;
  const id = given.approval_request_id;
  return input.some((item) => isMadeCall(item) && item.approval_request_id === id) ? null : id;
}

/**
 * The turn after a decision, with the call that came of it added. Where the result of the call is not known (for
 * instance because the answer was stopped while the tool ran), the call says so.
 */
export function withMadeCall(tree: Tree, branch: readonly Turn[], requestId: string): Turn | null {
  const given = branch.flatMap((turn) => turn.items).find((item) => item.type === "mcp_approval_response" && item.approval_request_id === requestId);
  const request = branch.flatMap((turn) => turn.items).find((item) => item.type === "mcp_approval_request" && item.id === requestId);
  const turn = branch[branch.findIndex((each) => given !== undefined && each.items.includes(given)) + 1];
  if (given?.type !== "mcp_approval_response" || request?.type !== "mcp_approval_request" || turn?.role !== "assistant") return null;
  const { name, server_label } = request;
  const call: McpCallItem = madeCall(tree, requestId)?.call ?? {
    type: "mcp_call", name, server_label, arguments: given.harmonia_arguments ?? request.arguments,
    error: RESULT_UNKNOWN, approval_request_id: requestId, status: "failed",
  };
  const others = turn.items.filter((item) => !isMadeCall(item) || item.approval_request_id !== requestId);
  const first = others.findIndex((item) => !isMadeCall(item));
  return { ...turn, items: others.toSpliced(first < 0 ? others.length : first, 0, call) };
}
