import { describe, expect, it } from "vitest";
import { checkArguments } from "../../src/chat/schema_check";

const weather = {
  type: "object",
  properties: {
    city: { type: "string" },
    unit: { enum: ["celsius", "fahrenheit"] },
    days: { type: "array", items: { type: "integer" } },
    note: { anyOf: [{ type: "string" }, { type: "null" }] },
  },
  required: ["city"],
  additionalProperties: false,
};
const paths = (text: string): string[] => checkArguments(text, weather).problems.map((problem) => problem.path);

describe("checkArguments", () => {
  it("says that arguments fit", () => {
    const check = checkArguments('{"city": "Paris", "unit": "celsius", "days": [1, 2], "note": null}', weather);
    expect(check).toEqual({ verdict: "fits", problems: [], unchecked: [] });
  });

  it("names the place of each problem", () => {
    expect(paths('{"unit": "kelvin", "days": [1, "two", 2.5], "more": 1, "note": 3}')).toEqual(["city", "unit", "days[1]", "days[2]", "more", "note"]);
  });

  it("tells a wrong type of the whole", () => {
    expect(checkArguments("[]", weather).problems).toEqual([{ path: "", message: "expected an object, found an array" }]);
  });

  it("takes an integer for a number, not the other way around", () => {
    expect(checkArguments("1", { type: "number" }).verdict).toBe("fits");
    expect(checkArguments("1.5", { type: "integer" }).verdict).toBe("misfits");
    expect(checkArguments("1.0", { type: "integer" }).verdict).toBe("fits");
  });

  it("takes a list of types", () => {
    expect(checkArguments("null", { type: ["string", "null"] }).verdict).toBe("fits");
    expect(checkArguments("1", { type: ["string", "null"] }).problems[0]?.message).toBe("expected a string or null, found an integer");
  });

  it("says what it did not look at, and never matches a pattern", () => {
    const schema = { type: "string", pattern: "(a+)+$", minLength: 3, description: "a word" };
    expect(checkArguments('"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"', schema)).toEqual({ verdict: "unchecked", problems: [], unchecked: ["pattern", "minLength"] });
  });

  it("is not sure where a form that is not checked may fit", () => {
    const schema = { anyOf: [{ type: "string" }, { $ref: "#/$defs/thing" }] };
    expect(checkArguments("{}", schema)).toEqual({ verdict: "unchecked", problems: [], unchecked: ["$ref"] });
    expect(checkArguments('"x"', schema).verdict).toBe("fits");
  });

  it("reads arguments that are no JSON as a misfit", () => {
    expect(checkArguments('{"city": ', weather).problems).toEqual([{ path: "", message: "not valid JSON" }]);
  });

  it("says that a tool has no schema", () => {
    expect(checkArguments("{}", null).verdict).toBe("unchecked");
  });

  it("is not led astray by names that every object has", () => {
    const check = checkArguments('{"__proto__": 1, "constructor": 2}', { type: "object", properties: {}, required: ["toString"], additionalProperties: false });
    expect(check.problems.map((problem) => problem.path)).toEqual(["toString", "__proto__", "constructor"]);
  });

  it("compares constants and choices by their value", () => {
    expect(checkArguments('{"b": [1], "a": null}', { const: { a: null, b: [1] } }).verdict).toBe("fits");
    expect(checkArguments("[1, 2]", { enum: [[1], [2, 1]] }).verdict).toBe("misfits");
  });

  it("comes to an end in a deep schema and with many problems", () => {
    let schema: Parameters<typeof checkArguments>[1] = { type: "string" };
    let text = '"x"';
    for (let depth = 0; depth < 200; depth += 1) {
      schema = { type: "array", items: schema };
      text = `[${text}]`;
    }
    expect(checkArguments(text, schema).unchecked).toEqual(["what is deeper than 64 levels"]);
    expect(checkArguments(JSON.stringify(Array(1000).fill(1)), { items: { type: "string" } }).problems).toHaveLength(20);
  });
});
