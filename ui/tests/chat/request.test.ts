import { describe, expect, it } from "vitest";
import { Failure } from "../../src/api/client";
import type { McpServer } from "../../src/api/server";
import type { Item } from "../../src/api/wire";
import { canContinue, isBadSeal, requestFor, withoutSeals, type Asking } from "../../src/chat/request";
import { answered, said, turn } from "./recorded";

const server = (label: string, tools: string[], error: string | null = null): McpServer => ({
  label,
  error,
  tools: tools.map((name) => ({ name, description: null, parameters: {}, approval: "run" })),
});
const question = turn("turn_q", null, "user", [said("Hello!")]);
const asked = (more: Partial<Asking>) => requestFor({ branch: [question], settings: {}, servers: [], ...more });
const thought = (more: Partial<Item> = {}): Item => ({ type: "reasoning", summary: [], status: "completed", encrypted_content: "hs1.a", ...more }) as Item;

describe("a request", () => {
  it("is stateless, streamed and sealed, and says no more than it must", () => {
    expect(asked({})).toEqual({ input: [said("Hello!")], store: false, stream: true, include: ["harmonia.encrypted_content"] });
  });

  it("has the settings of the chat; the effort of one answer goes before it", () => {
    const settings = { identity: " You are Ada. ", instructions: " Be brief. ", effort: "low" as const, temperature: 0, top_p: 0.9, max_output_tokens: 100 };
    expect(asked({ settings })).toMatchObject({ harmonia_identity: "You are Ada.", instructions: "Be brief.", reasoning: { effort: "low" }, temperature: 0, top_p: 0.9, max_output_tokens: 100 });
    expect(asked({ settings, effort: "high" }).reasoning).toEqual({ effort: "high" });
    expect(asked({ settings: { instructions: "  " } })).not.toHaveProperty("instructions");
    expect(asked({ settings: { identity: "  " } })).not.toHaveProperty("harmonia_identity");
  });

  it("sends items back as they came", () => {
    const items = [thought(), answered("Hi", { id: "msg_1", encrypted_content: "hs1.b" })];
    const branch = [question, turn("turn_a", "turn_q", "assistant", items), turn("turn_q2", "turn_a", "user", [said("And?")])];
    expect(asked({ branch }).input).toEqual([said("Hello!"), ...items, said("And?")]);
  });

  it("leaves out what is empty, and calls that were not made with their answers", () => {
    const call = (call_id: string, status: "completed" | "incomplete"): Item => ({ type: "function_call", name: "f", call_id, arguments: "{", status });
    const items = [
      thought({ encrypted_content: null }),
      answered("", { status: "incomplete" }),
      call("call_1", "completed"),
      call("call_2", "incomplete"),
      { type: "mcp_call", name: "t", server_label: "s", arguments: "", status: "in_progress" } as Item,
    ];
    const output = (call_id: string): Item => ({ type: "function_call_output", call_id, output: "" });
    const response: Item = { type: "mcp_approval_response", approval_request_id: "mcpr_gone", approve: true };
    const branch = [
      question,
      turn("turn_f", "turn_q", "assistant", [], { status: "failed" }),
      turn("turn_a", "turn_f", "assistant", items, { status: "incomplete" }),
      turn("turn_u", "turn_a", "user", [output("call_1"), output("call_2"), response]),
    ];
    expect(asked({ branch }).input).toEqual([said("Hello!"), items[2], output("call_1")]);
  });

  it("sends the lists of servers' tools back, so that they are not listed again", () => {
    const listed: Item = { type: "mcp_list_tools", id: "mcpl_1", status: "completed", server_label: "s", tools: [{ name: "t" }] };
    const cut: Item = { ...listed, id: "mcpl_2", status: "incomplete", tools: [] };
    const stopped = turn("turn_a", "turn_q", "assistant", [listed, cut], { status: "cancelled" });
    expect(asked({ branch: [question, stopped] }).input).toEqual([said("Hello!"), listed]);
    // There is nothing in it to go on with.
    expect(canContinue(stopped)).toBe(false);
  });

  it("continues an item that is unfinished; behind a whole one the model goes on by itself", () => {
    const cut = turn("turn_a", "turn_q", "assistant", [answered("One,", { status: "incomplete" })], { status: "incomplete" });
    expect(asked({ branch: [question, cut], continues: true }).harmonia_continue).toBe(true);
    expect(asked({ branch: [question, cut] })).not.toHaveProperty("harmonia_continue");
    const silent = turn("turn_a", "turn_q", "assistant", [thought()], { status: "incomplete" });
    expect(asked({ branch: [question, silent], continues: true })).not.toHaveProperty("harmonia_continue");
    expect([canContinue(cut), canContinue(silent), canContinue(question)]).toEqual([true, true, false]);
    expect(canContinue({ ...cut, status: "completed" })).toBe(false);
    expect(canContinue({ ...cut, items: [] })).toBe(false);
    expect(canContinue({ ...cut, status: "in_progress" })).toBe(true);
  });
});

describe("tools of a request", () => {
  const servers = [server("weather", ["temperature", "forecast"]), server("files", ["read"]), server("down", [], "no answer")];
  const tool = { type: "function", name: "f", parameters: {} };

  it("are not named where all are on", () => {
    expect(asked({ servers })).not.toHaveProperty("tools");
    expect(asked({ servers, settings: { tools_off: ["gone", "files.gone"], functions: [tool] } }).tools).toEqual([tool]);
  });

  it("are those of the servers that are on", () => {
    expect(asked({ servers, settings: { tools_off: ["files"], functions: [tool] } }).tools).toEqual([{ type: "mcp", server_label: "weather" }, tool]);
    expect(asked({ servers, settings: { tools_off: ["weather.forecast"] } }).tools).toEqual([
      { type: "mcp", server_label: "weather", allowed_tools: ["temperature"] },
      { type: "mcp", server_label: "files" },
    ]);
  });

  it("are none where all are off; declared functions stay", () => {
    const off = { tools_off: ["files.read", "weather"] };
    expect(asked({ servers, settings: off })).toMatchObject({ tool_choice: "none" });
    const some = asked({ servers, settings: { ...off, functions: [tool] } });
    expect(some).not.toHaveProperty("tool_choice");
    expect(some.tools).toEqual([{ type: "mcp", server_label: "weather", allowed_tools: [] }, tool]);
  });
});

describe("seals that the server does not open", () => {
  const items = [thought(), thought({ content: [{ type: "reasoning_text", text: "Hm." }] } as Partial<Item>), answered("Hi", { encrypted_content: "hs1.b" })];
  const branch = [question, turn("turn_a", "turn_q", "assistant", items)];

  it("are known by the code", () => {
    expect(isBadSeal(new Failure("request", "", "invalid_encrypted_content", "input[1].encrypted_content", 400))).toBe(true);
    expect(isBadSeal(new Failure("request", "", "invalid_value", null, 400))).toBe(false);
    expect(isBadSeal(new Failure("request", "", "invalid_encrypted_content", "input[2].approval_request_id", 400))).toBe(false);
  });

  it("are left out, with the reasoning that is nothing else", () => {
    const bare = withoutSeals(asked({ branch })).input;
    expect(bare.map((item) => item.type)).toEqual(["message", "reasoning", "message"]);
    expect(JSON.stringify(bare)).not.toContain("hs1");
    expect(asked({ branch, unsealed: new Set(["turn_a"]) }).input).toEqual(bare);
    expect(items[0]?.encrypted_content).toBe("hs1.a");
  });
});
