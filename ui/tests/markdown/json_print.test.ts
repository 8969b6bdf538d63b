import { describe, expect, test } from "vitest";
import { JsonPrinter, prettyJson } from "../../src/markdown/json_print";

describe("JSON over lines", () => {
  test.each<[string, string]>([
    ['{"a":1,"b":[true,null,"x"]}', '{\n  "a": 1,\n  "b": [\n    true,\n    null,\n    "x"\n  ]\n}'],
    ['{"n":12345678901234567890.1234567890e+400,"m":-0.0}', '{\n  "n": 12345678901234567890.1234567890e+400,\n  "m": -0.0\n}'],
    ['{"a":1,"a":2,"__proto__":{"x":[]}}', '{\n  "a": 1,\n  "a": 2,\n  "__proto__": {\n    "x": []\n  }\n}'],
    [' [ ] ', "[]"],
    ["{}", "{}"],
    ["12", "12"],
    ['"a\\"b{"', '"a\\"b{"'],
    ['{"a":"x\u202ey"}', '{\n  "a": "x\\u202ey"\n}'],
    ['[[1],[2]]', "[\n  [\n    1\n  ],\n  [\n    2\n  ]\n]"],
  ])("%j", (text, shown) => expect(prettyJson(text)).toBe(shown));

  test.each(["", "{", "[1,]", "{a:1}", "{'a':1}", "01", "1 2", "tru", "[1}", '{"a"}', '{"a":}', "[1", '"a', '"a\nb"', "+1", "1.", "{,}", "]", "[".repeat(300)])(
    "%j is no JSON",
    (text) => expect(prettyJson(text)).toBeNull(),
  );

  test("everything it takes for JSON is JSON, and means the same", () => {
    for (const text of ['{"a": [1, {"b": "c"}], "d": null}', "[1e5,-2.5E-3]", '"\\u0041"', "true", '[{}, [], {"": ""}]']) {
      expect(JSON.parse(prettyJson(text) ?? "")).toEqual(JSON.parse(text));
    }
  });

  test("chunking is invisible", () => {
    const text = '{"a": [1, 2.5, {"b\\"": "c\\\\"}], "d": null, "e": {}}';
    const printer = new JsonPrinter();
    let shown = "";
    for (const character of text) shown += printer.feed(character);
    expect(printer.isWhole()).toBe(true);
    expect(shown).toBe(prettyJson(text));
  });
});
