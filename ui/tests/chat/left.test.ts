import { beforeEach, describe, expect, it } from "vitest";
import type { Turn } from "../../src/api/chats";
import { forgetLeft, keepLeft, takeLeft } from "../../src/chat/left";

const turn = (id: string, parent: string | null, status: Turn["status"] = "completed"): Turn => ({
  id, parent, role: "user", items: [], status, created_at: 1, details: {},
});
const ids = (turns: readonly Turn[]): string[] => turns.map((each) => each.id);

describe("what was left", () => {
  beforeEach(() => sessionStorage.clear());

  it("is what the server does not have, or has unfinished, and is given once", () => {
    keepLeft(new Map([["chat_1", [turn("turn_1", null), turn("turn_2", "turn_1", "cancelled"), turn("turn_3", "turn_2")]], ["chat_2", [turn("turn_9", null)]]]));
    expect(ids(takeLeft("chat_1", [turn("turn_1", null), turn("turn_2", "turn_1", "in_progress")]))).toEqual(["turn_2", "turn_3"]);
    expect(takeLeft("chat_1", [])).toEqual([]);
    expect(ids(takeLeft("chat_2", []))).toEqual(["turn_9"]);
  });

  it("is not shown behind a turn that is gone", () => {
    keepLeft(new Map([["chat_1", [turn("turn_2", "turn_1"), turn("turn_3", "turn_2")]]]));
    expect(takeLeft("chat_1", [turn("turn_0", null)])).toEqual([]);
  });

  it("is forgotten where the page comes back as it was, and never an error", () => {
    keepLeft(new Map([["chat_1", [turn("turn_1", null)]]]));
    forgetLeft();
    expect(takeLeft("chat_1", [])).toEqual([]);
    sessionStorage.setItem("harmonia.left.chat_1", "{");
    expect(takeLeft("chat_1", [])).toEqual([]);
  });
});
