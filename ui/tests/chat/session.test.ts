import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Turn } from "../../src/api/chats";
import { setKey } from "../../src/api/client";
import { serverInfo } from "../../src/api/server";
import type { Item } from "../../src/api/wire";
import { itemsOf } from "../../src/chat/answer";
import { textOf } from "../../src/chat/items";
import * as session from "../../src/chat/session";
import { go, route } from "../../src/route";
import { cutOff, eventsFor, FakeServer, refusal, replying, slowly, textStream } from "./fake_server";
import { answered, recorded, said } from "./recorded";

let server: FakeServer;

beforeEach(() => {
  server = new FakeServer();
  go({ view: "chat", chat: null, turn: null }, true);
  session.newChat();
  session.draft.value = "";
});

afterEach(async () => {
  session.stop();
  await session.settled();
  await saved();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  serverInfo.value = null;
});

/** Until everything is saved, or cannot be. */
async function saved(): Promise<void> {
  await vi.waitFor(() => expect(session.saving.value).not.toBe("saving"));
}

async function ask(text: string, ...answers: FakeServer["answers"]): Promise<void> {
  server.answers.push(...answers);
  expect(await session.sendMessage(text)).toBe(true);
  await session.settled();
}

const texts = (turns: readonly Turn[] = session.branch.value): string[] => turns.map((turn) => turn.items.map(textOf).join("|"));
const last = (): Turn => session.branch.value.at(-1) as Turn;
const id = (): string => session.chat.value?.id as string;
const request = (tool: string, id: string): Item => ({ type: "mcp_approval_request", id, name: tool, server_label: "files", arguments: '{"path": "a"}', status: "completed", encrypted_content: "hs1.r" });
const call = (call_id: string): Item => ({ type: "function_call", name: "get_weather", call_id, arguments: "{}", status: "completed" });

describe("a message", () => {
  it("creates the chat, is answered, and both are saved", async () => {
    session.draft.value = "Hello there!";
    await ask("Hello there!", replying(answered("Hi.")));
    await saved();
    expect(texts()).toEqual(["Hello there!", "Hi."]);
    expect(session.draft.value).toBe("");
    expect(session.chat.value).toMatchObject({ id: "chat_1", title: "Hello there!" });
    expect(route.value).toEqual({ view: "chat", chat: "chat_1", turn: null });
    expect(texts(server.turns("chat_1"))).toEqual(["Hello there!", "Hi."]);
    expect(server.turns("chat_1").at(-1)).toMatchObject({ status: "completed", details: { model: "demo", usage: { output_tokens: 2 } } });
    expect(server.chats.get("chat_1")?.leaf).toBe(last().id);
    expect(session.saving.value).toBe("saved");
  });

  it("takes the whole branch along", async () => {
    await ask("One", replying(answered("1", { encrypted_content: "hs1.a" })));
    await ask("Two", replying(answered("2")));
    expect(server.requests[1]?.input).toEqual([said("One"), answered("1", { encrypted_content: "hs1.a" }), said("Two")]);
    expect(server.requests[1]).toMatchObject({ store: false, stream: true, include: ["harmonia.encrypted_content"] });
  });

  it("shows a recorded answer of a real server", async () => {
    await ask("Hello!", () => textStream(recorded("hello_shown")));
    expect(itemsOf(last()).map((item) => item.kind)).toEqual(["reasoning", "final"]);
    expect(texts()[1]).toContain("You said: Hello!");
  });

  it("that is empty, or comes while an answer runs, is not sent", async () => {
    expect(await session.sendMessage("  ")).toBe(false);
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("One");
    expect(await session.sendMessage("Two")).toBe(false);
    expect(server.requests.length).toBeLessThan(2);
  });

  it("stays in the composer when the chat cannot be created, and can be sent again", async () => {
    server.failing = { path: /chats/, status: "gone" };
    session.draft.value = ""; // a composer may have emptied it already
    expect(await session.sendMessage("Precious", [{ name: "a.txt", text: "b" }])).toBe(false);
    expect(session.failure.value).toMatchObject({ doing: "creating", typed: "Precious", failure: { kind: "gone" } });
    expect(session.draft.value).toBe("Precious");
    expect(session.branch.value).toEqual([]);
    server.failing = null;
    server.answers.push(replying(answered("Got it.")));
    await session.retry();
    await session.settled();
    expect(texts()).toEqual(["Precious", "Got it."]);
    expect(server.requests[0]?.input[0]).toMatchObject({ content: [{ type: "input_file", filename: "a.txt" }, { text: "Precious" }] });
    expect(session.failure.value).toBeNull();
  });
});

