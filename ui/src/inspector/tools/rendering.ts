/** `v1/harmony/render` and `tokenize`, as far as the inspector's tools ask them. */

import { ask } from "../../api/client";
import type { TokenInfo } from "../../api/inspect";
import type { Fields } from "./splice";

export interface Piece extends TokenInfo {
  id: number;
}

export interface RenderedSpan {
  message: number;
  start_token: number;
  body_token: number;
  stop_token: number;
  end_token: number;
}

export interface RenderedPrompt {
  tokens: number[];
  text: string | null;
  spans: RenderedSpan[];
}

/** A message of `harmony-json`. It has no stop: that follows from the rest. */
export interface HarmonyMessage {
  role: string;
  name?: string;
  channel?: string;
  recipient?: string;
  content_type?: string;
  content: { type: "text"; text: string }[];
}

export function harmonyJson(messages: readonly Fields[]): { messages: HarmonyMessage[] } {
  return {
    messages: messages.map(({ role, name, channel, recipient, content_type, content }) => ({
      role,
      ...(name === null ? {} : { name }),
      ...(channel === null ? {} : { channel }),
      ...(recipient === null ? {} : { recipient }),
      ...(content_type === null ? {} : { content_type }),
      content: [{ type: "text", text: content }],
    })),
  };
}

/** The tokens of a conversation. Nothing that is typed becomes a control token. */
export const renderMessages = (messages: readonly Fields[], signal: AbortSignal): Promise<RenderedPrompt> =>
  ask("v1/harmony/render", { body: { ...harmonyJson(messages), format: "harmony-json", next_role: null, escape: true }, signal });

/** The tokens of a text in which spellings are control tokens. */
export async function encodeText(text: string, signal: AbortSignal): Promise<number[]> {
  if (text === "") return [];
  return (await ask<{ tokens: number[] }>("v1/harmony/tokenize", { body: { text, special: true }, signal })).tokens;
}

export async function encodePieces(text: string, special: boolean, signal: AbortSignal): Promise<Piece[]> {
  if (text === "") return [];
  return (await ask<{ pieces: Piece[] }>("v1/harmony/tokenize", { body: { text, special, output: "pieces" }, signal })).pieces;
}
