/**
 * The request that a branch of a chat is answered by. Pure.
 *
 * The server keeps nothing of it (`store: false`): the branch goes along whole, with its seals, so that the model goes on
 * from the exact tokens. What must not go back is left out: calls that were not made, with their answers, and what is empty.
 */

import type { ChatSettings, Turn } from "../api/chats";
import type { Failure } from "../api/client";
import type { McpServer } from "../api/server";
import type { Effort, Item, JsonValue, ResponseRequest } from "../api/wire";
import { isListing, isUnfinished, sendable, textOf, withoutSeal } from "./items";

/** What the page shows where nobody chose one; it is sent, so that what is shown is what is used. */
export const DEFAULT_EFFORT: Effort = "medium";

export interface Asking {
  branch: readonly Turn[];
  settings: ChatSettings;
  servers: readonly McpServer[];
  /** For this answer only; otherwise the chat's. */
  effort?: Effort | undefined;
  /** Go on with the last turn of the branch, which is the model's. */
  continues?: boolean;
  /** Turns whose seals the server does not open. */
  unsealed?: ReadonlySet<string>;
}

export function requestFor({ branch, settings, servers, effort, continues = false, unsealed }: Asking): ResponseRequest {
  const input = inputOf(branch, unsealed);
  const request: ResponseRequest = { input, store: false, stream: true, include: ["harmonia.encrypted_content"], ...toolsFor(settings, servers) };
  const identity = settings.identity?.trim() ?? "";
  if (identity !== "") request.harmonia_identity = identity;
  const instructions = settings.instructions?.trim() ?? "";
  if (instructions !== "") request.instructions = instructions;
  const wanted = effort ?? settings.effort;
  if (wanted !== undefined) request.reasoning = { effort: wanted };
  if (settings.temperature !== undefined) request.temperature = settings.temperature;
  if (settings.top_p !== undefined) request.top_p = settings.top_p;
  if (settings.max_output_tokens !== undefined) request.max_output_tokens = settings.max_output_tokens;
  // After an item that is whole the model goes on by itself.
  const last = input.at(-1);
  if (continues && last !== undefined && isUnfinished(last)) request.harmonia_continue = true;
  return request;
}

function inputOf(branch: readonly Turn[], unsealed: ReadonlySet<string> | undefined): Item[] {
  const calls = new Set<string>();
  const requests = new Set<string>();
  const input: Item[] = [];
  for (const turn of branch) {
    for (const item of sendable(turn)) {
      if (item.type === "function_call") calls.add(item.call_id);
      if (item.type === "mcp_approval_request" && item.id != null) requests.add(item.id);
      if (item.type === "function_call_output" && !calls.has(item.call_id)) continue;
      if (item.type === "mcp_approval_response" && !requests.has(item.approval_request_id)) continue;
      const sent = unsealed?.has(turn.id) ? bare(item) : item;
      if (sent !== null) input.push(sent);
    }
  }
  return input;
}

/**
 * Tools of the server are offered unless something is said, so that nothing is said where all are on. Naming a server
 * leaves out all others; naming one with no tools leaves out every one.
 */
function toolsFor(settings: ChatSettings, servers: readonly McpServer[]): Pick<ResponseRequest, "tools" | "tool_choice"> {
  const functions = settings.functions ?? [];
  const there = servers.filter((server) => server.error === null && server.tools.length > 0);
  const off = new Set(settings.tools_off);
  const isOn = (server: McpServer, tool: string): boolean => !off.has(server.label) && !off.has(`${server.label}.${tool}`);
  if (there.every((server) => server.tools.every((tool) => isOn(server, tool.name)))) {
    return functions.length === 0 ? {} : { tools: [...functions] };
  }
  const named = there.flatMap((server): JsonValue[] => {
    const on = server.tools.filter((tool) => isOn(server, tool.name)).map((tool) => tool.name);
    if (on.length === 0) return [];
    return [{ type: "mcp", server_label: server.label, ...(on.length === server.tools.length ? {} : { allowed_tools: on }) }];
  });
  if (named.length > 0) return { tools: [...named, ...functions] };
  const none: JsonValue[] = there.slice(0, 1).map((server) => ({ type: "mcp", server_label: server.label, allowed_tools: [] }));
  return functions.length > 0 ? { tools: [...none, ...functions] } : { tools: none, tool_choice: "none" };
}

/**
 * Whether the server refused a request because of a seal that can be left out: it expired, or was made for another key or
 * model. An approval cannot do without the seal of what is approved.
 */
export function isBadSeal(failure: Failure): boolean {
  return failure.code === "invalid_encrypted_content" && !(failure.param ?? "").endsWith("approval_request_id");
}

/** The words for an answer that was asked for without seals. */
export const SEALS_LEFT_OUT =
  "The server could not open the sealed reasoning of earlier answers (it expired, or belongs to another key or model). The model answered without it.";

/** The same request without seals. Hidden reasoning, which is nothing else, is left out. */
export function withoutSeals(request: ResponseRequest): ResponseRequest {
  return { ...request, input: request.input.flatMap((item) => bare(item) ?? []) };
}

function bare(item: Item): Item | null {
  // A call that was not made says so for people; for the model it is what is sealed.
  return item.type === "reasoning" && (textOf(item) === "" || item.harmonia_call != null) ? null : withoutSeal(item);
}

/** Whether an answer can go on from where it ended. One that was stored as running broke off. */
export function canContinue(turn: Turn): boolean {
  if (turn.role !== "assistant" || turn.status === "completed") return false;
  const last = sendable(turn).findLast((item) => !isListing(item));
  return last !== undefined && last.type !== "function_call" && last.type !== "mcp_approval_request";
}