describe("a failure", () => {
  it.each([
    [() => refusal(401, "invalid_api_key"), "key"],
    [() => refusal(503, "engine_unreachable"), "engine"],
    [() => refusal(400, "context_length_exceeded"), "context"],
    [() => refusal(429, "rate_limit_exceeded"), "busy"],
    [() => Promise.reject(new TypeError("Failed to fetch")), "gone"],
  ])("before the first word is told apart, and retried in its place: %#", async (answer, kind) => {
    await ask("Hello", answer as FakeServer["answers"][number]);
    expect(session.failure.value).toMatchObject({ doing: "answering", turn: last().id, failure: { kind } });
    expect(last()).toMatchObject({ status: "failed", items: [], details: { error: { kind } } });
    const failed = last().id;
    server.answers.push(replying(answered("Now.")));
    await session.retry();
    await session.settled();
    expect(last()).toMatchObject({ id: failed, status: "completed" });
    expect(last().details.error).toBeUndefined();
    expect(texts()).toEqual(["Hello", "Now."]);
    expect(session.tree.value.turns.size).toBe(2);
  });

  it("after nothing but a list of tools is retried in its place", async () => {
    const text = recorded("mcp_listed");
    await ask("Hello", () => textStream(text.slice(0, text.indexOf("event: response.output_item.added", text.indexOf("mcp_list_tools.completed")))));
    expect(last()).toMatchObject({ status: "failed", items: [{ type: "mcp_list_tools" }] });
    expect(session.canContinue(last())).toBe(false);
    const failed = last().id;
    server.answers.push(replying(answered("Now.")));
    await session.retry();
    await session.settled();
    expect(last()).toMatchObject({ id: failed, status: "completed", items: [{ type: "message" }] });
    expect(session.tree.value.turns.size).toBe(2);
  });

  it("in the middle keeps what came; a retry stands beside it", async () => {
    await ask("/demo engine-error", () => textStream(recorded("engine_error")));
    expect(session.failure.value?.failure).toMatchObject({ kind: "engine", code: "engine_died" });
    expect(last().status).toBe("failed");
    expect(texts()[1]).toContain("The engine dies in the");
    const failed = last().id;
    server.answers.push(replying(answered("Better.")));
    await session.retry();
    await session.settled();
    expect(texts()).toEqual(["/demo engine-error", "Better."]);
    expect(session.alternatives(last().id)).toEqual({ at: 2, of: 2, before: failed, after: null });
  });

  it("of a stream that just ends keeps what came", async () => {
    const text = recorded("hello_shown");
    await ask("Hello!", () => textStream(text.slice(0, text.length / 2)));
    expect(session.failure.value?.failure.kind).toBe("gone");
    expect(texts()[1]).toMatch(/^The user wants/);
    expect(session.canContinue(last())).toBe(true);
  });
});

