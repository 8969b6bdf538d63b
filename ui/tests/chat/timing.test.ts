import { describe, expect, it } from "vitest";
import type { StreamEvent } from "../../src/api/wire";
import { LiveAnswer } from "../../src/chat/answer";
import { legsTo } from "../../src/chat/decisions";
import { rate, Timing } from "../../src/chat/timing";
import { joinDetails } from "../../src/chat/usage";
import { speedOf } from "../../src/chat/views/words";
import { turn } from "./recorded";

describe("timing", () => {
  it("measures the first token, each item, and how long the model spoke", () => {
    let now = 10;
    const timing = new Timing(() => now);
    expect([timing.firstToken, timing.spoken, timing.seconds(0)]).toEqual([null, 0, null]);
    now = 12;
    timing.token();
    timing.begin(0);
    expect(timing.firstToken).toBe(2);
    now = 14;
    timing.end(0);
    timing.begin(1);
    timing.pause();
    now = 20;
    expect([timing.seconds(0), timing.seconds(1), timing.spoken]).toEqual([2, 6, 2]);
    timing.end(1);
    timing.token();
    now = 22;
    timing.stop();
    now = 99;
    expect([timing.spoken, timing.total]).toEqual([4, 12]);
  });

  it("says no speed where there is too little to divide", () => {
    expect([rate(19, 1), rate(20, 0.05), rate(40, 0.5)]).toEqual([null, null, 80]);
  });

  it("ends with the answer what is still open", () => {
    let now = 0;
    const timing = new Timing(() => now);
    timing.begin(0);
    now = 3;
    timing.stop();
    now = 9;
    expect(timing.seconds(0)).toBe(3);
  });

  it("goes on from what a continued answer took", () => {
    let now = 0;
    const timing = new Timing(() => now, { total_s: 5, first_token_s: 1 });
    now = 2;
    timing.token();
    expect([timing.total, timing.firstToken]).toEqual([7, 1]);
  });
});

/** A model that writes 80 tokens a second, and tools and people that take their time. */
class Stream {
  now = 0;
  tokens = 0;
  index = -1;
  readonly live: LiveAnswer;

  constructor(id = "turn_a") {
    this.live = new LiveAnswer(turn(id, "turn_q", "assistant", [], { status: "in_progress" }), { clock: () => this.now, frames: (draw) => draw() });
  }

  feed(event: object): void {
    this.live.feed({ output_index: this.index, content_index: 0, ...event } as StreamEvent);
  }

  /** Tokens that nobody sees: headers and stops. */
  write(tokens: number): void {
    this.tokens += tokens;
    this.now += tokens / 80;
  }

  item(item: object, delta: string, pieces: number, header: number): void {
    this.write(header);
    this.index += 1;
    this.feed({ type: "response.output_item.added", item: { id: `item_${this.index}`, status: "in_progress", ...item } });
    for (let at = 0; at < pieces; at++) {
      this.write(1);
      if (delta !== "") this.feed({ type: delta, delta: "x" });
    }
    this.write(1);
  }

  end(): ReturnType<LiveAnswer["end"]> {
    const usage = { input_tokens: 10, output_tokens: this.tokens, total_tokens: 10 + this.tokens };
    const response = { id: "resp", status: "completed", model: "m", output: [], error: null, incomplete_details: null, usage };
    this.live.feed({ type: "response.completed", response } as unknown as StreamEvent);
    return this.live.end();
  }
}

const REASONING = { type: "reasoning", content: [], summary: [] };
const MCP = { type: "mcp_call", name: "forecast", server_label: "desk", arguments: "" };
const TEXT = { type: "message", role: "assistant", content: [] };
const near80 = (speed: number | null): void => {
  expect(speed).toBeGreaterThan(70);
  expect(speed).toBeLessThan(90);
};

describe("tokens per second, of a model that writes 80", () => {
  it("are 80 while a tool runs for seconds, live and stored", () => {
    const stream = new Stream();
    stream.now = 2; // the prompt is read
    stream.item(REASONING, "response.reasoning_text.delta", 30, 3);
    stream.item(MCP, "response.mcp_call_arguments.delta", 8, 14);
    stream.feed({ type: "response.mcp_call_arguments.done", arguments: "" });
    stream.now += 4; // the tool
    stream.feed({ type: "response.mcp_call.completed" });
    stream.now += 1; // what it said is read
    stream.item(TEXT, "response.output_text.delta", 30, 3);
    near80(stream.live.tokensPerSecond.value);
    const stored = stream.end();
    near80(stream.live.tokensPerSecond.value);
    expect(speedOf(stored.details)).toBeCloseTo(stream.live.tokensPerSecond.value ?? 0, 0);
    expect(stored.details.first_token_s).toBeCloseTo(2.04, 1);
  });

  it("are 80 for a bare call", () => {
    const stream = new Stream();
    stream.item({ type: "function_call", name: "get_weather", call_id: "c", arguments: "" }, "response.function_call_arguments.delta", 40, 14);
    near80(speedOf(stream.end().details));
  });

  it("are 80 with hidden reasoning, of which no piece comes", () => {
    const stream = new Stream();
    stream.item(REASONING, "", 160, 3);
    stream.feed({ type: "response.output_item.done", item: { id: "item_0", ...REASONING, status: "completed" } });
    stream.item(TEXT, "response.output_text.delta", 40, 5);
    near80(stream.live.tokensPerSecond.value);
    near80(speedOf(stream.end().details));
  });

  it("count all legs of an answer that waited for the person, and its first token is the model's", () => {
    const first = new Stream("turn_a");
    first.now = 1;
    first.item(REASONING, "response.reasoning_text.delta", 60, 3);
    first.item({ type: "mcp_approval_request", name: "forecast", server_label: "desk", arguments: "{}" }, "", 0, 20);
    const asking = first.end();
    const second = new Stream("turn_b");
    second.index += 1;
    // What was allowed is the server's item: no token of the model's.
    second.feed({ type: "response.output_item.added", item: { id: "m", status: "in_progress", ...MCP, approval_request_id: "r" } });
    second.feed({ type: "response.mcp_call_arguments.delta", delta: "{}" });
    second.feed({ type: "response.mcp_call_arguments.done", arguments: "{}" });
    second.now = 3;
    second.item(TEXT, "response.output_text.delta", 30, 3);
    const going = second.end();
    expect(going.details.first_token_s).toBeGreaterThan(3);
    near80(speedOf(going.details));
    const answers = turn("turn_y", "turn_a", "user", [{ type: "mcp_approval_response", approval_request_id: "r", approve: true }]);
    const legs = legsTo([turn("turn_q", null, "user", []), asking, answers, going], "turn_b");
    expect(legs.map((leg) => leg.id)).toEqual(["turn_a", "turn_b"]);
    const joined = joinDetails(legs.map((leg) => leg.details));
    expect(joined.usage?.output_tokens).toBe(first.tokens + second.tokens);
    expect(joined.first_token_s).toBe(asking.details.first_token_s);
    near80(speedOf(joined));
  });
});
