import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { draftFiles, keepDraft, keepFiles, readDraft } from "../../src/chat/draft";

beforeEach(() => sessionStorage.clear());
afterEach(() => vi.unstubAllGlobals());

it("keeps a draft for each chat, and for the one that is not there yet", () => {
  keepDraft(null, "new");
  keepDraft("chat_1", "one");
  expect([readDraft(null), readDraft("chat_1"), readDraft("chat_2")]).toEqual(["new", "one", ""]);
  keepDraft("chat_1", "");
  expect(sessionStorage.length).toBe(1);
});

it("keeps what storage does not take until the page is left", () => {
  const long = "x".repeat(600_000);
  keepDraft("chat_3", long);
  expect(readDraft("chat_3")).toBe(long);
  keepDraft("chat_3", "short");
  expect(readDraft("chat_3")).toBe("short");
  vi.stubGlobal("sessionStorage", null); // as where it is switched off: touching it fails
  keepDraft("chat_3", "typed");
  expect([readDraft("chat_3"), readDraft("chat_4")]).toEqual(["typed", ""]);
  keepDraft("chat_3", "");
  expect(readDraft("chat_3")).toBe("");
});

it("keeps the files of each chat apart", () => {
  const file = { name: "a.txt", text: "a" };
  keepFiles(null, [file]);
  expect([draftFiles(null), draftFiles("chat_1")]).toEqual([[file], []]);
  keepFiles(null, []);
  expect(draftFiles(null)).toEqual([]);
});
