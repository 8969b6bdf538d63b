/** A turn of a chat as a trace: the request that it was asked by, built again as the chat builds it, and its answer. */

import type { Turn } from "../api/chats";
import { Failure } from "../api/client";
import { type TurnTrace, traceTurn } from "../api/inspect";
import { loadServerInfo, serverInfo } from "../api/server";
import type { Item } from "../api/wire";
import { knownChat } from "../chat/known";
import { requestFor } from "../chat/request";
import { pathTo, treeOf } from "../chat/tree";
import { INCLUDE } from "./state";

/** The turns of the prompt, and the items of the answer. A turn of the person's is a prompt without an answer. */
export function cutBranch(path: readonly Turn[]): { branch: readonly Turn[]; output: Item[]; turn: Turn } | null {
  const turn = path.at(-1);
  if (turn === undefined) return null;
  return turn.role === "assistant" ? { branch: path.slice(0, -1), output: turn.items, turn } : { branch: path, output: [], turn };
}

export async function traceOf(chatId: string, turnId: string, signal: AbortSignal): Promise<{ trace: TurnTrace; title: string }> {
  const [chat, info] = await Promise.all([knownChat(chatId), serverInfo.value ?? loadServerInfo(signal)]);
  const cut = cutBranch(pathTo(treeOf(chat.turns), turnId));
  if (cut === null) throw new Failure("request", "This turn is not in the chat.", "not_found", null, 404);
  const { stream: _, ...request } = requestFor({
    branch: cut.branch,
    settings: chat.settings,
    servers: info.mcp_servers,
    effort: cut.turn.details.effort,
  });
  const sampled = cut.turn.role === "assistant" ? cut.turn.details.sampled : undefined;
  const asked = { request, output: cut.output, ...(sampled === undefined ? {} : { sampled }) };
  const trace = await traceTurn(asked, INCLUDE, signal);
  return { trace: { ...trace, notes: [...trace.notes, ...changedArguments([...cut.branch, cut.turn])] }, title: chat.title };
}

/** Notes on calls whose arguments a person changed. The tokens have only the arguments that the tool was run with. */
export function changedArguments(path: readonly Turn[]): string[] {
  const items = path.flatMap((turn) => turn.items);
  return items.flatMap((item) => {
    if (item.type !== "mcp_approval_response" || item.harmonia_arguments == null) return [];
    const request = items.find((one) => one.type === "mcp_approval_request" && one.id === item.approval_request_id);
    if (request?.type !== "mcp_approval_request") return [];
    return [`you changed the arguments of ${request.server_label}.${request.name}: the model asked for ${request.arguments}, and it was run with ${item.harmonia_arguments}`];
  });
}
