/**
 * One item of an answer as a view shows it. Live answers and stored turns give the same shape, and the same keys, so that
 * what was opened stays open when an answer ends.
 */

import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Turn } from "../api/chats";
import type { Annotation, Item } from "../api/wire";
import { errorText, isUnfinished, textOf } from "./items";

export type LiveKind = "reasoning" | "preamble" | "final" | "call" | "approval" | "listing" | "other";

/** `waiting`: for the person, who decides about an approval or answers a call of a declared function. */
export type LiveState = "running" | "waiting" | "done" | "incomplete" | "failed" | "refused";

/** `estimated` is a count of the pieces in which a text came; otherwise the server told it. */
export interface TokenCount {
  count: number;
  estimated: boolean;
}

export interface CallResult {
  text: string;
  failed: boolean;
  /** Who gave it: the tool, or the person by hand. */
  by: "tool" | "person";
}

/** What the person said to an approval. `text` is the edited arguments, the answer, or the reason of a refusal. */
export interface Decided {
  kind: "approved" | "edited" | "answered" | "refused";
  text: string | null;
}

/** Fields that change are signals; the object and its key stay the same. */
export interface LiveItem {
  readonly key: string;
  readonly kind: LiveKind;
  /** Its position among the items of the turn. */
  readonly index: number;
  /** The item's id; for an approval, what `decide` takes. */
  readonly id: string | null;
  /** For a function call, what `answerCall` takes. */
  readonly callId: string | null;
  /** Of calls and approvals: the tool, and the label of its MCP server (null: a function that the person declared). */
  readonly tool: string | null;
  readonly server: string | null;
  /** The text; of calls and approvals, the arguments as they came. Reasoning that the server hides has none: "". */
  readonly text: ReadonlySignal<string>;
  readonly state: ReadonlySignal<LiveState>;
  /** Of calls that run: whether the model is still at the arguments, so that the tool has not begun. */
  readonly isWriting: ReadonlySignal<boolean>;
  /** How long it took; grows while it runs (once a frame or second). Null where nobody measured it. */
  readonly seconds: ReadonlySignal<number | null>;
  readonly tokens: ReadonlySignal<TokenCount | null>;
  readonly annotations: ReadonlySignal<readonly Annotation[]>;
  /** Of calls: what came back. */
  readonly result: ReadonlySignal<CallResult | null>;
  /** Of approvals: what the person said. Null while undecided. */
  readonly decided: ReadonlySignal<Decided | null>;
  /** The item as the wire has it, as far as it is known. For "other", all there is to show. */
  readonly raw: () => Item;
}

const NONE: readonly Annotation[] = [];

/** A `LiveItem` whose maker may change it. */
export class Entry implements LiveItem {
  readonly key: string;
  readonly kind: LiveKind;
  readonly id: string | null;
  readonly callId: string | null;
  readonly tool: string | null;
  readonly server: string | null;
  readonly text: Signal<string>;
  readonly state: Signal<LiveState>;
  readonly isWriting: Signal<boolean>;
  readonly seconds: Signal<number | null>;
  readonly tokens: Signal<TokenCount | null>;
  readonly annotations: Signal<readonly Annotation[]>;
  readonly result: Signal<CallResult | null>;
  readonly decided: Signal<Decided | null> = signal<Decided | null>(null);

  constructor(
    turn: string,
    readonly index: number,
    public item: Item,
  ) {
    this.key = `${turn}:${index}`;
    this.kind = kindOf(item);
    this.id = item.id ?? null;
    this.callId = item.type === "function_call" ? item.call_id : null;
    this.tool = "name" in item ? item.name : null;
    this.server = "server_label" in item ? item.server_label : null;
    this.text = signal(textOf(item));
    this.state = signal(stateOf(item));
    this.isWriting = signal(item.status === "in_progress" && this.kind === "call");
    this.seconds = signal<number | null>(null);
    this.tokens = signal<TokenCount | null>(null);
    this.annotations = signal(annotationsOf(item));
    this.result = signal(resultOf(item));
  }

  readonly raw = (): Item => this.item;

  /** The server's last word on the item. */
  finish(item: Item): void {
    this.item = item;
    this.text.value = textOf(item);
    this.state.value = stateOf(item);
    this.isWriting.value = false;
    this.annotations.value = annotationsOf(item);
    this.result.value = resultOf(item);
  }

