/**
 * How long an answer took, by the clock that is handed in: to the first token, to the last, and each item.
 *
 * Speed is tokens divided by the time in which the model spoke. That time starts with the first visible sign of each
 * completion. It pauses from the end of a call that the server runs until the next sign of the model, so that neither
 * tools nor the prefill of the next prompt count. Tokens before the first sign (a header) are outside that time, so they
 * do not count as spoken either. Speed is unknown until there is enough to divide.
 */

import type { Item } from "../api/wire";

/** Seconds, from any point on. It never goes back. */
export type Clock = () => number;

export const pageClock: Clock = () => performance.now() / 1000;

const SHORTEST_S = 0.1;
const FEWEST_TOKENS = 20;

/** Tokens per second; null where there is so little that it would say more about the clock than about the model. */
export function rate(tokens: number, seconds: number): number | null {
  return tokens < FEWEST_TOKENS || seconds < SHORTEST_S ? null : tokens / seconds;
}

const HEADER_TOKENS = 3; // <|channel|>final<|message|>
const CALL_HEADER_TOKENS = 11; // <|channel|>commentary to=functions. <|constrain|>json<|message|>
const BETWEEN_TOKENS = 3; // <|end|><|start|>assistant
const LETTERS_PER_TOKEN = 4;

/** About how many tokens of an item were written before it could be seen. */
export function unheardTokens(item: Item): number {
  if (!("name" in item)) return HEADER_TOKENS;
  const letters = item.name.length + (item.type === "mcp_approval_request" ? item.arguments.length : 0);
  return CALL_HEADER_TOKENS + Math.ceil(letters / LETTERS_PER_TOKEN);
}

/** Whether the model wrote the item. The server writes a call that the person approved. */
export function isSpoken(item: Item): boolean {
  if (item.type === "mcp_call") return item.approval_request_id == null;
  return ["message", "reasoning", "function_call", "mcp_approval_request"].includes(item.type);
}

export class Timing {
  private readonly asked: number;
  private first: number | null = null;
  private last: number | null = null;
  private readonly items = new Map<number, { from: number; to: number | null }>();
  private speaksFrom: number | null = null;
  private spoke = 0;
  /** Tokens that the model wrote before its first sign. */
  unheard = 0;
  /** Tokens between two items, for which no deltas come. */
  between = 0;

  /** `before` is what an answer that is continued took already. */
  constructor(
    private readonly clock: Clock,
    private readonly before: { total_s?: number | undefined; first_token_s?: number | undefined } = {},
  ) {
    this.asked = clock();
  }

  /** The model said something. `unheard` is how many tokens it wrote for that before this first sign. */
  token(unheard = 0): void {
    this.first ??= this.clock();
    if (this.speaksFrom !== null) {
      if (unheard > 0) this.between += unheard + BETWEEN_TOKENS;
      return;
    }
    this.speaksFrom = this.clock();
    this.unheard += unheard;
  }

  begin(item: number): void {
    this.items.set(item, { from: this.clock(), to: null });
  }

  end(item: number): void {
    const span = this.items.get(item);
    if (span !== undefined) span.to ??= this.clock();
  }

  /** The model waits from here on: for a tool, and until it has read what came back. */
  pause(): void {
    this.spoke = this.spoken;
    this.speaksFrom = null;
  }

  /** Nothing comes any more; items that are still open end here. */
  stop(): void {
    this.pause();
    this.last ??= this.clock();
    for (const item of this.items.keys()) this.end(item);
  }

  /** Null for an item that was not seen to begin. */
  seconds(item: number): number | null {
    const span = this.items.get(item);
    return span === undefined ? null : (span.to ?? this.clock()) - span.from;
  }

  get total(): number {
    return (this.before.total_s ?? 0) + (this.last ?? this.clock()) - this.asked;
  }

  get firstToken(): number | null {
    return this.before.first_token_s ?? (this.first === null ? null : this.first - this.asked);
  }

  /** For how many seconds the model spoke. */
  get spoken(): number {
    return this.spoke + (this.speaksFrom === null ? 0 : this.clock() - this.speaksFrom);
  }
}
