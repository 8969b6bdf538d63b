/** What the reader gives: a text with options, as the request has it. Pure. */

import { FORMAT_WORDS } from "../parts/format_words";
import type { InputKind, InspectInput } from "../api/inspect";

export const KINDS: [InputKind, string][] = [
  ["auto", "Recognise it"],
  ["text", FORMAT_WORDS.harmony],
  ["tokens", FORMAT_WORDS.tokens],
  ["stripped", "Stripped text, without special tokens"],
  ["harmony-json", FORMAT_WORDS["harmony-json"]],
  ["responses", FORMAT_WORDS.responses],
  ["chat", FORMAT_WORDS.chat],
  ["sse", "Saved stream (SSE)"],
  ["markdown", FORMAT_WORDS.markdown],
];

/** What the form holds. */
export interface Draft {
  text: string;
  as: InputKind;
  isCompletion: boolean;
  isStopSwallowed: boolean;
  /** Names, or JSON of definitions. */
  tools: string;
}

export const EMPTY_DRAFT: Draft = { text: "", as: "auto", isCompletion: false, isStopSwallowed: false, tools: "" };

/** A body of a request is not larger. */
export const MOST_BYTES = 8 * 1024 * 1024;

/** A longer text is not put into a field: a browser takes seconds to lay it out there. */
export const LONGEST_FIELD = 50_000;

export type Read = { input: InspectInput } | { error: string };

export function readDraft(draft: Draft): Read {
  if (draft.text.trim() === "") return { error: "There is nothing to inspect yet. Paste a trace, open a file, or choose an example." };
  const input: InspectInput = { text: draft.text };
  if (draft.as !== "auto") input.as = draft.as;
  if (draft.isCompletion) input.role = "assistant";
  if (draft.isStopSwallowed) input.stop_swallowed = true;
  const tools = readTools(draft.tools);
  if ("error" in tools) return tools;
  if (tools.tools.length > 0) input.tools = tools.tools;
  return { input };
}

/** Names with commas, spaces or lines between; or a JSON list of names and definitions. */
export function readTools(text: string): { tools: unknown[] } | { error: string } {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) return { tools: trimmed.split(/[\s,]+/).filter((name) => name !== "") };
  try {
    const value: unknown = JSON.parse(trimmed);
    return { tools: Array.isArray(value) ? value : [value] };
  } catch {
    return { error: "The tools are not valid JSON. Give a list of definitions, or names separated by commas." };
  }
}

/** The form for an input that was inspected. */
export function draftOf(input: InspectInput): Draft {
  const { tools = [] } = input;
  return {
    text: input.text ?? (input.tokens === undefined ? "" : input.tokens.join(" ")),
    as: input.as ?? (input.tokens === undefined ? "auto" : "tokens"),
    isCompletion: input.role === "assistant",
    isStopSwallowed: input.stop_swallowed ?? false,
    tools: tools.length === 0 ? "" : tools.every((tool) => typeof tool === "string") ? tools.join(", ") : JSON.stringify(tools, null, 2),
  };
}
