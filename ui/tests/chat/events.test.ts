import { afterEach, describe, expect, it, vi } from "vitest";
import { Failure } from "../../src/api/client";
import { reportUnknown } from "../../src/chat/events";
import { bytesOf, eventsOf, recorded } from "./recorded";

const NAMES = ["hello_shown", "hello_hidden", "function_call", "mcp_call", "mcp_listed", "mcp_failed", "approval", "approved", "stopped", "cut_off", "continued", "only_reasoning", "unknown_tool"];

describe("events of a stream", () => {
  it.each(NAMES)("come whole from %s and end with the terminal one", async (name) => {
    const { events, failure } = await eventsOf(bytesOf(recorded(name)));
    expect(failure).toBeNull();
    expect(events).toHaveLength(recorded(name).split("\ndata: ").length - 1);
    expect(events.at(-1)?.type).toMatch(/^response\.(completed|incomplete)$/);
  });

  it("are the same however the bytes are cut", async () => {
    const text = recorded("hello_shown").replaceAll("Hello", "Grüße 🦜");
    const whole = await eventsOf(bytesOf(text, 1 << 20));
    for (const size of [1, 2, 3, 7, 4096]) expect(await eventsOf(bytesOf(text, size))).toEqual(whole);
  });

  it("of an engine that died keep what came, and say so", async () => {
    const { events, failure } = await eventsOf(bytesOf(recorded("engine_error")));
    expect(events.at(-1)?.type).toBe("response.failed");
    expect(failure).toBeInstanceOf(Failure);
    expect(failure).toMatchObject({ kind: "engine", code: "engine_died" });
  });

  it("that just end are a server that is gone; what came is kept", async () => {
    const text = recorded("hello_shown");
    const { events, failure } = await eventsOf(bytesOf(text.slice(0, text.indexOf("event: response.completed"))));
    expect(failure).toMatchObject({ kind: "gone" });
    expect(events.at(-1)?.type).toBe("response.output_item.done");
    expect((await eventsOf(bytesOf(""))).failure).toMatchObject({ kind: "gone" });
  });

  it("leave out an event that was cut off in its middle", async () => {
    const text = recorded("hello_shown");
    const { failure } = await eventsOf(bytesOf(text.slice(0, text.length - 10)));
    expect(failure).toMatchObject({ kind: "gone" });
  });

  it("raise an error event with its code", async () => {
    const { failure } = await eventsOf(bytesOf('event: error\ndata: {"type":"error","code":"context_length_exceeded","message":"too long","param":"input"}\n\n'));
    expect(failure).toMatchObject({ kind: "context", code: "context_length_exceeded", message: "Too long.", param: "input" });
  });

  it("that are no JSON are the server's fault", async () => {
    expect((await eventsOf(bytesOf("data: {\n\n"))).failure).toMatchObject({ kind: "server" });
    expect((await eventsOf(bytesOf("data: 7\n\n"))).failure).toMatchObject({ kind: "server" });
  });

  it("may be followed by [DONE], and comments are nothing", async () => {
    const text = `: hello\n\n${recorded("hello_hidden")}data: [DONE]\n\n`;
    expect((await eventsOf(bytesOf(text))).failure).toBeNull();
  });

  it("tell a connection that breaks from one that was stopped", async () => {
    const broken = (error: unknown): ReadableStream<Uint8Array> => new ReadableStream({ pull: (controller) => controller.error(error) });
    expect((await eventsOf(broken(new TypeError("network error")))).failure).toMatchObject({ kind: "gone" });
    expect((await eventsOf(broken(new DOMException("", "AbortError")))).failure).toMatchObject({ kind: "stopped" });
  });
});

describe("an unknown event", () => {
  afterEach(() => vi.restoreAllMocks());

  it("is reported once", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    reportUnknown("response.from_the_future");
    reportUnknown("response.from_the_future");
    expect(warn).toHaveBeenCalledTimes(1);
  });
});
