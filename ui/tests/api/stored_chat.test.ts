import { describe, expect, it } from "vitest";
import { readChat } from "../../src/api/stored_chat";
import { textOf } from "../../src/chat/items";

const ODD = [null, 7, true, "text", [], [7], {}, { type: 7 }];
const message = { type: "message", role: "user", content: "Hi" };
const turn = (items: unknown, more: object = {}): object => ({
  id: "turn_1", parent: null, role: "user", items, status: "completed", created_at: 1, details: {}, ...more,
});
const chat = (...turns: unknown[]): object => ({
  id: "chat_1", object: "chat", title: "T", created_at: 1, updated_at: 1, leaf: "turn_1", settings: {}, turns,
});

const KNOWN: Record<string, object> = {
  message: { role: "assistant", content: [{ type: "output_text", text: "Hi", annotations: [] }] },
  reasoning: { content: [{ type: "reasoning_text", text: "Hm" }], summary: [] },
  function_call: { name: "f", call_id: "c", arguments: "{}" },
  function_call_output: { call_id: "c", output: "1" },
  mcp_call: { name: "f", server_label: "s", arguments: "{}", output: "1", error: null },
  mcp_list_tools: { server_label: "s", tools: [{ name: "f", input_schema: {} }] },
  mcp_approval_request: { name: "f", server_label: "s", arguments: "{}" },
  mcp_approval_response: { approval_request_id: "a", approve: true },
};

describe("a stored chat", () => {
  it("is read as it is where everything has its type", () => {
    const items = Object.entries(KNOWN).map(([type, fields]) => ({ type, ...fields }));
    const details = { model: "m", usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 }, item_s: { "0": 0.5 } };
    const whole = chat(turn(items, { details }));
    expect(readChat(whole)).toEqual(whole);
  });

  it("keeps items of types that nobody here knows", () => {
    const item = { type: "web_search_call", id: "w" };
    expect(readChat(chat(turn([item]))).turns[0]?.items).toEqual([item]);
  });

  it.each(Object.keys(KNOWN))("leaves out a %s whose fields have other types, and says so", (type) => {
    for (const [name, value] of Object.entries({ ...KNOWN[type], id: "i", status: "completed", encrypted_content: "e" })) {
      for (const odd of ODD) {
        if (odd === null || typeof odd === typeof value) continue;
        const [read] = readChat(chat(turn([{ type, ...KNOWN[type], [name]: odd }, message]))).turns;
        for (const item of read?.items ?? []) expect(typeof textOf(item)).toBe("string");
        if (typeof value === "string" && typeof odd !== "string") {
          expect(read?.items).toEqual([message]);
          expect(read?.details.warnings).toEqual(["1 item of this turn could not be read and is not shown"]);
        }
      }
    }
  });

  it.each(ODD.map((odd) => [JSON.stringify(odd), odd]))("is read whatever stands in the place of its parts: %s", (_, odd) => {
    for (const value of [
      odd, chat(odd), chat(turn(odd)), chat(turn([odd, message])), chat(turn([message], { details: odd })),
      { ...chat(turn([message])), settings: odd }, { ...chat(), turns: odd }, { ...chat(turn([message])), leaf: odd, title: odd },
      chat(turn([message], { status: odd, role: odd, created_at: odd })),
      chat(turn([message], { details: { usage: odd, warnings: odd, error: odd, sampled: odd, item_s: odd, total_s: odd } })),
    ]) {
      const read = readChat(value);
      expect(typeof read.title).toBe("string");
      for (const each of read.turns) {
        for (const item of each.items) expect(typeof textOf(item)).toBe("string");
        expect(Array.isArray(each.details.warnings ?? [])).toBe(true);
      }
    }
  });

  it("drops a turn that has no id, and details that cannot be read", () => {
    const read = readChat(chat({ items: [] }, turn([message], { details: { model: 7, total_s: 2 } })));
    expect(read.turns.map((each) => each.id)).toEqual(["turn_1"]);
    expect(read.turns[0]?.details).toEqual({ total_s: 2, warnings: ["1 detail of this turn could not be read and is not shown"] });
  });
});
