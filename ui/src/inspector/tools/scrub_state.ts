/** The replay that is open: its windows, where it stands, whether it plays. It begins again when something else is opened. */

import { batch, effect, signal } from "@preact/signals";
import { type Failure, failureOf } from "../../api/client";
import { inspect, type Inspection, type InspectInput, replay } from "../../api/inspect";
import { input, inspection, origin } from "../state";
import { clamp, isNotable, type Marks, marksOf, nextMark } from "./playback";
import { encodeText } from "./rendering";
import { inputOf } from "./source";
import { WindowCache } from "./window_cache";

/** Null where nothing is open, or the trace has no tokens to send. */
export const windows = signal<WindowCache | null>(null);
/** How many steps were read. */
export const position = signal(0);
export const total = signal(0);
export const marks = signal<Marks>({ messages: [], problems: [] });
export const isPlaying = signal(false);
export const isLoading = signal(false);
export const failure = signal<Failure | null>(null);
/** What a jump did not find, in words. */
export const said = signal("");
/** Counts the windows that came, so that views look again. */
export const version = signal(0);

/** Whether a trace that is text is read by the tokens that it encodes to, as a model would have sampled it. */
export const byTokens = signal(true);
/** Whether there is that choice. */
export const isText = signal(false);

let stop = new AbortController();
/** What marks are taken from: the inspection that is open, or that of the tokens of its text. */
let marked: Inspection | null = null;

effect(() => {
  const found = inspection.value;
  const given = found === null ? null : inputOf(found, origin.peek(), input.peek());
  const spelled = found?.input === "text" ? found.text : undefined;
  const isEncoded = spelled !== undefined && byTokens.value;
  stop.abort();
  const mine = (stop = new AbortController());
  marked = isEncoded ? null : found;
  let encoded: Promise<InspectInput> | null = null;
  const encode = async (text: string): Promise<InspectInput> => {
    const { text: _, as: __, document: ___, ...options } = given ?? {};
    const tokens = { ...options, tokens: await encodeText(text, mine.signal) };
    marked = await inspect(tokens, [], mine.signal);
    return tokens;
  };
  const load = async (start: number, count: number) => {
    if (spelled === undefined || !isEncoded) return replay(given as InspectInput, start, count, mine.signal);
    encoded ??= encode(spelled).catch((error: unknown) => {
      encoded = null; // the next window tries again
      throw error;
    });
    return replay(await encoded, start, count, mine.signal);
  };
  const cache = given === null ? null : new WindowCache(load);
  batch(() => {
    windows.value = cache;
    isText.value = spelled !== undefined;
    position.value = 0;
    total.value = 0;
    marks.value = { messages: [], problems: [] };
    isPlaying.value = false;
    isLoading.value = false;
    failure.value = null;
    said.value = "";
  });
});

/** Have the steps around the position, and the next window where its end is near. True where they are here. */
export async function fetchAround(at = position.value): Promise<boolean> {
  const cache = windows.value;
  if (cache === null) return false;
  const here = Math.max(0, at - 1);
  const isHere = cache.step(here) !== null;
  if (!isHere) isLoading.value = true;
  try {
    await cache.need(here);
    if (windows.value !== cache) return false;
    batch(() => {
      failure.value = null;
      isLoading.value = false;
      if (cache.total !== null && total.value !== cache.total) {
        total.value = cache.total;
        if (marked !== null) marks.value = marksOf(marked, cache.unit, cache.total);
      }
      if (!isHere) version.value += 1;
    });
    // The window before is for the events and tokens that lead here; the one after, so that a replay does not wait.
    const edge = here % cache.size;
    if (edge < 100 && here >= cache.size) await look(cache, here - 100);
    if (edge > cache.size * 0.2) await look(cache, here - edge + cache.size);
    return true;
  } catch (error) {
    if (windows.value !== cache) return false;
    batch(() => {
      isLoading.value = false;
      isPlaying.value = false;
      failure.value = failureOf(error);
    });
    return false;
  }
}

async function look(cache: WindowCache, at: number): Promise<void> {
  if (cache.total !== null && at >= cache.total) return;
  const isNew = cache.step(at) === null;
  await cache.need(at);
  if (isNew && windows.value === cache) version.value += 1;
}

export function moveTo(to: number): void {
  said.value = "";
  position.value = clamp(to, total.value);
  void fetchAround();
}

export function jump(to: "message" | "problem", by: 1 | -1): void {
  const found = nextMark(to === "message" ? marks.value.messages : marks.value.problems, position.value, by);
  isPlaying.value = false;
  if (found === null) said.value = `No ${by === 1 ? "later" : "earlier"} ${to}.`;
  else moveTo(found);
}

/** Go to the step that emitted the next event which is more than a piece of text. */
export async function jumpToEvent(by: 1 | -1): Promise<void> {
  const cache = windows.value;
  if (cache === null) return;
  isPlaying.value = false;
  isLoading.value = true;
  try {
    const from = by === 1 ? position.value : position.value - 2;
    const found = await cache.find(from, by, ({ events }) => events.some(isNotable));
    if (windows.value !== cache) return;
    version.value += 1;
    if (found !== null) moveTo(found + 1);
    else if (by === 1) {
      moveTo(total.value);
      said.value = "No more events before the end.";
    } else said.value = "No earlier event.";
  } catch (error) {
    if (windows.value === cache) failure.value = failureOf(error);
  } finally {
    if (windows.value === cache) isLoading.value = false;
  }
}
