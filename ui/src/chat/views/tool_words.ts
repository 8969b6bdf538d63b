/** The state of a tool call in words, and what its arguments should look like. Pure. */

import type { ServerInfo, ServerTool } from "../../api/server";
import type { JsonValue } from "../../api/wire";
import type { CallResult, Decided, LiveState } from "../answer";
import type { SchemaCheck } from "../schema_check";

export interface CallFacts {
  state: LiveState;
  /** Whether the arguments are still being written. */
  isWriting: boolean;
  result: CallResult | null;
}

export function callWords({ state, isWriting, result }: CallFacts): string {
  if (result?.by === "person") return result.failed ? "refused by you" : "answered by you";
  switch (state) {
    case "running":
      return isWriting ? "writing arguments …" : "running …";
    case "waiting":
      return "waiting for you";
    case "done":
      return result?.failed ? "failed" : "done";
    case "incomplete":
      return "not finished";
    case "failed":
      return "failed";
    case "refused":
      return "refused";
  }
}

export function decidedWords(decided: Decided | null): string {
  switch (decided?.kind) {
    case "approved":
      return "allowed by you";
    case "edited":
      return "allowed by you, with other arguments";
    case "answered":
      return "answered by you";
    case "refused":
      return "refused by you";
    case undefined:
      return "waiting for you";
  }
}

/** What was decided about a call and what became of it, once where both are the same. */
export function madeWords(decided: string | null, became: string): string {
  return decided === null || decided === became ? became : `${decided}, ${became}`;
}

/** In a sentence: whether the arguments fit. */
export function checkWords(check: SchemaCheck): string {
  switch (check.verdict) {
    case "fits":
      return "The arguments fit the tool's schema.";
    case "unchecked":
      return `As far as checked, the arguments fit the tool's schema. Not checked: ${check.unchecked.join(", ")}.`;
    case "misfits":
      return "The arguments do not fit the tool's schema:";
  }
}

export function toolOf(info: ServerInfo | null, server: string, tool: string): ServerTool | null {
  const found = info?.mcp_servers.find((each) => each.label === server);
  return found?.tools.find((each) => each.name === tool) ?? null;
}

/** The schema of a call's arguments; undefined where nobody declares the tool any more. */
export function schemaOf(
  info: ServerInfo | null, functions: readonly JsonValue[] | undefined, server: string | null, tool: string,
): JsonValue | undefined {
  if (server !== null) return toolOf(info, server, tool)?.parameters;
  for (const each of functions ?? []) {
    if (typeof each !== "object" || each === null || Array.isArray(each)) continue;
    if (each.name === tool) return each.parameters;
  }
  return undefined;
}

/** What is wrong with a text that should be a JSON object; null where nothing is. */
export function jsonFault(text: string): string | null {
  try {
    const value = JSON.parse(text) as JsonValue;
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? null : "Arguments are a JSON object: { … }.";
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : "it cannot be read"}.`;
  }
}

/** JSON with one value on a line; every other text as it is. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function isJson(text: string): boolean {
  const first = text.trimStart()[0];
  if (first !== "{" && first !== "[") return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
