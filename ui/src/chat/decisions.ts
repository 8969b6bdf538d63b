/** What waits for the person at the end of a branch, and their answers as items. Pure. */

import type { ChatSettings, Turn } from "../api/chats";
import type { ApprovalRequestItem, ApprovalResponseItem, FunctionOutputItem, Item } from "../api/wire";
import { isOnlyAnswers, isUnfinished } from "./items";
import { answersIn } from "./live_item";

export type Choice =
  | { kind: "once" }
  | { kind: "always" }
  | { kind: "refuse"; reason?: string }
  | { kind: "edit"; arguments: string }
  | { kind: "answer"; output: string };

export interface Waiting {
  /** Ids of approval requests, and of calls. */
  approvals: readonly string[];
  calls: readonly string[];
}

export const NOTHING_WAITS: Waiting = { approvals: [], calls: [] };

const NOT_ANSWERED = "The user did not answer this call, and wrote a message instead.";

/** The turn of the model that asks something at the end of a branch, and the turn with the answers given so far. */
export function asksIn(branch: readonly Turn[]): { asking: Turn | null; answers: Turn | null } {
  const last = branch.at(-1);
  if (last === undefined) return { asking: null, answers: null };
  if (last.role === "assistant") return { asking: last, answers: null };
  const before = branch.at(-2);
  const isOpen = last.status === "in_progress" && isOnlyAnswers(last) && before?.role === "assistant";
  return isOpen ? { asking: before, answers: last } : { asking: null, answers: null };
}

/** The assistant turns of one answer, up to this one. An answer that waited for the person has several. */
export function legsTo(branch: readonly Turn[], id: string): Turn[] {
  let at = branch.findIndex((turn) => turn.id === id);
  const legs = branch.slice(at, at + 1);
  for (; at >= 2 && isOnlyAnswers(branch[at - 1] as Turn) && branch[at - 2]?.role === "assistant"; at -= 2) legs.unshift(branch[at - 2] as Turn);
  return legs;
}

export function waitingIn(branch: readonly Turn[]): Waiting {
  const { asking, answers } = asksIn(branch);
  if (asking === null) return NOTHING_WAITS;
  const given = answersIn(answers);
  const approvals: string[] = [];
  const calls: string[] = [];
  for (const item of asking.items) {
    if (isUnfinished(item)) continue;
    if (item.type === "mcp_approval_request" && item.id != null && !given.has(item.id)) approvals.push(item.id);
    if (item.type === "function_call" && !given.has(item.call_id)) calls.push(item.call_id);
  }
  return approvals.length + calls.length === 0 ? NOTHING_WAITS : { approvals, calls };
}

/** `label.tool`, as the settings name a tool. */
export const toolName = (item: { server_label: string; name: string }): string => `${item.server_label}.${item.name}`;

export function approvalResponse(requestId: string, choice: Choice): ApprovalResponseItem {
  const answer: ApprovalResponseItem = { type: "mcp_approval_response", approval_request_id: requestId, approve: choice.kind !== "refuse" };
  if (choice.kind === "refuse" && choice.reason !== undefined && choice.reason !== "") answer.reason = choice.reason;
  if (choice.kind === "edit") answer.harmonia_arguments = choice.arguments;
  if (choice.kind === "answer") answer.harmonia_output = choice.output;
  return answer;
}

export function callOutput(callId: string, output: string): FunctionOutputItem {
  return { type: "function_call_output", call_id: callId, output };
}

/** The answers with one more; a second answer to the same question takes the place of the first. */
export function withAnswer(items: readonly Item[], answer: ApprovalResponseItem | FunctionOutputItem): Item[] {
  const answered = (item: Item): string | null =>
    item.type === "mcp_approval_response" ? item.approval_request_id : item.type === "function_call_output" ? item.call_id : null;
  return [...items.filter((item) => answered(item) !== answered(answer)), answer];
}

/** A message instead of answers: what waits is refused, or said not to be answered, so that no call stays open. */
export function unanswered(waiting: Waiting): Item[] {
  return [
    ...waiting.approvals.map((id) => approvalResponse(id, { kind: "refuse", reason: NOT_ANSWERED })),
    ...waiting.calls.map((id) => callOutput(id, NOT_ANSWERED)),
  ];
}

/** Requests that wait and that the person wants approved without being asked. */
export function allowedAlready(turn: Turn, waiting: Waiting, settings: ChatSettings): ApprovalRequestItem[] {
  const always = new Set(settings.always);
  return turn.items.filter(
    (item): item is ApprovalRequestItem =>
      item.type === "mcp_approval_request" && item.id != null && waiting.approvals.includes(item.id) && always.has(toolName(item)),
  );
}