describe("stopping", () => {
  it("keeps what came, with what the server says last", async () => {
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Count");
    const [created, added, delta] = eventsFor([answered("One, two")]);
    stream.write(created!, added!, delta!);
    await vi.waitFor(() => expect(session.running.value?.responseId).toBe("resp_1"));
    server.onCancel = () => stream.write(...eventsFor([answered("One, two", { status: "incomplete", encrypted_content: "hs1.x" })], "cancelled").slice(-1));
    session.stop();
    await session.settled();
    expect(server.cancelled).toEqual(["resp_1"]);
    expect(session.failure.value).toBeNull();
    expect(session.running.value).toBeNull();
    expect(last()).toMatchObject({ status: "cancelled", items: [{ status: "incomplete", encrypted_content: "hs1.x" }], details: { usage: { output_tokens: 2 } } });
    expect(texts()[1]).toBe("One, two");
  });

  it("closes the connection where the server does not say more", async () => {
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Count");
    stream.write(...eventsFor([answered("One, two")]).slice(0, 3));
    await vi.waitFor(() => expect(session.running.value?.items.value.length).toBe(1));
    server.failing = { path: /cancel/, status: 404 };
    session.stop();
    await session.settled();
    expect(last()).toMatchObject({ status: "cancelled", items: [{ status: "incomplete" }] });
    expect(texts()[1]).toBe("One, two");
  });

  it("twice does not wait for the server", async () => {
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Count");
    stream.write(...eventsFor([answered("One")]).slice(0, 3));
    await vi.waitFor(() => expect(session.running.value?.items.value.length).toBe(1));
    session.stop();
    session.stop();
    await session.settled();
    expect(last()).toMatchObject({ status: "cancelled" });
  });

  it("works before anything came", async () => {
    server.answers.push((_request, signal) => new Promise((_, reject) => signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")))));
    await session.sendMessage("Hello");
    await Promise.resolve();
    session.stop();
    await session.settled();
    expect(last()).toMatchObject({ status: "cancelled", items: [] });
    expect(session.failure.value).toBeNull();
  });
});

describe("versions", () => {
  it("are made by regenerating, and can be walked", async () => {
    await ask("Hello", replying(answered("One")));
    const first = last().id;
    server.answers.push(replying(answered("Two")));
    await session.regenerate(first, "high");
    await session.settled();
    expect(texts()).toEqual(["Hello", "Two"]);
    expect(server.requests[1]?.reasoning).toEqual({ effort: "high" });
    expect(last().details.effort).toBe("high");
    expect(session.alternatives(last().id)).toMatchObject({ at: 2, of: 2, before: first });
    session.showBranch(first);
    expect(texts()).toEqual(["Hello", "One"]);
    await saved();
    expect(server.chats.get(id())?.leaf).toBe(first);
  });

  it("of a question are answered anew", async () => {
    await ask("Hello", replying(answered("One")));
    const question = session.branch.value[0]!.id;
    server.answers.push(replying(answered("Two")));
    await session.editTurn(question, "Goodbye");
    await session.settled();
    expect(texts()).toEqual(["Goodbye", "Two"]);
    expect(session.alternatives(session.branch.value[0]!.id)).toMatchObject({ at: 2, of: 2, before: question });
    session.showBranch(question);
    expect(texts()).toEqual(["Hello", "One"]);
  });

  it("of an answer are not asked for, and lose the seal of what was changed", async () => {
    const thought: Item = { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm." }], status: "completed", encrypted_content: "hs1.a" };
    await ask("Hello", replying(thought, answered("One", { encrypted_content: "hs1.b" })));
    const items = last().items.map((item) => (item.type === "reasoning" ? { ...item, content: [{ type: "reasoning_text" as const, text: "Aha." }] } : item));
    await session.editTurn(last().id, items);
    expect(server.requests).toHaveLength(1);
    expect(texts()).toEqual(["Hello", "Aha.|One"]);
    expect(last().items[0]).not.toHaveProperty("encrypted_content");
    expect(last().items[1]?.encrypted_content).toBe("hs1.b");
    await saved();
    expect(server.turns(id())).toHaveLength(3);
  });

  it("are deleted with all behind them", async () => {
    await ask("Hello", replying(answered("One")));
    const first = last().id;
    server.answers.push(replying(answered("Two")));
    await session.regenerate(first);
    await session.settled();
    await session.deleteTurn(last().id);
    expect(texts()).toEqual(["Hello", "One"]);
    await session.deleteTurn(session.branch.value[0]!.id);
    expect([session.leaf.value, session.tree.value.turns.size]).toEqual([null, 0]);
    await saved();
    expect(server.asked.filter((each) => each.startsWith("DELETE"))).toHaveLength(2);
  });

  it("that are deleted while they run end, and do not come back", async () => {
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Hello");
    const { id: running } = last();
    await session.deleteTurn(running);
    await saved();
    expect(texts()).toEqual(["Hello"]);
    expect(session.running.value).toBeNull();
    expect(server.turns(id()).map((turn) => turn.id)).not.toContain(running);
  });
});

describe("continuing", () => {
  it("joins the new text to the old, in place", async () => {
    await ask("Count", cutOff(answered("One, two", { status: "incomplete" })));
    expect(last()).toMatchObject({ status: "incomplete", details: { incomplete: "max_output_tokens" } });
    const { id: cut } = last();
    server.answers.push(replying(answered(", three.")));
    await session.continueAnswer(cut);
    await session.settled();
    expect(server.requests[1]).toMatchObject({ harmonia_continue: true });
    expect(server.requests[1]?.input.at(-1)).toMatchObject({ status: "incomplete" });
    expect(last()).toMatchObject({ id: cut, status: "completed" });
    expect(texts()).toEqual(["Count", "One, two, three."]);
    expect(session.canContinue(last())).toBe(false);
  });

  it("keeps the old text where it fails, and can be tried again", async () => {
    await ask("Count", cutOff(answered("One, two", { status: "incomplete" })));
    server.answers.push(() => refusal(503, "engine_unreachable"));
    await session.continueAnswer(last().id);
    await session.settled();
    expect(texts()).toEqual(["Count", "One, two"]);
    expect(last().status).toBe("failed");
    expect(session.canContinue(last())).toBe(true);
  });
});

describe("approvals", () => {
  it("ask the model only when all are decided, and show what was decided before that", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1"), request("move", "mcpr_2"), request("copy", "mcpr_3")));
    const asking = last();
    expect(session.waitingFor.value.approvals).toEqual(["mcpr_1", "mcpr_2", "mcpr_3"]);
    await session.decide("mcpr_1", { kind: "refuse", reason: "no" });
    await session.decide("mcpr_2", { kind: "edit", arguments: '{"path": "b"}' });
    expect(server.requests).toHaveLength(1);
    expect(session.waitingFor.value.approvals).toEqual(["mcpr_3"]);
    expect(itemsOf(asking, last()).map((item) => item.decided.value?.kind)).toEqual(["refused", "edited", undefined]);
    await session.decide("mcpr_1", { kind: "once" }); // a change of mind
    server.answers.push(replying(answered("Done.")));
    await session.decide("mcpr_3", { kind: "answer", output: "by hand" });
    await session.settled();
    expect(server.requests[1]?.input.slice(-3)).toEqual([
      { type: "mcp_approval_response", approval_request_id: "mcpr_2", approve: true, harmonia_arguments: '{"path": "b"}' },
      { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
      { type: "mcp_approval_response", approval_request_id: "mcpr_3", approve: true, harmonia_output: "by hand" },
    ]);
    expect(server.requests[1]?.input[1]).toMatchObject({ encrypted_content: "hs1.r" });
    expect(texts().at(-1)).toBe("Done.");
    expect(session.waitingFor.value.approvals).toEqual([]);
  });

  it("given for always are kept, and answer later requests by themselves", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1"), request("delete", "mcpr_2")));
    server.answers.push(replying(request("delete", "mcpr_3")), replying(answered("Done.")));
    await session.decide("mcpr_1", { kind: "always" });
    await vi.waitFor(() => expect(texts().at(-1)).toBe("Done."));
    await saved();
    expect(server.requests).toHaveLength(3);
    expect(server.chats.get(id())?.settings.always).toEqual(["files.delete"]);
    expect(session.waitingFor.value.approvals).toEqual([]);
  });

  it("given for always come to an end where the model does not", async () => {
    await session.changeSettings({ always: ["files.delete"] });
    for (let at = 0; at < 60; at += 1) server.answers.push(replying(request("delete", `mcpr_${at}`)));
    await session.sendMessage("Delete for ever");
    await vi.waitFor(() => expect(server.requests).toHaveLength(51), { timeout: 5000 });
    await session.settled();
    expect(session.waitingFor.value.approvals).toHaveLength(1);
  });

  it("that are not decided are refused by the next message", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1"), call("call_1")));
    await session.answerCall("call_1", "sunny");
    expect(session.waitingFor.value).toEqual({ approvals: ["mcpr_1"], calls: [] });
    await ask("Never mind", replying(answered("Fine.")));
    expect(server.requests[1]?.input.slice(3)).toMatchObject([
      { type: "function_call_output", output: "sunny" },
      { type: "mcp_approval_response", approve: false },
      { type: "message", content: "Never mind" },
    ]);
  });

  const made = (request_id: string): Item => ({ type: "mcp_call", id: `made_${request_id}`, name: "delete", server_label: "files", arguments: "{}", output: "deleted", approval_request_id: request_id, status: "completed", encrypted_content: "hs2.m" });
  const approve = async (requestId: string, ...answers: FakeServer["answers"]): Promise<void> => {
    server.answers.push(...answers);
    await session.decide(requestId, { kind: "once" });
    await session.settled();
  };
  const sentCalls = (): unknown[] => (server.requests.at(-1)?.input ?? []).filter((item) => item.type === "mcp_call");
  const used = (at: number): FakeServer["answers"][number] => () => refusal(400, "approval_used", `input[${at}].approval_request_id`);

  it("that were used are sent with the call that came of them, in every answer to them", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1")));
    await approve("mcpr_1", replying(made("mcpr_1"), answered("Done.")));
    const first = last();
    server.answers.push(replying(answered("It is done.")));
    await session.regenerate(first.id);
    await session.settled();
    expect(sentCalls()).toEqual([made("mcpr_1")]);
    expect(last()).toMatchObject({ parent: first.parent, items: [made("mcpr_1"), answered("It is done.")], status: "completed" });
    expect(last().details.item_s?.["0"]).toBe(first.details.item_s?.["0"]);
    await saved();
    await session.openChat(id());
    server.answers.push(replying(answered("Once more.")));
    await session.regenerate(last().id);
    await session.settled();
    expect(sentCalls()).toEqual([made("mcpr_1")]);
    await ask("And?", replying(answered("That was all.")));
    expect(sentCalls()).toEqual([made("mcpr_1")]);
  });

  it("are not sent anew where the engine failed behind the call: the same turn is answered again", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1")));
    const { answer, write, close } = slowly();
    server.answers.push(answer);
    await session.decide("mcpr_1", { kind: "once" });
    write(...eventsFor([made("mcpr_1")]).slice(0, -1));
    close();
    await session.settled();
    expect(session.failure.value).not.toBeNull();
    const failed = last();
    expect(failed.items).toEqual([made("mcpr_1")]);
    server.answers.push(replying(answered("Done.")));
    await session.retry();
    await session.settled();
    expect(sentCalls()).toEqual([made("mcpr_1")]);
    expect(last()).toMatchObject({ id: failed.id, items: [made("mcpr_1"), answered("Done.")] });
  });

  it("that were used without a result that is known are sent with a call that says so", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1"), request("move", "mcpr_2")));
    await session.decide("mcpr_1", { kind: "edit", arguments: '{"path": "b"}' });
    await approve("mcpr_2", used(4), used(3), replying(answered("I do not know.")));
    await vi.waitFor(() => expect(last().status).toBe("completed"));
    expect(session.failure.value).toBeNull();
    const lost = [
      { name: "move", arguments: '{"path": "a"}', approval_request_id: "mcpr_2", status: "failed" },
      { name: "delete", arguments: '{"path": "b"}', approval_request_id: "mcpr_1", status: "failed" },
    ];
    expect(sentCalls()).toMatchObject(lost);
    expect(last()).toMatchObject({ items: [...lost, answered("I do not know.")], status: "completed" });
    expect(last().details.error).toBeUndefined();
  });

  it("that were used by an answer that was stopped do not hold up the next message", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1")));
    const { answer, write } = slowly();
    server.answers.push(answer);
    await session.decide("mcpr_1", { kind: "once" });
    write(...eventsFor([]).slice(0, 1));
    session.stop();
    session.stop();
    await session.settled();
    const stopped = last();
    expect(stopped).toMatchObject({ items: [], status: "cancelled" });
    await ask("And?", used(2), replying(answered("I do not know.")));
    await vi.waitFor(() => expect(texts().at(-1)).toBe("I do not know."));
    expect(sentCalls()).toMatchObject([{ name: "delete", approval_request_id: "mcpr_1", status: "failed" }]);
    await saved();
    expect(server.turns(id()).find((turn) => turn.id === stopped.id)?.items).toHaveLength(1);
    expect(session.failure.value).toBeNull();
  });

  it("that the server says were used, though their call went along, are told as a failure", async () => {
    await ask("Delete", replying(request("delete", "mcpr_1")));
    await approve("mcpr_1", used(2), used(2));
    await vi.waitFor(() => expect(session.failure.value?.failure.code).toBe("approval_used"));
    expect(server.requests).toHaveLength(3);
  });
});

