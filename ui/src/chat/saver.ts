/**
 * Saves turns and changes of chats on the server, one after the other, in the order in which they were made.
 *
 * 1. Nothing is forgotten: what could not be saved stays here and is tried again, later and later, or when asked to.
 * 2. A turn that changes while it waits is saved once, as it is then.
 * 3. A turn is saved after its parent, and a change of the leaf after the turns, because the server wants it so.
 * 4. What the server does not take (a turn that is too large) does not hold up the rest.
 * 5. What belongs to a chat that was deleted, and is not open, is dropped.
 */

import { batch, signal, type ReadonlySignal } from "@preact/signals";
import { changeChat, deleteTurn, saveTurn, type ChatSettings, type Turn } from "../api/chats";
import { failureOf, type Failure } from "../api/client";

export type Saving = "saved" | "saving" | "failed";

export interface ChatChange {
  title?: string;
  leaf?: string | null;
  settings?: ChatSettings;
}

type Job =
  | { kind: "turn"; chat: string; turn: Turn }
  | { kind: "delete"; chat: string; turn: string }
  | { kind: "change"; chat: string; change: ChatChange };

/** Browsers let requests that outlive the page have 64 KiB together. */
const KEEPALIVE_BYTES = 60_000;
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 60_000;

export class Saver {
  readonly state: ReadonlySignal<Saving>;
  readonly failure: ReadonlySignal<Failure | null>;
  private readonly stateNow = signal<Saving>("saved");
  private readonly failureNow = signal<Failure | null>(null);
  private readonly jobs = new Map<string, Job>();
  private isBusy = false;
  private wait = FIRST_WAIT_MS;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly isOpen: (chat: string) => boolean = () => true) {
    this.state = this.stateNow;
    this.failure = this.failureNow;
  }

  turn(chat: string, turn: Turn): void {
    // In its old place among the jobs: those after it may be its children.
    this.put(`turn ${chat} ${turn.id}`, { kind: "turn", chat, turn });
  }

  change(chat: string, change: ChatChange): void {
    const key = `change ${chat}`;
    const before = this.jobs.get(key);
    this.jobs.delete(key); // to the end: the leaf must be there first
    this.put(key, { kind: "change", chat, change: { ...(before?.kind === "change" ? before.change : {}), ...change } });
  }

  /** `turns` are the turn and all after it, which need not be saved any more. */
  delete(chat: string, turn: string, turns: Iterable<string>): void {
    for (const each of turns) this.jobs.delete(`turn ${chat} ${each}`);
    this.put(`delete ${chat} ${turn}`, { kind: "delete", chat, turn });
  }

  /** What the server may not know of a chat yet: turns with parents first, turns that are deleted, and changes. */
  unsaved(chat: string): { turns: Turn[]; deleted: string[]; change: ChatChange } {
    const found: ReturnType<Saver["unsaved"]> = { turns: [], deleted: [], change: {} };
    for (const job of this.jobs.values()) {
      if (job.chat !== chat) continue;
      if (job.kind === "turn") found.turns.push(job.turn);
      else if (job.kind === "delete") found.deleted.push(job.turn);
      else found.change = job.change;
    }
    return found;
  }

  /** Try again now what failed. */
  retry(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.wait = FIRST_WAIT_MS;
    void this.work();
  }

  /** The page closes: what is small enough is sent without waiting for an answer. Gives all turns, by their chats. */
  leave(...last: readonly { chat: string; turn: Turn }[]): Map<string, Turn[]> {
    for (const each of last) this.jobs.set(`turn ${each.chat} ${each.turn.id}`, { kind: "turn", ...each });
    const left = new Map<string, Turn[]>();
    let room = KEEPALIVE_BYTES;
    for (const job of this.jobs.values()) {
      if (job.kind !== "turn") continue;
      left.set(job.chat, [...(left.get(job.chat) ?? []), job.turn]);
      const size = new TextEncoder().encode(JSON.stringify(job.turn)).length;
      if (size > room) continue;
      room -= size;
      void saveTurn(job.chat, job.turn, true).catch(() => undefined);
    }
    return left;
  }

  private put(key: string, job: Job): void {
    this.jobs.set(key, job);
    if (this.stateNow.value !== "failed") this.stateNow.value = "saving";
    if (this.timer === null) void this.work();
  }

  private async work(): Promise<void> {
    if (this.isBusy) return;
    this.isBusy = true;
    const refused = new Set<Job>();
    let failure: Failure | null = null;
    for (let next = this.first(refused); next !== null; next = this.first(refused)) {
      const [key, job] = next;
      try {
        await run(job);
        this.drop(key, job);
      } catch (error) {
        const told = failureOf(error);
        if (told.status === 404 && !this.isOpen(job.chat)) {
          this.drop(key, job);
          continue;
        }
        failure = told;
        if (told.kind !== "request") break; // the others would not fare better
        refused.add(job);
      }
    }
    this.isBusy = false;
    batch(() => {
      this.failureNow.value = failure;
      this.stateNow.value = failure === null ? "saved" : "failed";
    });
    if (failure === null) this.wait = FIRST_WAIT_MS;
    else this.later();
  }

  private first(except: ReadonlySet<Job>): [string, Job] | null {
    for (const entry of this.jobs) if (!except.has(entry[1])) return entry;
    return null;
  }

  private drop(key: string, job: Job): void {
    // It may have changed while it was sent; then it is sent again.
    if (this.jobs.get(key) === job) this.jobs.delete(key);
  }

  private later(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      void this.work();
    }, this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }
}

async function run(job: Job): Promise<void> {
  switch (job.kind) {
    case "turn":
      return saveTurn(job.chat, job.turn);
    case "delete":
      return deleteTurn(job.chat, job.turn).catch((error: unknown) => {
        if (failureOf(error).status !== 404) throw error; // it was never saved, or is gone already
      });
    case "change":
      await changeChat(job.chat, job.change);
  }
}
