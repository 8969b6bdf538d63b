/** A server in memory, in the place of `fetch`: chats are kept, and responses are what a test says. */

import { vi } from "vitest";
import type { Turn, WholeChat } from "../../src/api/chats";
import type { Item, ItemStatus, ResponseRequest, StreamEvent } from "../../src/api/wire";

type Answer = (request: ResponseRequest, signal: AbortSignal | null) => Response | Promise<Response>;

export class FakeServer {
  readonly chats = new Map<string, WholeChat>();
  /** What was asked, in its order: `PUT v1/chats/chat_1/turns/turn_x`. */
  readonly asked: string[] = [];
  readonly requests: ResponseRequest[] = [];
  readonly keptAlive: string[] = [];
  /** The answers to come, one for each request. */
  answers: Answer[] = [];
  /** Paths that fail now: with a status, or because nobody is there. */
  failing: { path: RegExp; status: number | "gone" } | null = null;
  /** Answers to these are on their way until it is over. */
  slow: { path: RegExp; method: string; until: Promise<unknown> } | null = null;
  cancelled: string[] = [];
  onCancel: () => void = () => undefined;

  constructor() {
    vi.stubGlobal("fetch", (url: string, options: RequestInit = {}) => this.fetch(new URL(url).pathname.slice(1), options));
  }

  turns(chat: string): Turn[] {
    return this.chats.get(chat)?.turns ?? [];
  }

  private async fetch(path: string, options: RequestInit): Promise<Response> {
    const method = options.method ?? "GET";
    this.asked.push(`${method} ${path}`);
    if (options.keepalive) this.keptAlive.push(path);
    await Promise.resolve();
    if (this.failing?.path.test(path)) {
      if (this.failing.status === "gone") throw new TypeError("Failed to fetch");
      return refusal(this.failing.status, "server_error");
    }
    const body: unknown = typeof options.body === "string" ? JSON.parse(options.body) : null;
    if (path === "v1/responses") {
      this.requests.push(body as ResponseRequest);
      const answer = this.answers.shift();
      if (answer === undefined) throw new Error("nobody said what to answer");
      return answer(body as ResponseRequest, options.signal ?? null);
    }
    const cancel = /^v1\/responses\/([^/]+)\/cancel$/.exec(path);
    if (cancel !== null) {
      this.cancelled.push(cancel[1] as string);
      this.onCancel();
      return json({});
    }
    const answer = this.chat(method, path, body);
    if (this.slow?.method === method && this.slow.path.test(path)) await this.slow.until;
    return answer;
  }

  private chat(method: string, path: string, body: unknown): Response {
    const [, , id = "", , turnId] = path.split("/");
    if (id === "" && method === "GET") {
      const data = [...this.chats.values()].map(({ turns, settings: _settings, ...row }) => ({ ...row, turns: turns.length }));
      return json({ object: "list", data, has_more: false });
    }
    if (id === "") {
      const made: WholeChat = { id: `chat_${this.chats.size + 1}`, object: "chat", title: "", created_at: 1, updated_at: 1, leaf: null, settings: {}, turns: [], ...(body as object) };
      this.chats.set(made.id, made);
      const { turns: _turns, ...chat } = made;
      return json(chat);
    }
    const chat = this.chats.get(id);
    if (chat === undefined) return refusal(404, "not_found");
    if (method === "GET") return json(chat);
    if (method === "PATCH") {
      const { leaf } = body as { leaf?: string };
      if (leaf != null && !chat.turns.some((turn) => turn.id === leaf)) return refusal(400, "no_such_leaf");
      Object.assign(chat, body);
    } else if (method === "PUT") {
      const turn = body as Turn;
      if (turn.parent !== null && !chat.turns.some((each) => each.id === turn.parent)) return refusal(400, "no_such_parent");
      chat.turns = [...chat.turns.filter((each) => each.id !== turnId), turn];
    } else if (method === "DELETE" && turnId === undefined) this.chats.delete(id);
    else if (method === "DELETE") chat.turns = chat.turns.filter((each) => each.id !== turnId);
    return json({});
  }
}

export const json = (body: unknown, status = 200): Response => new Response(JSON.stringify(body), { status });
export const refusal = (status: number, code: string, param: string | null = null): Response => json({ error: { message: "no", code, param } }, status);

const line = (event: unknown): string => `data: ${JSON.stringify(event)}\n\n`;
export const textStream = (text: string): Response => new Response(text);

/** The events of a response with these items, each streamed in one delta. */
export function eventsFor(items: Item[], status: "completed" | "incomplete" | "cancelled" = "completed"): StreamEvent[] {
  const response = { id: "resp_1", status, model: "demo", output: items, error: null, incomplete_details: status === "completed" ? null : { reason: "max_output_tokens" }, usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } };
  const begun = (item: Item): Item => ({ ...item, status: "in_progress" as ItemStatus, ...("arguments" in item ? { arguments: "" } : { content: [] }) }) as Item;
  return [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...items.flatMap((item, output_index): StreamEvent[] => [
      { type: "response.output_item.added", output_index, item: begun(item) },
      ...(item.type === "message" ? [{ type: "response.output_text.delta" as const, output_index, content_index: 0, delta: text(item) }] : []),
      { type: "response.output_item.done", output_index, item },
    ]),
    { type: status === "completed" ? "response.completed" : "response.incomplete", response },
  ];
}

const text = (item: Item & { type: "message" }): string => (typeof item.content === "string" ? item.content : item.content.map((part) => ("text" in part ? part.text : "")).join(""));

export const replying = (...items: Item[]): Answer => () => textStream(eventsFor(items).map(line).join(""));
export const cutOff = (...items: Item[]): Answer => () => textStream(eventsFor(items, "incomplete").map(line).join(""));

/** A stream that the test writes to, and that ends when its reader leaves. */
export function slowly(): { answer: Answer; write: (...events: StreamEvent[]) => void; close: () => void } {
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
  return {
    answer: (_request, signal) => {
      signal?.addEventListener("abort", () => controller?.error(new DOMException("", "AbortError")));
      return new Response(body);
    },
    write: (...events) => events.forEach((event) => controller?.enqueue(new TextEncoder().encode(line(event)))),
    close: () => controller?.close(),
  };
}
