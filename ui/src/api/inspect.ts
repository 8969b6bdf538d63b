/** `v1/harmony/inspect`, `trace`, `diff`, `replay`: what the inspector shows. There is one parser, and it is the server's. */

import { ask } from "./client";
import type { Item, ResponseRequest, SampledEntry } from "./wire";

export type InputKind = "auto" | "tokens" | "text" | "stripped" | "sse" | "harmony-json" | "chat" | "responses" | "markdown";
export type Role = "system" | "developer" | "user" | "assistant" | "tool";

/** Text that is part of no message. */
export interface OutsideText {
  text: string;
  start_char: number;
  tokens: number;
  /** Only where the request included token ids. */
  ids?: number[];
}

export interface InspectInput {
  text?: string;
  tokens?: number[];
  as?: InputKind;
  /** Which conversation of a file that has several (JSONL), counted from 0. */
  document?: number;
  /** `assistant` for a completion, which continues after `<|start|>assistant`. */
  role?: Role | null;
  tools?: unknown[];
  stop_swallowed?: boolean;
}

export type Includable = "ids" | "token_table" | "text" | "spellings" | "schemas";

export interface Span {
  start_token: number | null;
  end_token: number | null;
  start_char: number;
  end_char: number;
}

export interface InspectedMessage {
  index: number;
  role: Role;
  name: string | null;
  channel: string | null;
  recipient: string | null;
  content_type: string | null;
  content: string;
  stop: string | null;
  source: string;
  trust: string;
  forged: boolean;
  faults: string[];
  spans: { header: Span; body: Span };
  flags: string[];
  skipped: string[];
  tokens: { header: number; body: number; stop: number };
  ids?: { header: number[]; body: number[]; stop: number[] };
}

export interface Position {
  token?: number | null;
  character?: number | null;
  message?: number | null;
  path?: string | null;
}

export interface Diagnostic {
  code: string;
  message: string;
  found: string;
  at: Position;
  /** What the tolerant parser did about it. */
  repair: string;
  /** What strict does: `raises`, or that it does not mind. */
  strict: string;
  /** What the code means, in a sentence or two. */
  explanation: string;
  excerpt: Record<string, string> | null;
  hint: string | null;
}

export interface ChannelCount {
  channel: string;
  messages: number;
  tokens: number;
  header: number;
  body: number;
  stop: number;
  share: number;
}

/** A spelling of a control token in text that somebody typed, and what it was encoded as. */
export interface Spelling {
  message: number;
  role: Role;
  /** `body`, or the field of the header. */
  where: string;
  text: string;
  start_char: number;
  end_char: number;
  start_token: number | null;
  ids: number[];
  /** `text`: harmless. `special`: it is a control token now. */
  became: "text" | "special";
  /** It only resembles a spelling, such as `<|END|>` or `< |end| >`, and is text anyway. */
  near?: boolean;
}

export interface SchemaCost {
  /** `functions.get_weather`. */
  tool: string;
  tokens: number;
  share: number;
}

export interface TokenInfo {
  /** In hexadecimal; null for an id that is not a token. */
  bytes: string | null;
  text: string | null;
  special: boolean;
}

export interface Inspection {
  input: string;
  /** What the input was taken for, in words: "raw Harmony text", "token ids, as JSON", "3 conversations as JSONL". */
  taken_for: string;
  /** Where the input has several conversations: how many, and which one this is. */
  documents?: { count: number; at: number; titles: string[] };
  /** What had no place when a conversation was converted, in words. */
  conversion_losses?: string[];
  notes: string[];
  characters: number;
  tokens: number;
  counts_are_exact: boolean;
  messages: InspectedMessage[];
  outside: OutsideText[];
  /** The ends of turns, each with how many messages and pieces outside of messages stand before it. */
  turns: { stop: string | null; hidden_because: string | null; messages: number; outside: number }[];
  channels: ChannelCount[];
  diagnostics: Diagnostic[];
  diagnostics_total: number;
  /** What the strict parser would have said first; null where it has nothing to say. */
  strict: { code: string; message: string; at: Position } | null;
  token_table?: Record<string, TokenInfo>;
  text?: string;
  spellings?: Spelling[];
  /** What cannot be told of them: in a text, which control tokens were typed. It comes with `spellings`. */
  spellings_note?: string | null;
  schemas?: SchemaCost[];
}

/** A turn of a chat: the prompt that the model got, and what it sampled after it. */
export interface TurnTrace extends Inspection {
  prompt_tokens: number;
  /** Reasoning that this server does not show. */
  left_out: { messages: number; tokens: number } | null;
  /** Codes of the faults that the model's output had; where reasoning is hidden, the trace shows it mended. */
  faults: string[];
}

/** A turn to trace: what was asked, what was answered, and damaged output as it was sampled. */
export interface TraceRequest {
  request: ResponseRequest;
  output: Item[];
  sampled?: SampledEntry[];
}

export interface DiffRow {
  kind: "same" | "changed" | "dropped" | "added";
  before: number | null;
  after: number | null;
  /** Why a message is not in the second prompt, where that is known: its reasoning was dropped, for example. */
  reason: string | null;
}

export interface PromptDiff {
  before: Inspection;
  after: Inspection;
  shared_prefix: number;
  /** The first tokens that differ; null where a prompt has ended. */
  before_token: number | null;
  after_token: number | null;
  before_message: number | null;
  after_message: number | null;
  dropped_tokens: number;
  added_tokens: number;
  is_extension: boolean;
  rows: DiffRow[];
}

export interface ReplayEvent {
  type: string;
  [field: string]: unknown;
}

/** One token (or, of a text, one character) and what the parser made of it. */
export interface ReplayStep {
  at: number;
  id: number | null;
  text: string;
  /** Where the machine is after it: `wait` (between messages), `header`, `body`. */
  state: string;
  /** The header as far as it is known: the message that is open. */
  message: number | null;
  channel: string | null;
  recipient: string | null;
  /** What it holds back, waiting for more. */
  pending: string;
  events: ReplayEvent[];
}

export interface Replay {
  total: number;
  unit: "tokens" | "characters";
  start: number;
  steps: ReplayStep[];
  /** What closing the parser at the very end says; only where the steps reach the end. */
  closing: ReplayEvent[] | null;
}

const optional = (signal?: AbortSignal): { signal?: AbortSignal } => (signal === undefined ? {} : { signal });

export const inspect = (input: InspectInput, include: Includable[], signal?: AbortSignal): Promise<Inspection> =>
  ask("v1/harmony/inspect", { body: { ...input, include }, ...optional(signal) });

export const traceTurn = (turn: TraceRequest, include: Includable[], signal?: AbortSignal): Promise<TurnTrace> =>
  ask("v1/harmony/trace", { body: { ...turn, include }, ...optional(signal) });

export const diffPrompts = (before: InspectInput, after: InspectInput, signal?: AbortSignal): Promise<PromptDiff> =>
  ask("v1/harmony/diff", { body: { before, after }, ...optional(signal) });

export const replay = (input: InspectInput, start: number, count: number, signal?: AbortSignal): Promise<Replay> =>
  ask("v1/harmony/replay", { body: { ...input, start, count }, ...optional(signal) });
