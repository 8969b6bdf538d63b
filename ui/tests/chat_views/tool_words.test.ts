import { describe, expect, it } from "vitest";
import type { ServerInfo } from "../../src/api/server";
import { callWords, checkWords, decidedWords, isJson, jsonFault, pretty, schemaOf } from "../../src/chat/views/tool_words";

const parameters = { type: "object" };
const info = { mcp_servers: [{ label: "files", error: null, tools: [{ name: "read", description: null, parameters, approval: "ask" }] }] } as unknown as ServerInfo;

describe("tool words", () => {
  it("tells every state apart", () => {
    const result = { text: "", failed: true, by: "tool" as const };
    const said = [
      callWords({ state: "running", isWriting: true, result: null }),
      callWords({ state: "running", isWriting: false, result: null }),
      callWords({ state: "waiting", isWriting: false, result: null }),
      callWords({ state: "done", isWriting: false, result: null }),
      callWords({ state: "failed", isWriting: false, result }),
      callWords({ state: "refused", isWriting: false, result: null }),
      callWords({ state: "done", isWriting: false, result: { text: "", failed: false, by: "person" } }),
    ];
    expect(said).toEqual(["writing arguments …", "running …", "waiting for you", "done", "failed", "refused", "answered by you"]);
  });

  it("tells every decision apart", () => {
    const kinds = ["approved", "edited", "answered", "refused"] as const;
    expect(new Set([null, ...kinds.map((kind) => ({ kind, text: null }))].map(decidedWords)).size).toBe(5);
  });

  it("finds the schema of a tool and of a declared function", () => {
    expect(schemaOf(info, undefined, "files", "read")).toBe(parameters);
    expect(schemaOf(info, undefined, "files", "write")).toBeUndefined();
    expect(schemaOf(info, [null, { name: "f", parameters }], null, "f")).toBe(parameters);
    expect(schemaOf(null, undefined, "files", "read")).toBeUndefined();
  });

  it("says what was not checked", () => {
    expect(checkWords({ verdict: "unchecked", problems: [], unchecked: ["pattern", "format"] })).toContain("Not checked: pattern, format.");
  });

  it("wants an object for arguments", () => {
    expect(jsonFault('{"a": 1}')).toBeNull();
    expect(jsonFault("[1]")).not.toBeNull();
    expect(jsonFault("{")).not.toBeNull();
  });

  it("makes JSON readable and leaves other text alone", () => {
    expect(pretty('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
    expect(pretty("{ broken")).toBe("{ broken");
    expect([isJson(" [1]"), isJson("{}"), isJson("12"), isJson("{x}")]).toEqual([true, true, false, false]);
  });
});
