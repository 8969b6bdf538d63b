import { effect } from "@preact/signals";
import { describe, expect, it, vi } from "vitest";
import type { Turn } from "../../src/api/chats";
import type { Item, StreamEvent } from "../../src/api/wire";
import { itemsOf, LiveAnswer, type LiveItem } from "../../src/chat/answer";
import { textOf } from "../../src/chat/items";
import { answered, bytesOf, eventsOf, recorded, turn } from "./recorded";

/** A clock and frames that the test moves. */
function hands() {
  const waiting: (() => void)[] = [];
  const time = { now: 100 };
  return {
    time,
    clock: () => time.now,
    frames: (draw: () => void) => void waiting.push(draw),
    draw: () => waiting.splice(0).forEach((each) => each()),
  };
}

async function followed(name: string, begun: Turn = turn("turn_a", "turn_q", "assistant", [], { status: "in_progress" })) {
  const { events } = await eventsOf(bytesOf(recorded(name)));
  const hand = hands();
  const live = new LiveAnswer(begun, hand);
  for (const event of events) {
    hand.time.now += 0.01;
    live.feed(event);
  }
  return { live, ended: live.end(), events, hand };
}

const shape = (items: readonly LiveItem[]): string[] => items.map((item) => `${item.kind} ${item.state.value}`);