describe("a function that the person declared", () => {
  it("is answered by hand", async () => {
    const tool = { type: "function", name: "get_weather", parameters: {} };
    await session.changeSettings({ functions: [tool] });
    await ask("Weather?", replying(call("call_1"), call("call_2")));
    expect(server.requests[0]?.tools).toEqual([tool]);
    await session.answerCall("call_1", "21");
    expect(server.requests).toHaveLength(1);
    server.answers.push(replying(answered("Warm.")));
    await session.answerCall("call_2", "22");
    await session.settled();
    expect(texts().at(-1)).toBe("Warm.");
    expect(session.branch.value).toHaveLength(4);
  });
});

describe("seals", () => {
  const sealed = (): Item => answered("Hi", { encrypted_content: "hs1.old" });

  it("that the server does not open are left out, once and for all, and it is told", async () => {
    await ask("One", replying(sealed()));
    await ask("Two", () => refusal(400, "invalid_encrypted_content", "input[1].encrypted_content"), replying(answered("2", { encrypted_content: "hs1.new" })));
    expect(server.requests).toHaveLength(3);
    expect(JSON.stringify(server.requests[2])).not.toContain("hs1");
    expect(last().details.warnings).toHaveLength(1);
    await ask("Three", replying(answered("3")));
    expect(server.requests).toHaveLength(4);
    expect(JSON.stringify(server.requests[3])).not.toContain("hs1.old");
    expect(JSON.stringify(server.requests[3])).toContain("hs1.new");
    expect(last().details.warnings).toBeUndefined();
  });

  it("are left out only once for an answer", async () => {
    const no = () => refusal(400, "invalid_encrypted_content", "input[1].encrypted_content");
    await ask("One", no, no);
    expect(session.failure.value?.failure.code).toBe("invalid_encrypted_content");
    expect(server.requests).toHaveLength(2);
  });
});

