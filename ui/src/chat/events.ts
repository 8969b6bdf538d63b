/**
 * The events of a response while it is made: `POST v1/responses`, read as server-sent events.
 *
 * 1. The last event is a terminal one, or a `Failure` is raised: "gone" where the stream just ends.
 * 2. A response that failed is told twice: its event, which has what came, and then the `Failure`.
 * 3. Events that nobody knows are reported once, and are not a failure: servers learn new ones.
 */

import { createParser } from "eventsource-parser";
import { Failure, failureFrom, failureOf, send } from "../api/client";
import type { ResponseRequest, StreamEvent } from "../api/wire";

export async function* streamResponse(request: ResponseRequest, signal: AbortSignal): AsyncGenerator<StreamEvent, void, void> {
  const response = await send("v1/responses", { body: request, signal });
  if (response.body === null) throw new Failure("gone", "The server's answer is empty.");
  yield* readEvents(response.body);
}

/** The events of a stream of bytes, however they are cut into chunks. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, void, void> {
  const waiting: string[] = [];
  const parser = createParser({ onEvent: (message) => void waiting.push(message.data) });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      // What stands after the last empty line is not an event: it was cut off.
      parser.feed(decoder.decode(value ?? new Uint8Array(), { stream: !done }));
      for (const data of waiting.splice(0)) {
        const event = read(data);
        if (event === null) continue;
        if (event.type === "error") throw failureFrom(event);
        yield event;
        if (event.type === "response.failed") throw failureFrom({ ...event.response.error, code: event.response.harmonia_reason ?? event.response.error?.code ?? null });
        if (event.type === "response.completed" || event.type === "response.incomplete") return;
      }
      if (done) throw new Failure("gone", "The answer broke off: the connection to the server was lost.");
    }
  } catch (error) {
    throw failureOf(error);
  } finally {
    // Whoever leaves early lets the server know that nobody reads.
    void reader.cancel().catch(() => undefined);
  }
}

function read(data: string): StreamEvent | null {
  if (data === "[DONE]") return null;
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch {
    throw new Failure("server", "The server sent an event that is not valid JSON.");
  }
  if (typeof (event as { type?: unknown } | null)?.type !== "string") throw new Failure("server", "The server sent an event without a type.");
  return event as StreamEvent;
}

const reported = new Set<string>();

export function reportUnknown(type: string): void {
  if (reported.has(type)) return;
  reported.add(type);
  console.warn(`Ignored an event of an unknown type: ${type}`);
}