describe("a live answer", () => {
  it("shows reasoning and the final text", async () => {
    const { live, ended } = await followed("hello_shown");
    expect(shape(live.items.value)).toEqual(["reasoning done", "final done"]);
    const [reasoning, final] = live.items.value;
    expect(reasoning?.text.value).toMatch(/^The user wants/);
    expect(reasoning?.seconds.value).toBeCloseTo(0.21);
    expect(reasoning?.tokens.value).toEqual({ count: 17, estimated: true });
    expect(final?.text.value).toMatch(/You said: Hello!$/);
    expect(ended).toMatchObject({ status: "completed", details: { model: "demo", usage: { output_tokens: 45 }, first_token_s: 0.03 } });
    expect(live.usage.value?.output_tokens).toBe(45);
    expect(live.tokens.value).toEqual({ count: 45, estimated: false });
    expect(live.state.value).toBe("ended");
  });

  it.each(["hello_shown", "hello_hidden", "function_call", "mcp_call", "mcp_listed", "mcp_failed", "approval", "approved", "stopped", "engine_error", "cut_off", "only_reasoning", "unknown_tool"])(
    "has in the end the items of %s as the server tells them",
    async (name) => {
      const { events, ended, live } = await followed(name);
      const last = events.at(-1) as StreamEvent & { response: { output: Item[]; status: string } };
      expect(ended.items).toEqual(last.response.output);
      expect(ended.status).toBe(last.response.status);
      // Stored, it looks the same.
      const stored = itemsOf(ended);
      const look = (item: LiveItem) => [item.key, item.kind, item.id, item.tool, item.server, item.text.value, item.state.value, item.result.value];
      expect(stored.map(look)).toEqual(live.items.value.map(look));
    },
  );

  it("shows hidden reasoning by its duration alone", async () => {
    const { live, ended } = await followed("hello_hidden");
    const [reasoning] = live.items.value;
    expect(reasoning).toMatchObject({ kind: "reasoning" });
    expect(reasoning?.text.value).toBe("");
    expect(reasoning?.seconds.value).toBeCloseTo(0.01);
    expect(reasoning?.tokens.value).toBeNull();
    // The server's count is known in the end, and this is all the reasoning there is.
    expect(itemsOf(ended)[0]?.tokens.value).toEqual({ count: 21, estimated: false });
    expect(itemsOf(ended)[0]?.seconds.value).toBe(0.01);
  });

  it("shows calls with their arguments, and results where the server ran them", async () => {
    const mcp = (await followed("mcp_call")).live.items.value[1];
    expect(mcp).toMatchObject({ kind: "call", tool: "temperature", server: "weather" });
    expect(mcp?.text.value).toBe('{"city": "Paris"}');
    expect(mcp?.result.value).toEqual({ text: "21 C", failed: false, by: "tool" });
    const failed = (await followed("mcp_failed")).live.items.value[1];
    expect(failed?.state.value).toBe("failed");
    expect(failed?.result.value).toMatchObject({ text: "Error executing tool temperature", failed: true });
    const declared = (await followed("function_call")).live.items.value[1];
    expect(declared).toMatchObject({ kind: "call", tool: "get_weather", server: null, callId: "call_643facb7" });
    expect(declared?.state.value).toBe("waiting");
    const approval = (await followed("approval")).live.items.value[1];
    expect(approval).toMatchObject({ kind: "approval", tool: "forecast", server: "weather", id: "mcpr_7f7acd5e" });
    expect(approval?.state.value).toBe("waiting");
    expect(approval?.text.value).toBe('{"city": "Paris"}');
  });

  it("keeps the list of a server's tools, and waits on for the first token", async () => {
    const { events } = await eventsOf(bytesOf(recorded("mcp_listed")));
    const unknown = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const hand = hands();
    const live = new LiveAnswer(turn("turn_a", null, "assistant"), hand);
    const spoken = events.findIndex((event) => event.type === "response.output_item.added" && event.item.type === "reasoning");
    for (const event of events.slice(0, spoken)) live.feed(event);
    expect(shape(live.items.value)).toEqual(["listing done"]);
    expect(live.state.value).toBe("waiting");
    hand.time.now += 2;
    for (const event of events.slice(spoken)) live.feed(event);
    const ended = live.end();
    expect(ended.items[0]).toMatchObject({ type: "mcp_list_tools", server_label: "weather", tools: [{ name: "temperature" }] });
    expect(ended.details.first_token_s).toBe(2);
    expect(unknown).not.toHaveBeenCalled();
    unknown.mockRestore();
  });

  it("draws once per frame, whatever came", async () => {
    const { events } = await eventsOf(bytesOf(recorded("hello_shown")));
    const hand = hands();
    const live = new LiveAnswer(turn("turn_a", null, "assistant"), hand);
    const texts: string[] = [];
    for (const event of events.slice(0, 10)) live.feed(event);
    effect(() => void texts.push(live.items.value[0]?.text.value ?? ""));
    expect(texts).toEqual([""]);
    expect(live.tokens.value.count).toBe(0);
    hand.draw();
    expect(texts).toEqual(["", "The user wants an answer."]);
    hand.draw();
    expect(texts).toHaveLength(2);
    expect(live.tokens.value).toEqual({ count: 6, estimated: true });
  });

  it("keeps what came when it is cut off, at every event", async () => {
    const { events } = await eventsOf(bytesOf(recorded("mcp_call")));
    for (let cut = 0; cut <= events.length; cut += 1) {
      const live = new LiveAnswer(turn("turn_a", null, "assistant"), hands());
      const so_far = new Map<number, string>();
      for (const event of events.slice(0, cut)) {
        live.feed(event);
        if ("delta" in event) so_far.set(event.output_index, (so_far.get(event.output_index) ?? "") + event.delta);
      }
      const ended = live.end("cancelled");
      expect(ended.items.map(textOf)).toEqual(ended.items.map((_, index) => so_far.get(index) ?? ""));
      expect(ended.items.some((item) => item.status === "in_progress")).toBe(false);
      expect(live.items.value.some((item) => item.state.value === "running")).toBe(false);
      expect(ended.status).toBe("cancelled");
    }
  });

  it("tells a snapshot for saving at any time", async () => {
    const { events } = await eventsOf(bytesOf(recorded("hello_shown")));
    const live = new LiveAnswer(turn("turn_a", null, "assistant"), hands());
    for (const event of events.slice(0, 30)) live.feed(event);
    const now = live.turnNow();
    expect(now.status).toBe("in_progress");
    expect(now.items.map(textOf)[1]).toBe("I am Harmonia".slice(0, textOf(now.items[1] as Item).length));
    expect(JSON.parse(JSON.stringify(now))).toEqual(now);
  });

  it("reports an event that nobody knows, and goes on", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const live = new LiveAnswer(turn("turn_a", null, "assistant"), hands());
    live.feed({ type: "response.new_in_2027" } as unknown as StreamEvent);
    live.feed({ type: "response.output_text.delta", output_index: 7, content_index: 0, delta: "lost" });
    expect(warn).toHaveBeenCalledTimes(1);
    expect(live.items.value).toEqual([]);
    warn.mockRestore();
  });

  it("grows the time of what runs without a word", () => {
    const hand = hands();
    const live = new LiveAnswer(turn("turn_a", null, "assistant"), hand);
    live.feed({ type: "response.output_item.added", output_index: 0, item: { type: "reasoning", status: "in_progress", summary: [] } });
    hand.time.now += 2;
    live.tick();
    expect(live.items.value[0]?.seconds.value).toBeCloseTo(2);
    expect(live.items.value[0]?.state.value).toBe("running");
    expect(live.seconds.value).toBeCloseTo(2);
  });
});

