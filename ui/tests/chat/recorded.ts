/** Streams that a server with the demo engine sent, and small things to make turns of. Seals and ids are shortened. */

import type { Turn } from "../../src/api/chats";
import type { Item, StreamEvent } from "../../src/api/wire";
import { readEvents } from "../../src/chat/events";

const files = import.meta.glob<string>("../data/streams/*.sse", { query: "?raw", import: "default", eager: true });

export function recorded(name: string): string {
  const text = files[`../data/streams/${name}.sse`];
  if (text === undefined) throw new Error(`no stream was recorded as ${name}`);
  return text;
}

/** The bytes of a text as a stream, in pieces of `size`. */
export function bytesOf(text: string, size = 1000): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + size));
      at += size;
    },
  });
}

/** All events, and what was raised behind them. */
export async function eventsOf(body: ReadableStream<Uint8Array>): Promise<{ events: StreamEvent[]; failure: unknown }> {
  const events: StreamEvent[] = [];
  try {
    for await (const event of readEvents(body)) events.push(event);
    return { events, failure: null };
  } catch (failure) {
    return { events, failure };
  }
}

export function turn(id: string, parent: string | null, role: Turn["role"], items: Item[] = [], more: Partial<Turn> = {}): Turn {
  return { id, parent, role, items, status: "completed", created_at: 1, details: {}, ...more };
}

export const said = (text: string): Item => ({ type: "message", role: "user", content: text });

export const answered = (text: string, more: Partial<Item> = {}): Item =>
  ({ type: "message", role: "assistant", phase: "final_answer", status: "completed", content: [{ type: "output_text", text, annotations: [] }], ...more }) as Item;