  /** Applies the answer that the next turn has for a call or an approval; `by` is who gave the results in that turn. */
  answer(answers: ReadonlyMap<string, Item>, by: CallResult["by"] = "person"): void {
    const given = answers.get(this.callId ?? this.id ?? "");
    if (given === undefined) return;
    if (this.kind === "call" && given.type === "function_call_output") {
      this.result.value = { text: given.output, failed: false, by };
      this.state.value = "done";
    } else if (this.kind === "approval" && given.type === "mcp_approval_response") {
      const decided = decidedBy(given);
      this.decided.value = decided;
      this.state.value = decided.kind === "refused" ? "refused" : "done";
      if (decided.kind === "answered") this.result.value = { text: decided.text ?? "", failed: false, by: "person" };
    }
  }
}

export function kindOf(item: Item): LiveKind {
  switch (item.type) {
    case "reasoning":
      return "reasoning";
    case "message":
      if (item.role !== "assistant") return "other";
      return item.phase === "commentary" ? "preamble" : "final";
    case "function_call":
    case "mcp_call":
      return "call";
    case "mcp_approval_request":
      return "approval";
    case "mcp_list_tools":
      return "listing";
    default:
      return "other";
  }
}

function stateOf(item: Item): LiveState {
  if (item.status === "in_progress" || item.status === "calling") return "running";
  if (item.status === "incomplete") return "incomplete";
  if (item.type === "mcp_call") return item.status === "failed" || item.error != null ? "failed" : "done";
  if (item.status === "failed") return "failed";
  return item.type === "function_call" || item.type === "mcp_approval_request" ? "waiting" : "done";
}

function resultOf(item: Item): CallResult | null {
  if (item.type !== "mcp_call") return null;
  if (item.error != null) return { text: errorText(item.error), failed: true, by: "tool" };
  return item.output == null ? null : { text: item.output, failed: item.status === "failed", by: item.harmonia_by_hand === true ? "person" : "tool" };
}

function annotationsOf(item: Item): readonly Annotation[] {
  if (item.type !== "message" || typeof item.content === "string") return NONE;
  const found = item.content.flatMap((part) => (part.type === "input_file" ? [] : (part.annotations ?? [])));
  return found.length === 0 ? NONE : found;
}

function decidedBy(item: Item & { type: "mcp_approval_response" }): Decided {
  if (item.harmonia_output != null) return { kind: "answered", text: item.harmonia_output };
  if (!item.approve) return { kind: "refused", text: item.reason ?? null };
  if (item.harmonia_arguments != null) return { kind: "edited", text: item.harmonia_arguments };
  return { kind: "approved", text: null };
}

/** Answers by what they answer: the id of a call, or of an approval request. */
export function answersIn(turn: Turn | null | undefined): ReadonlyMap<string, Item> {
  const answers = new Map<string, Item>();
  for (const item of turn?.role === "user" ? turn.items : []) {
    if (item.type === "function_call_output") answers.set(item.call_id, item);
    else if (item.type === "mcp_approval_response") answers.set(item.approval_request_id, item);
  }
  return answers;
}

const made = new WeakMap<Turn, { next: Turn | null; items: readonly LiveItem[] }>();

/** A stored turn for a view, with the answers to its calls and approvals from the turn after it (`next`). */
export function itemsOf(turn: Turn, next: Turn | null = null): readonly LiveItem[] {
  const before = made.get(turn);
  if (before !== undefined && before.next === next) return before.items;
  const answers = answersIn(next);
  const thoughts = turn.items.filter((item) => item.type === "reasoning").length;
  const known = turn.details.usage?.output_tokens_details?.reasoning_tokens;
  const items = turn.items.map((item, index) => {
    const entry = new Entry(turn.id, index, item);
    // Nothing runs in a turn that is stored: its stream broke off.
    if (isUnfinished(item)) entry.state.value = "incomplete";
    entry.isWriting.value = false;
    entry.seconds.value = turn.details.item_s?.[index] ?? null;
    const counted = turn.details.item_tokens?.[index];
    if (item.type === "reasoning" && thoughts === 1 && known !== undefined) entry.tokens.value = { count: known, estimated: false };
    else if (counted !== undefined) entry.tokens.value = { count: counted, estimated: true };
    entry.answer(answers, next?.details.imported === true ? "tool" : "person");
    return entry;
  });
  made.set(turn, { next, items });
  return items;
}