describe("saving", () => {
  it("that failed is told and tried again, without losing anything", async () => {
    await ask("One", replying(answered("1")));
    await saved();
    server.failing = { path: /turns/, status: 500 };
    await ask("Two", replying(answered("2")));
    await saved();
    expect(session.saving.value).toBe("failed");
    expect(session.saveFailure.value?.kind).toBe("server");
    expect(texts()).toEqual(["One", "1", "Two", "2"]);
    expect(server.turns(id())).toHaveLength(2);
    server.failing = null;
    session.retrySaving();
    await vi.waitFor(() => expect(session.saving.value).toBe("saved"));
    expect(texts(server.turns(id()))).toEqual(["One", "1", "Two", "2"]);
    expect(server.chats.get(id())?.leaf).toBe(last().id);
  });

  it("happens while an answer runs, and when the page closes", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "Date"] });
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Count");
    stream.write(...eventsFor([answered("One")]).slice(0, 3));
    await vi.waitFor(() => expect(session.running.value?.items.value.length).toBe(1));
    await vi.advanceTimersByTimeAsync(5000);
    vi.useRealTimers();
    await vi.waitFor(() => expect(texts(server.turns(id())).at(-1)).toBe("One"));
    expect(server.turns(id()).at(-1)?.status).toBe("in_progress");
    dispatchEvent(new Event("pagehide"));
    await vi.waitFor(() => expect(server.turns(id()).at(-1)?.status).toBe("cancelled"));
    expect(server.keptAlive).toHaveLength(1);
  });
});

