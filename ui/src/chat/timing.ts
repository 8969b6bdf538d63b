/**
 * How long an answer took, by the clock that is handed in: to the first token, to the last, and each item.
 *
 * Speed is tokens by the time in which the model could speak: from the first sign of the answer on, without the time in
 * which tools ran. It is unknown until that time is long enough to divide by.
 */

/** Seconds, from any point on. It never goes back. */
export type Clock = () => number;

export const pageClock: Clock = () => performance.now() / 1000;

const SHORTEST_S = 0.1;
const FEWEST_TOKENS = 20;

export class Timing {
  private readonly asked: number;
  private first: number | null = null;
  private last: number | null = null;
  private readonly items = new Map<number, { from: number; to: number | null }>();
  private toolFrom: number | null = null;
  private tools = 0;

  /** `before` is what an answer that is continued took already. */
  constructor(
    private readonly clock: Clock,
    private readonly before: { total_s?: number | undefined; first_token_s?: number | undefined } = {},
  ) {
    this.asked = clock();
  }

  /** The model said something. */
  token(): void {
    this.first ??= this.clock();
  }

  begin(item: number): void {
    this.token();
    this.items.set(item, { from: this.clock(), to: null });
  }

  end(item: number): void {
    const span = this.items.get(item);
    if (span !== undefined) span.to ??= this.clock();
  }

  /** A tool runs from here on, and the model waits. */
  toolRuns(): void {
    this.toolFrom ??= this.clock();
  }

  toolEnded(): void {
    if (this.toolFrom !== null) this.tools += this.clock() - this.toolFrom;
    this.toolFrom = null;
  }

  /** Nothing comes any more; items that are still open end here. */
  stop(): void {
    this.toolEnded();
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

  /** Tokens per second. */
  speed(tokens: number): number | null {
    if (this.first === null || tokens < FEWEST_TOKENS) return null;
    const now = this.last ?? this.clock();
    const tools = this.tools + (this.toolFrom === null ? 0 : now - this.toolFrom);
    const spoken = now - this.first - tools;
    return spoken < SHORTEST_S ? null : tokens / spoken;
  }
}
