import { describe, expect, it } from "vitest";
import type { Item } from "../../src/api/wire";
import { editablePlaces, rewritten } from "../../src/chat/views/edited";

const items: Item[] = [
  { type: "reasoning", encrypted_content: "sealed", content: [{ type: "reasoning_text", text: "Hm." }] },
  { type: "message", role: "assistant", phase: "commentary", content: [{ type: "output_text", text: "I will look." }], encrypted_content: "s" },
  { type: "mcp_call", name: "read", server_label: "files", arguments: "{}" },
  { type: "message", role: "assistant", phase: "final_answer", content: [{ type: "output_text", text: "Yes." }], encrypted_content: "t", status: "incomplete" },
];

describe("editing an answer", () => {
  it("offers its texts, and reasoning that is shown", () => {
    expect(editablePlaces(items).map((place) => [place.at, place.label])).toEqual([[0, "Reasoning"], [1, "Note"], [3, "Answer"]]);
    expect(editablePlaces([{ type: "reasoning", encrypted_content: "sealed" }])).toEqual([]);
  });

  it("takes the seal off what was changed only", () => {
    const edited = rewritten(items, new Map([[0, "Hm."], [1, "I will look."], [3, "No."]]));
    expect(edited.slice(0, 3)).toEqual(items.slice(0, 3));
    expect(edited[3]).toMatchObject({ content: [{ text: "No." }], status: "completed" });
    expect(edited[3]?.encrypted_content).toBeUndefined();
  });
});
