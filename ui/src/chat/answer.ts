/**
 * An answer while it is streamed: folds events into items whose signals a view shows.
 *
 * 1. Pieces of text are kept in a list and put together at most once per animation frame, so that a view hears of them
 *    once per frame. Each character is joined once: the work for a token does not grow with the answer.
 * 2. What the server says last about an item (`output_item.done`) counts.
 * 3. Whatever came is kept, however the stream ends: `turnNow` is the turn as far as it is known, at any time.
 */

import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Turn, TurnDetails, TurnStatus } from "../api/chats";
import type { Item, ResponseResource, StreamEvent, Usage } from "../api/wire";
import { reportUnknown } from "./events";
import { isListing, isUnfinished, joinItems, textOf, withText } from "./items";
import { Entry, type LiveItem, type TokenCount } from "./live_item";
import { addSampled } from "./sampled";
import { isSpoken, pageClock, rate, Timing, unheardTokens, type Clock } from "./timing";
import { addUsage } from "./usage";

export { isOnlyAnswers, typedIn } from "./items";
export { itemsOf } from "./live_item";
export type { CallResult, Decided, LiveItem, LiveKind, LiveState, TokenCount } from "./live_item";

/** Calls back before the next picture is drawn. */
export type Frames = (draw: () => void) => void;

// A tab in the background draws no pictures; nobody looks, and the end of the answer draws all.
const pageFrames: Frames = (draw) => void requestAnimationFrame(draw);

/** What was done, for tests that count: work must not grow faster than the answer. */
export interface Work {
  events: number;
  frames: number;
  joins: number;
  characters: number;
}

interface Growing {
  entry: Entry;
  /** The text that the view has, what came since, and how many pieces came in all. */
  text: string;
  pieces: string[];
  count: number;
  /** What is continued here: the text of it stands in front. */
  continued: Item | null;
}

export interface Beginning {
  clock?: Clock;
  frames?: Frames;
}

export class LiveAnswer {
  readonly turn: string;
  readonly items: ReadonlySignal<readonly LiveItem[]>;
  /** `waiting`: asked, nothing came yet. */
  readonly state: Signal<"waiting" | "streaming" | "ended"> = signal("waiting");
  readonly usage: Signal<Usage | null> = signal<Usage | null>(null);
  /** Seconds since it was asked; grows while it runs. */
  readonly seconds: Signal<number> = signal(0);
  readonly firstTokenSeconds: Signal<number | null> = signal<number | null>(null);
  readonly tokens: Signal<TokenCount> = signal<TokenCount>({ count: 0, estimated: true });
  readonly tokensPerSecond: Signal<number | null> = signal<number | null>(null);
  readonly work: Work = { events: 0, frames: 0, joins: 0, characters: 0 };
  /** The id of the response, which is what can be cancelled. */
  responseId: string | null = null;

  private readonly shown: Signal<readonly LiveItem[]>;
  private readonly growing: Growing[] = [];
  private readonly changed = new Set<Growing>();
  private readonly timing: Timing;
  private readonly frames: Frames;
  private isDrawing = false;
  private counted = 0;
  /** Seconds of hidden reasoning. */
  private silent = 0;
  private last: ResponseResource | null = null;
  /** Where the items of the stream begin in the turn; known when the first one comes. */
  private offset: number | null = null;

  /** A turn that has items already is continued: what comes is joined to its last item, or stands after it. */
  constructor(
    private readonly begun: Turn,
    { clock = pageClock, frames = pageFrames }: Beginning = {},
  ) {
    this.turn = begun.id;
    this.frames = frames;
    this.timing = new Timing(clock, begun.details);
    for (const [index, item] of begun.items.entries()) this.growing.push(this.grow(index, item));
    this.shown = signal(this.growing.map((each) => each.entry));
    this.items = this.shown;
  }

  feed(event: StreamEvent): void {
    this.work.events += 1;
    switch (event.type) {
      case "response.created":
      case "response.in_progress":
        this.responseId = event.response.id;
        break;
      case "response.output_item.added":
        this.add(event.output_index, event.item);
        break;
      case "response.output_item.done":
        this.finish(event.output_index, event.item);
        break;
      case "response.output_text.delta":
      case "response.reasoning_text.delta":
      case "response.function_call_arguments.delta":
      case "response.mcp_call_arguments.delta":
        this.append(event.output_index, event.delta);
        break;
      case "response.mcp_call_arguments.done":
        this.timing.pause();
        this.wrote(event.output_index);
        break;
      case "response.mcp_call.completed":
      case "response.mcp_call.failed":
      case "response.content_part.added":
      case "response.content_part.done":
      case "response.output_text.done":
      case "response.reasoning_text.done":
      case "response.function_call_arguments.done":
      case "response.mcp_call.in_progress":
      case "response.mcp_list_tools.in_progress":
      case "response.mcp_list_tools.completed":
      case "response.mcp_list_tools.failed":
        break; // the item's end says it all
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        this.last = event.response;
        // A dialect may have left out the events of an item.
        for (const [index, item] of event.response.output.entries()) {
          const there = this.at(index);
          if (there === null || there.entry.item.status === "in_progress") this.finish(index, item);
        }
        break;
      case "error":
        break; // whoever reads the stream raises it
      default:
        reportUnknown((event as { type: string }).type);
    }
  }

