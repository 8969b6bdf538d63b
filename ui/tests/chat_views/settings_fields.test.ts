import { describe, expect, it } from "vitest";
import type { McpServer } from "../../src/api/server";
import { isOn, readFunctions, readNumber, switched } from "../../src/chat/views/settings_fields";

const tool = (name: string) => ({ name, description: null, parameters: {}, approval: "ask" as const });
const server: McpServer = { label: "files", error: null, tools: [tool("read"), tool("write"), tool("list")] };

describe("readNumber", () => {
  it("takes numbers in range, and nothing for the engine's own", () => {
    expect(readNumber("temperature", " 0,7 ")).toEqual({ value: 0.7 });
    expect(readNumber("top_p", "")).toEqual({ value: null });
    for (const text of ["3", "-1", "warm", "NaN"]) expect(readNumber("temperature", text)).toHaveProperty("fault");
    expect(readNumber("max_output_tokens", "1.5")).toHaveProperty("fault");
  });
});

describe("readFunctions", () => {
  it("takes a list, one alone, and the form of Chat Completions", () => {
    const plain = { type: "function", name: "f", parameters: { type: "object" } };
    for (const text of [JSON.stringify([plain]), JSON.stringify(plain), JSON.stringify([{ type: "function", function: { name: "f", parameters: { type: "object" } } }])]) {
      expect(readFunctions(text)).toEqual({ functions: [plain] });
    }
    expect(readFunctions("  ")).toEqual({ functions: [] });
  });

  it("says what is wrong", () => {
    for (const text of ["{", "[1]", '[{"name": "two words"}]', '[{"name": "f", "parameters": 3}]', '[{"name": "f"}, {"name": "f"}]']) {
      expect(readFunctions(text)).toHaveProperty("fault");
    }
  });
});

describe("switched", () => {
  it("switches a server, and forgets what was said of its tools", () => {
    expect(switched(["files.read", "web"], server, null, false)).toEqual(["web", "files"]);
    expect(switched(["files", "web"], server, null, true)).toEqual(["web"]);
  });

  it("switches one tool", () => {
    expect(switched(undefined, server, "read", false)).toEqual(["files.read"]);
    expect(switched(["files.read"], server, "read", true)).toEqual([]);
  });

  it("leaves the other tools of a server that was off where they were", () => {
    const off = switched(["files"], server, "read", true);
    expect(["read", "write", "list"].map((name) => isOn(off, "files", name))).toEqual([true, false, false]);
    expect(isOn(off, "files", null)).toBe(true);
  });
});