describe("the work for a long answer", () => {
  function long(tokens: number): LiveAnswer {
    const hand = hands();
    const live = new LiveAnswer(turn("turn_a", null, "assistant"), hand);
    const item = { type: "message", role: "assistant", phase: "final_answer", status: "in_progress", content: [] } as unknown as Item;
    live.feed({ type: "response.output_item.added", output_index: 0, item });
    for (let at = 0; at < tokens; at += 1) {
      live.feed({ type: "response.output_text.delta", output_index: 0, content_index: 0, delta: " word" });
      if (at % 8 === 7) hand.draw();
    }
    hand.draw();
    return live;
  }

  it("is linear: each character is joined once, and a frame costs what came in it", () => {
    const live = long(20_000);
    expect(live.items.value[0]?.text.value).toHaveLength(100_000);
    expect(live.work.events).toBe(20_001);
    expect(live.work.characters).toBe(100_000);
    expect(live.work.joins).toBe(2_500);
    const half = long(10_000);
    expect(live.work.characters).toBe(2 * half.work.characters);
    expect(live.work.joins).toBe(2 * half.work.joins);
  });
});

describe("an answer that is continued", () => {
  const begun = (items: Item[]): Turn =>
    turn("turn_a", "turn_q", "assistant", items, {
      status: "incomplete",
      details: { item_s: { 0: 2 }, item_tokens: { 0: 5 }, total_s: 3, first_token_s: 0.5, incomplete: "max_output_tokens", usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 } },
    });
  const events = (item: Item, delta: string): StreamEvent[] => [
    { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } as Item },
    { type: "response.output_text.delta", output_index: 0, content_index: 0, delta },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { id: "resp_1", status: "completed", model: "demo", output: [item], error: null, incomplete_details: null, usage: { input_tokens: 15, output_tokens: 4, total_tokens: 19 } } },
  ];

  it("joins new text to the unfinished item", () => {
    const hand = hands();
    const live = new LiveAnswer(begun([answered("One, two", { id: "msg_1", status: "incomplete", encrypted_content: "hs1.old" })]), hand);
    const [first] = live.items.value;
    const more = events(answered(", three.", { id: "msg_2", encrypted_content: "hs1.new" }), ", three.");
    for (const event of more.slice(0, 2)) live.feed(event);
    hand.draw();
    expect(live.items.value).toHaveLength(1);
    expect(live.items.value[0]).toBe(first);
    expect(first?.text.value).toBe("One, two, three.");
    expect(first?.state.value).toBe("running");
    expect(textOf(live.turnNow().items[0] as Item)).toBe("One, two, three.");
    hand.time.now += 1;
    for (const event of more.slice(2)) live.feed(event);
    const ended = live.end();
    expect(ended.status).toBe("completed");
    expect(ended.items.map(textOf)).toEqual(["One, two, three."]);
    expect(ended.items[0]?.encrypted_content).toBe("hs1.new"); // which has the whole message
    expect(ended.details).toMatchObject({ item_s: { 0: 3 }, item_tokens: { 0: 6 }, total_s: 4, first_token_s: 0.5, usage: { input_tokens: 15, output_tokens: 9 } });
    expect(ended.details.incomplete).toBeUndefined();
  });

  it("keeps damaged output as it was sampled, where its items are in the turn", () => {
    const before = begun([answered("Note."), answered("One, two", { id: "msg_1", status: "incomplete" })]);
    before.details.sampled = [{ faults: ["a"], first_item: 0, items: 1, encrypted_content: "hs1.a" }];
    const live = new LiveAnswer(before, hands());
    const item = answered(", three.", { id: "msg_2" });
    const [added, delta, done, completed] = events(item, ", three.");
    const sampled = [{ faults: ["b"], first_item: 0, items: 1, encrypted_content: "hs1.b" }];
    for (const event of [added, delta, done]) live.feed(event as StreamEvent);
    expect(live.turnNow().details.sampled).toHaveLength(1);
    live.feed({ ...completed, response: { ...(completed as { response: object }).response, harmonia_sampled: sampled } } as StreamEvent);
    expect(live.end().details.sampled?.map((each) => [each.faults[0], each.first_item])).toEqual([["a", 0], ["b", 1]]);
  });

  it("of a real server becomes the whole answer, with the seal that has all of it", async () => {
    const cut = (await followed("cut_off")).ended;
    expect(textOf(cut.items[1] as Item)).toMatch(/ You$/);
    const { ended, events: more, live } = await followed("continued", { ...cut, status: "in_progress" });
    const whole = (await followed("hello_shown")).ended;
    expect(ended.items.map(textOf)).toEqual(whole.items.map(textOf));
    expect(ended.items[0]).toBe(cut.items[0]);
    const last = more.at(-1) as StreamEvent & { response: { output: Item[] } };
    expect(ended.items[1]?.encrypted_content).toBe(last.response.output[0]?.encrypted_content);
    expect(ended.items[1]).not.toHaveProperty("harmonia_continues");
    expect(ended.status).toBe("completed");
    expect(shape(live.items.value)).toEqual(["reasoning done", "final done"]);
    expect(ended.details.usage?.output_tokens).toBeGreaterThan(cut.details.usage?.output_tokens ?? 0);
  });

  it("puts other items behind it", () => {
    const live = new LiveAnswer(begun([{ type: "reasoning", status: "completed", summary: [], encrypted_content: "hs1.a" }]), hands());
    for (const event of events(answered("Yes."), "Yes.")) live.feed(event);
    expect(live.end().items.map((item) => item.type)).toEqual(["reasoning", "message"]);
  });

  it("takes the new seal of hidden reasoning, which has the whole; without one the old one stays", () => {
    const half = (seal: string | null, status: "incomplete" | "completed"): Item => ({ type: "reasoning", status, summary: [], encrypted_content: seal });
    const live = new LiveAnswer(begun([half("hs1.a", "incomplete")]), hands());
    for (const event of events(half("hs1.b", "completed"), "")) live.feed(event);
    expect(live.end().items.map((item) => item.encrypted_content)).toEqual(["hs1.b"]);
    const stopped = new LiveAnswer(begun([half("hs1.a", "incomplete")]), hands());
    for (const event of events(half(null, "incomplete"), "").slice(0, 1)) stopped.feed(event);
    expect(stopped.end("cancelled").items).toEqual([half("hs1.a", "incomplete")]);
  });

  it("that is cut off again has no seal for its new text", () => {
    const live = new LiveAnswer(begun([answered("One", { status: "incomplete", encrypted_content: "hs1.old" })]), hands());
    for (const event of events(answered(", two"), ", two").slice(0, 2)) live.feed(event);
    const [item] = live.end("cancelled").items as [Item];
    expect([textOf(item), item.encrypted_content, item.status]).toEqual(["One, two", undefined, "incomplete"]);
  });
});