  /** Whether the server said that it was cancelled, rather than that it came to an end. */
  get isCancelled(): boolean {
    return this.last?.status === "cancelled";
  }

  /** Measure the time once more. Called every second, for answers that think without a word. */
  tick(): void {
    if (this.state.value !== "ended") this.draw();
  }

  /** Nothing comes any more. The turn as it is in the end. */
  end(status: TurnStatus | null = null, error: TurnDetails["error"] | null = null): Turn {
    this.timing.stop();
    for (const each of this.growing) if (isUnfinished(each.entry.item)) this.settle(each);
    this.state.value = "ended";
    this.draw();
    const turn = this.turnNow(status ?? statusOf(this.last));
    if (error !== null) turn.details.error = error;
    return turn;
  }

  /** The turn as far as it came: what is saved while the answer runs. Costs as much as the answer is long. */
  turnNow(status: TurnStatus = "in_progress"): Turn {
    const { error: _error, incomplete: _incomplete, ...before } = this.begun.details;
    const details: TurnDetails = { ...before, total_s: round(this.timing.total) };
    const first = this.timing.firstToken;
    if (first !== null) details.first_token_s = round(first);
    const speech = this.speech();
    Object.assign(details, { spoken_s: round(speech.seconds), spoken_tokens: speech.tokens });
    details.item_s = { ...before.item_s };
    details.item_tokens = { ...before.item_tokens };
    for (const [index, each] of this.growing.entries()) {
      const seconds = this.timing.seconds(index);
      if (seconds !== null) details.item_s[index] = round((each.continued === null ? 0 : (before.item_s?.[index] ?? 0)) + seconds);
      if (each.count > 0) details.item_tokens[index] = each.count;
    }
    if (this.last !== null) {
      details.model = this.last.model;
      const usage = addUsage(before.usage, this.last.usage);
      if (usage !== null) details.usage = usage;
      const known = this.last.incomplete_details?.reason;
      const reason = known === undefined ? undefined : (this.last.harmonia_reason ?? known);
      if (reason !== undefined) details.incomplete = reason;
      if (this.last.warnings !== undefined && this.last.warnings.length > 0) {
        details.warnings = [...(before.warnings ?? []), ...this.last.warnings];
      }
      const sampled = addSampled(before.sampled, this.last.harmonia_sampled, this.offset ?? this.growing.length);
      if (sampled.length > 0) details.sampled = sampled;
    }
    return { ...this.begun, items: this.growing.map((each) => this.itemNow(each)), status, details };
  }

  // ── items ──

  private at(outputIndex: number): Growing | null {
    return this.offset === null ? null : (this.growing[this.offset + outputIndex] ?? null);
  }

  private add(outputIndex: number, item: Item): void {
    if (this.state.value === "waiting" && !isListing(item)) this.state.value = "streaming";
    this.offset ??= this.joins(item) ? this.growing.length - 1 : this.growing.length;
    const index = this.offset + outputIndex;
    const there = this.growing[index];
    if (there !== undefined && outputIndex === 0 && there.continued === null) {
      this.timing.token(); // its header was written earlier
      there.continued = there.entry.item;
      there.entry.state.value = "running";
      this.timing.begin(index);
      return;
    }
    if (index !== this.growing.length) return; // an index that skips one, or comes twice: the end of the response has the items
    const more = this.grow(index, item);
    this.growing.push(more);
    this.shown.value = [...this.shown.value, more.entry];
    if (isSpoken(item)) this.timing.token(unheardTokens(item));
    this.timing.begin(index);
    this.ask();
  }

  private joins(item: Item): boolean {
    const last = this.growing.at(-1)?.entry.item;
    return last !== undefined && joinItems(last, item) !== null;
  }

  private grow(index: number, item: Item): Growing {
    const entry = new Entry(this.turn, index, item);
    const before = this.begun.details;
    if (index < this.begun.items.length) {
      entry.seconds.value = before.item_s?.[index] ?? null;
      const count = before.item_tokens?.[index];
      if (count !== undefined) entry.tokens.value = { count, estimated: true };
    }
    return { entry, text: entry.text.value, pieces: [], count: before.item_tokens?.[index] ?? 0, continued: null };
  }

