import { describe, expect, it } from "vitest";
import type { SampledEntry } from "../../src/api/wire";
import { addSampled, damageWords } from "../../src/chat/sampled";

const entry = (faults: string[], first_item = 0, encrypted_content = "hs1.x"): SampledEntry => ({ faults, first_item, items: 1, encrypted_content });

describe("output that was damaged", () => {
  it("adds what a continuation says, at the places that its items have in the turn", () => {
    const made = addSampled([entry(["a"])], [entry(["b"]), entry(["c"], 2)], 3);
    expect(made.map((each) => [each.faults[0], each.first_item])).toEqual([["a", 0], ["b", 3], ["c", 5]]);
    expect(addSampled(undefined, undefined, 2)).toEqual([]);
  });

  it("keeps the codes where the seals are too large", () => {
    const made = addSampled([entry(["a"])], [entry(["b"], 0, "x".repeat(200_000))], 1);
    expect(made.map((each) => "encrypted_content" in each)).toEqual([true, false]);
    expect(made[1]?.faults).toEqual(["b"]);
  });

  it("says how often and what, each once", () => {
    expect(damageWords(undefined)).toBeNull();
    expect(damageWords([entry([])])).toBeNull();
    expect(damageWords([entry(["x.one"])])).toBe("The model's output was damaged in 1 place and was mended: x.one.");
    expect(damageWords([entry(["a", "b"]), entry(["a"])])).toBe("The model's output was damaged in 3 places and was mended: a, b.");
    expect(damageWords([entry(["a", "b", "c", "d", "e"])])).toContain("a, b, c, d, ….");
  });

  it("takes whatever an import brings", () => {
    expect(damageWords("x")).toBeNull();
    expect(damageWords([null, 1, { faults: 3 }])).toBeNull();
  });
});