describe("a stored turn", () => {
  const call: Item = { type: "function_call", name: "get_weather", call_id: "call_1", arguments: "{}", status: "completed" };
  const request: Item = { type: "mcp_approval_request", id: "mcpr_1", name: "delete", server_label: "files", arguments: "{}" };

  it("joins calls with the answers of the turn behind it", () => {
    const asking = turn("turn_a", null, "assistant", [call, request]);
    expect(itemsOf(asking).map((item) => item.state.value)).toEqual(["waiting", "waiting"]);
    const answers = turn("turn_u", "turn_a", "user", [
      { type: "function_call_output", call_id: "call_1", output: "21" },
      { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: false, reason: "no" },
    ]);
    const [first, second] = itemsOf(asking, answers);
    expect(first?.state.value).toBe("done");
    expect(first?.result.value).toEqual({ text: "21", failed: false, by: "person" });
    expect(second?.state.value).toBe("refused");
    expect(second?.decided.value).toEqual({ kind: "refused", text: "no" });
  });

  it.each([
    [{ approve: true }, { kind: "approved", text: null }],
    [{ approve: true, harmonia_arguments: '{"a":1}' }, { kind: "edited", text: '{"a":1}' }],
    [{ approve: true, harmonia_output: "done by hand" }, { kind: "answered", text: "done by hand" }],
  ])("tells how an approval was decided: %o", (given, decided) => {
    const answers = turn("turn_u", "turn_a", "user", [{ type: "mcp_approval_response", approval_request_id: "mcpr_1", ...given }]);
    expect(itemsOf(turn("turn_a", null, "assistant", [request]), answers)[0]?.decided.value).toEqual(decided);
  });

  it("is made once, until it or the turn behind it changes", () => {
    const asking = turn("turn_a", null, "assistant", [call]);
    expect(itemsOf(asking)).toBe(itemsOf(asking));
    expect(itemsOf(asking, turn("turn_u", "turn_a", "user"))).not.toBe(itemsOf(asking));
  });

  it("shows nothing as running, and unknown items as other", () => {
    const stored = turn("turn_a", null, "assistant", [answered("Hal", { status: "in_progress" }), { type: "web_search_call" } as unknown as Item]);
    expect(itemsOf(stored).map((item) => `${item.kind} ${item.state.value}`)).toEqual(["final incomplete", "other done"]);
  });
});
