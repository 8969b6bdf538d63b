/** `GET v1/harmony/server`: what the page must know of the server before anything is asked. */

import { signal } from "@preact/signals";
import { ask } from "./client";
import type { JsonValue } from "./wire";

export interface ServerTool {
  name: string;
  description: string | null;
  parameters: JsonValue;
  /** Whether a call runs at once, or the user is asked first. */
  approval: "run" | "ask";
}

export interface McpServer {
  label: string;
  tools: ServerTool[];
  /** Why the server is not there; null where it is. */
  error: string | null;
}

export interface ServerInfo {
  object: "harmonia.server";
  version: string;
  /** The name that answers have first. Empty until the engine is known. */
  models: string[];
  engine: string | null;
  context_tokens: number | null;
  speaks_tokens: boolean;
  analysis: "hidden" | "shown";
  guessed: "hidden" | "shown";
  calls: "certain" | "unverified";
  mcp_servers: McpServer[];
}

/** Null until the server has told. */
export const serverInfo = signal<ServerInfo | null>(null);

export async function loadServerInfo(signal?: AbortSignal): Promise<ServerInfo> {
  const info = await ask<ServerInfo>("v1/harmony/server", signal === undefined ? {} : { signal });
  serverInfo.value = info;
  return info;
}
