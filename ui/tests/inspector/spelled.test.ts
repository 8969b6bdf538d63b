import { describe, expect, it } from "vitest";
import { bytesOf, groupTokens, hexOf, spellingOf, visible } from "../../src/inspector/spelled";
import { TABLE } from "./traces";

const shape = (ids: number[]) => groupTokens(ids, TABLE).map((group) => [group.start, group.ids.length, group.text]);

describe("groups of tokens", () => {
  it("are single tokens where no character is shared", () => {
    expect(shape([12194, 1354])).toEqual([
      [0, 1, "Hi"],
      [1, 1, " there"],
    ]);
  });

  it("hold together the tokens of one character", () => {
    expect(shape([12194, 9552, 99, 250, 1354])).toEqual([
      [0, 1, "Hi"],
      [1, 3, " 🦜"],
      [4, 1, " there"],
    ]);
  });

  it("end a broken character where something else begins", () => {
    expect(shape([9552, 12194])).toEqual([
      [0, 1, " �"],
      [1, 1, "Hi"],
    ]);
    expect(shape([9552, 99, 200007])).toEqual([
      [0, 2, " �"],
      [2, 1, "<|end|>"],
    ]);
    expect(shape([9552, 99])).toEqual([[0, 2, " �"]]);
  });

  it("keep bytes that go on from nothing apart", () => {
    expect(shape([99, 250])).toEqual([
      [0, 1, "�"],
      [1, 1, "�"],
    ]);
  });

  it("mark special tokens, and name ids that are none", () => {
    const [special, none, unknown] = groupTokens([200006, 999999, 7], TABLE);
    expect(special).toMatchObject({ isSpecial: true, text: "<|start|>" });
    expect(none).toMatchObject({ isSpecial: false, text: "(999999 is not a token)" });
    expect(unknown).toMatchObject({ isSpecial: false, text: "(7 is not a token)" });
  });

  it("lose no token and double none, whatever the order", () => {
    const ids = [12194, 9552, 99, 250, 1354, 200006, 999999];
    let seed = 1;
    for (let round = 0; round < 200; round++) {
      const list = Array.from({ length: 12 }, () => ids[(seed = (seed * 48271) % 2147483647) % ids.length] as number);
      const groups = groupTokens(list, TABLE);
      expect(groups.flatMap((group) => group.ids)).toEqual(list);
      groups.forEach((group, at) => expect(group.start).toBe(groups.slice(0, at).reduce((sum, one) => sum + one.ids.length, 0)));
    }
  });

  it("are not endless where every token leaves a character open", () => {
    const table = { "1": { bytes: "80f0", text: "��", special: false } };
    expect(groupTokens(new Array<number>(1000).fill(1), table).every((group) => group.ids.length <= 64)).toBe(true);
  });
});

describe("spelling", () => {
  it("shows bytes in pairs", () => {
    expect(hexOf(TABLE["9552"])).toBe("20 f0 9f");
    expect(hexOf(TABLE["99"])).toBe("a6");
    expect(hexOf(TABLE["999999"])).toBe("");
    expect(bytesOf("20f09f")).toEqual([0x20, 0xf0, 0x9f]);
  });

  it("makes what cannot be seen visible", () => {
    expect(visible("a b\n\t\r")).toBe("a·b↵⇥␍");
    expect(visible("\u200b\u202e\u0000")).toBe("⟨200B⟩⟨202E⟩⟨0000⟩");
    expect(visible("Zürich 🦜")).toBe("Zürich·🦜");
  });

  it("joins text between special tokens", () => {
    expect(spellingOf([200006, 1428, 1354, 200008], TABLE)).toEqual([
      { text: "<|start|>", isSpecial: true },
      { text: "user there", isSpecial: false },
      { text: "<|message|>", isSpecial: true },
    ]);
  });
});