  private append(outputIndex: number, delta: string): void {
    const growing = this.at(outputIndex);
    if (growing === null) return;
    growing.pieces.push(delta);
    if (isSpoken(growing.entry.item)) {
      this.timing.token();
      growing.count += 1;
      this.counted += 1;
    }
    this.changed.add(growing);
    this.ask();
  }

  /** The arguments of a call are whole: now its tool runs. */
  private wrote(outputIndex: number): void {
    const growing = this.at(outputIndex);
    if (growing !== null) growing.entry.isWriting.value = false;
  }

  private finish(outputIndex: number, item: Item): void {
    if (this.at(outputIndex) === null) this.add(outputIndex, item);
    const growing = this.at(outputIndex);
    if (growing === null) return;
    const whole = growing.continued === null ? item : (joinItems(growing.continued, item) ?? item);
    growing.pieces = [];
    this.changed.delete(growing);
    this.timing.end(growing.entry.index);
    if (isSilent(growing)) this.silent += this.timing.seconds(growing.entry.index) ?? 0;
    batch(() => {
      growing.entry.finish(whole);
      growing.text = growing.entry.text.value;
      this.measure(growing);
    });
    this.ask();
  }

  /** An item that was cut off: it has what came. */
  private settle(growing: Growing): void {
    const item = this.itemNow(growing);
    growing.pieces = [];
    growing.entry.finish({ ...item, status: "incomplete" } as Item);
    growing.text = growing.entry.text.value;
    this.measure(growing);
  }

  private itemNow(growing: Growing): Item {
    const { item } = growing.entry;
    const text = growing.text + growing.pieces.join("");
    if (text === textOf(item)) return item;
    return { ...withText(item, text), id: item.id ?? null } as Item;
  }

  // ── drawing ──

  /** Tokens generated so far and the seconds they took, together with those of the answer that this one continues. */
  private speech(): { tokens: number; seconds: number } {
    const { spoken_tokens = 0, spoken_s = 0 } = this.begun.details;
    const told = this.last?.usage?.output_tokens;
    if (told !== undefined) return { tokens: spoken_tokens + Math.max(0, told - this.timing.unheard), seconds: spoken_s + this.timing.spoken };
    // Until the usage arrives, tokens are counted by their deltas. Hidden reasoning has none, so its time does not count either.
    const last = this.growing.at(-1);
    const silent = this.silent + (last !== undefined && isSilent(last) && isUnfinished(last.entry.item) ? (this.timing.seconds(last.entry.index) ?? 0) : 0);
    return { tokens: spoken_tokens + this.counted + this.timing.between, seconds: spoken_s + Math.max(0, this.timing.spoken - silent) };
  }

  private ask(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    this.frames(() => {
      this.isDrawing = false;
      this.work.frames += 1;
      this.draw();
    });
  }

  private draw(): void {
    batch(() => {
      for (const growing of this.changed) {
        const piece = growing.pieces.join("");
        growing.pieces = [];
        this.work.joins += 1;
        this.work.characters += piece.length;
        growing.text += piece;
        growing.entry.text.value = growing.text;
      }
      this.changed.clear();
      // Only the last items can be running: one that speaks, and calls that wait for their tools.
      for (let index = this.growing.length - 1; index >= (this.offset ?? this.growing.length); index -= 1) {
        const growing = this.growing[index] as Growing;
        if (growing.entry.state.value !== "running" && index < this.growing.length - 1) break;
        this.measure(growing);
      }
      const usage = addUsage(this.begun.details.usage, this.last?.usage ?? null);
      if (this.last !== null) this.usage.value = usage;
      const told = this.last?.usage?.output_tokens;
      this.seconds.value = this.timing.total;
      this.firstTokenSeconds.value = this.timing.firstToken;
      const before = this.begun.details.usage?.output_tokens ?? 0;
      this.tokens.value = told === undefined ? { count: before + this.counted, estimated: true } : { count: usage?.output_tokens ?? told, estimated: false };
      const speech = this.speech();
      this.tokensPerSecond.value = rate(speech.tokens, speech.seconds);
    });
  }

  private measure(growing: Growing): void {
    const { entry } = growing;
    const seconds = this.timing.seconds(entry.index);
    if (seconds !== null) entry.seconds.value = (growing.continued === null ? 0 : (this.begun.details.item_s?.[entry.index] ?? 0)) + seconds;
    if (growing.count > 0 && entry.tokens.value?.count !== growing.count) entry.tokens.value = { count: growing.count, estimated: true };
  }
}

const isSilent = ({ entry, count }: Growing): boolean => entry.kind === "reasoning" && count === 0;

function statusOf(response: ResponseResource | null): TurnStatus {
  return response === null ? "cancelled" : response.status === "in_progress" ? "incomplete" : response.status;
}

const round = (seconds: number): number => Math.round(seconds * 1000) / 1000;