describe("opening", () => {
  it("shows what was saved, at the branch that was left", async () => {
    await ask("Hello", replying(answered("One")));
    const first = last().id;
    server.answers.push(replying(answered("Two")));
    await session.regenerate(first);
    await session.settled();
    await saved();
    const chat = id();
    session.newChat();
    expect([session.chat.value, session.branch.value]).toEqual([null, []]);
    await session.openChat(chat);
    expect(texts()).toEqual(["Hello", "Two"]);
    await session.openChat(chat, first);
    expect(texts()).toEqual(["Hello", "One"]);
    session.newChat();
    await session.openChat(chat, first);
    expect(texts()).toEqual(["Hello", "One"]);
  });

  it("of a chat that is not there is told, and can be tried again", async () => {
    await session.openChat("chat_gone");
    expect(session.failure.value).toMatchObject({ doing: "loading", failure: { kind: "request", code: "not_found" } });
    expect(session.loading.value).toBe(false);
    server.chats.set("chat_gone", { id: "chat_gone", object: "chat", title: "Back", created_at: 1, updated_at: 1, leaf: null, settings: {}, turns: [] });
    await session.retry();
    expect(session.chat.value?.title).toBe("Back");
  });

  it("is tried again when the key that was missing is there", async () => {
    server.chats.set("chat_a", { id: "chat_a", object: "chat", title: "A", created_at: 1, updated_at: 1, leaf: null, settings: {}, turns: [] });
    server.failing = { path: /^v1\/chats\/chat_a$/, status: 401 };
    await session.openChat("chat_a");
    expect(session.failure.value?.failure.kind).toBe("key");
    server.failing = null;
    setKey("sk-right");
    await vi.waitFor(() => expect(session.chat.value?.id).toBe("chat_a"));
    expect(session.failure.value).toBeNull();
    setKey(null);
  });

  it("another chat lets an answer go on, and finds it again", async () => {
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Count");
    const chat = id();
    const events = eventsFor([answered("One")]);
    stream.write(...events.slice(0, 3));
    await vi.waitFor(() => expect(session.running.value?.items.value.length).toBe(1));
    await saved();
    session.newChat();
    expect(session.running.value).toBeNull();
    await session.openChat(chat);
    expect(session.running.value?.items.value[0]?.kind).toBe("final");
    session.newChat();
    stream.write(...events.slice(3));
    await vi.waitFor(() => expect(server.turns(chat).at(-1)?.status).toBe("completed"));
    expect(session.chat.value).toBeNull();
    await session.openChat(chat);
    expect(texts()).toEqual(["Count", "One"]);
  });

  it("finds an answer that ended while the chat was on its way", async () => {
    const stream = slowly();
    server.answers.push(stream.answer);
    await session.sendMessage("Count");
    const chat = id();
    const events = eventsFor([answered("One")]);
    stream.write(...events.slice(0, 3));
    await vi.waitFor(() => expect(session.running.value?.items.value.length).toBe(1));
    await saved();
    session.newChat();
    let arrive: (value?: unknown) => void = () => undefined;
    server.slow = { method: "GET", path: /^v1\/chats\//, until: new Promise((resolve) => (arrive = resolve)) };
    const opening = session.openChat(chat);
    await vi.waitFor(() => expect(server.asked.at(-1)).toBe(`GET v1/chats/${chat}`));
    stream.write(...events.slice(3));
    await vi.waitFor(() => expect(server.turns(chat).at(-1)?.status).toBe("completed"));
    arrive();
    await opening;
    expect(session.running.value).toBeNull();
    expect(last()).toMatchObject({ status: "completed" });
    expect(texts()).toEqual(["Count", "One"]);
  });

  it("shows what the server does not have yet", async () => {
    await ask("One", replying(answered("1")));
    await saved();
    const chat = id();
    server.failing = { path: /turns/, status: "gone" };
    await ask("Two", replying(answered("2")));
    await saved();
    session.newChat();
    await session.openChat(chat);
    expect(texts()).toEqual(["One", "1", "Two", "2"]);
    server.failing = null;
    session.retrySaving();
    await vi.waitFor(() => expect(session.saving.value).toBe("saved"));
  });

  it("shows what the server was told while the chat was on its way", async () => {
    await ask("One", replying(answered("1")));
    await saved();
    const chat = id();
    server.failing = { path: /turns/, status: "gone" };
    await ask("Two", replying(answered("2")));
    await saved();
    session.newChat();
    let arrive: (value?: unknown) => void = () => undefined;
    server.slow = { method: "GET", path: /^v1\/chats\//, until: new Promise((resolve) => (arrive = resolve)) };
    const opening = session.openChat(chat);
    await vi.waitFor(() => expect(server.asked.at(-1)).toBe(`GET v1/chats/${chat}`));
    await Promise.resolve(); // what comes is what the server had before
    server.failing = null;
    session.retrySaving();
    await vi.waitFor(() => expect(session.saving.value).toBe("saved"));
    arrive();
    await opening;
    expect(texts()).toEqual(["One", "1", "Two", "2"]);
  });

  it("another one while the first message's chat is created leaves no empty chat, and the message unsent", async () => {
    server.chats.set("chat_a", { id: "chat_a", object: "chat", title: "A", created_at: 1, updated_at: 1, leaf: null, settings: {}, turns: [] });
    let arrive: (value?: unknown) => void = () => undefined;
    server.slow = { method: "POST", path: /^v1\/chats$/, until: new Promise((resolve) => (arrive = resolve)) };
    const sending = session.sendMessage("Hello");
    await vi.waitFor(() => expect(server.chats.size).toBe(2));
    await session.openChat("chat_a");
    arrive();
    expect(await sending).toBe(false);
    await vi.waitFor(() => expect([...server.chats.keys()]).toEqual(["chat_a"]));
    expect(session.chat.value?.id).toBe("chat_a");
    expect(session.branch.value).toEqual([]);
  });

  it("fails, and a message makes a new chat whose address is its own", async () => {
    go({ view: "chat", chat: "chat_gone", turn: null }, true);
    await session.openChat("chat_gone");
    await ask("Hello", replying(answered("Hi.")));
    expect(route.value).toEqual({ view: "chat", chat: id(), turn: null });
  });

  it("takes the last of two that were asked for", async () => {
    for (const name of ["chat_a", "chat_b"]) server.chats.set(name, { id: name, object: "chat", title: name, created_at: 1, updated_at: 1, leaf: null, settings: {}, turns: [] });
    await Promise.all([session.openChat("chat_a"), session.openChat("chat_b")]);
    expect(session.chat.value?.id).toBe("chat_b");
  });
});

describe("settings", () => {
  it("of a new chat are created with it; later ones are saved", async () => {
    await session.changeSettings({ instructions: "Be brief.", effort: "low" });
    await ask("Hello", replying(answered("Hi.")));
    expect(server.chats.get(id())?.settings).toEqual({ instructions: "Be brief.", effort: "low" });
    expect(server.requests[0]).toMatchObject({ instructions: "Be brief.", reasoning: { effort: "low" } });
    await session.changeSettings({ effort: undefined });
    await saved();
    expect(server.chats.get(id())).toMatchObject({ settings: { instructions: "Be brief." } });
    expect(session.settings.value).not.toHaveProperty("effort");
  });

  it("are sent as they are shown: the effort that nobody chose is kept with the answer too", async () => {
    await ask("Hello", replying(answered("Hi.")));
    expect(server.requests[0]?.reasoning).toEqual({ effort: "medium" });
    expect(last().details.effort).toBe("medium");
  });

  it("of an answer stay with it: a continuation has the effort of its beginning", async () => {
    await session.changeSettings({ effort: "low" });
    await ask("Count", cutOff(answered("One", { status: "incomplete" })));
    await session.changeSettings({ effort: "high" });
    server.answers.push(cutOff(answered(", two", { status: "incomplete" })), replying(answered("Three")));
    await session.continueAnswer(last().id);
    await session.settled();
    await session.regenerate(last().id);
    await session.settled();
    expect(server.requests.map((each) => each.reasoning?.effort)).toEqual(["low", "low", "high"]);
    expect(last().details.effort).toBe("high");
  });
});
