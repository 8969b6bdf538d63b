import { describe, expect, it } from "vitest";
import { Failure } from "../../src/api/client";
import { failureWords } from "../../src/chat/failure_words";
import { madeWords } from "../../src/chat/views/tool_words";
import { speedOf } from "../../src/chat/views/words";
import { formatWords } from "../../src/parts/format_words";
import { sentence } from "../../src/parts/sentence";
import { timesOfTwins } from "../../src/shell/days";

describe("words for people", () => {
  it("are sentences, also of the server's messages", () => {
    expect(["the API key is not known", "Done.", " why? ", ""].map(sentence)).toEqual(["The API key is not known.", "Done.", "why?".replace("w", "W"), ""]);
  });

  it("name formats as people do", () => {
    expect(formatWords("chat, harmonia-chat")).toBe("Chat Completions JSON, Chat exported here");
    expect(formatWords("something-new")).toBe("something-new");
  });

  it("tell a server that was stopped and an engine that broke off from the rest", () => {
    expect(failureWords(new Failure("gone", "", "server_stopping")).title).toBe("The server was stopped");
    expect(failureWords(new Failure("engine", "", "engine_died")).title).toBe("The engine stopped in the middle");
    expect(failureWords(new Failure("engine", "", "engine_stalled")).title).toBe("The model's engine does not answer");
  });

  it("say what was decided about a call and what became of it", () => {
    expect(madeWords(null, "done")).toBe("done");
    expect(madeWords("allowed by you", "done")).toBe("allowed by you, done");
    expect(madeWords("answered by you", "answered by you")).toBe("answered by you");
  });

  it("leave out a speed that is not measured", () => {
    expect(speedOf({ spoken_tokens: 50, spoken_s: 0.05 })).toBeNull();
    expect(speedOf({ spoken_tokens: 19, spoken_s: 1 })).toBeNull();
    expect(speedOf({ spoken_tokens: 50, spoken_s: 1 })).toBe(50);
  });

  it("give chats of the same title their times, and no others", () => {
    const now = 1_700_000_000;
    const chats = [{ id: "a", title: "Hi", updated_at: now }, { id: "b", title: "Hi", updated_at: now - 200_000 }, { id: "c", title: "Yo", updated_at: now }];
    const times = timesOfTwins(chats, now);
    expect([...times.keys()]).toEqual(["a", "b"]);
    expect(times.get("a")).toMatch(/^\d\d:\d\d:\d\d$/);
    expect(times.get("b")).toMatch(/^\d+ \w+, \d\d:\d\d:\d\d$/);
  });
});
