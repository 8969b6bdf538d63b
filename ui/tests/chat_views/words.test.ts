import { describe, expect, it } from "vitest";
import { beginning, channelWords, contextUse, incompleteWords, inPercent, inSeconds, promptWords, speedOf, thoughtWords, tooLongWords } from "../../src/chat/views/words";

const usage = { input_tokens: 100, output_tokens: 50, total_tokens: 150 };

describe("words", () => {
  it("says times as people do", () => {
    expect([0.04, 3.24, 9.99, 42.4, 59.6, 65].map(inSeconds)).toEqual(["under 0.1 s", "3.2 s", "10.0 s", "42 s", "1 min 0 s", "1 min 5 s"]);
  });

  it("never rounds to nothing or to all", () => {
    expect([0, 0.001, 0.425, 0.997, 1].map(inPercent)).toEqual(["0 %", "under 1 %", "43 %", "99 %", "100 %"]);
  });

  it("tells a thought while it runs and afterwards", () => {
    expect(thoughtWords({ isRunning: true, seconds: 2, tokens: null })).toBe("Thinking for 2.0 s …");
    expect(thoughtWords({ isRunning: false, seconds: 3.2, tokens: { count: 214, estimated: false } })).toBe("Thought for 3.2 s, 214 tokens");
    expect(thoughtWords({ isRunning: false, seconds: 3.2, tokens: { count: 210, estimated: true } })).toBe("Thought for 3.2 s, about 210 tokens");
    expect(thoughtWords({ isRunning: false, seconds: null, tokens: null })).toBe("Thought");
    expect(thoughtWords({ isRunning: false, seconds: 0.04, tokens: null })).toBe("Thought briefly");
  });

  it("has words for every reason of the API, and for one that it does not know", () => {
    for (const reason of ["max_output_tokens", "max_tool_calls", "time_limit", "no_visible_output", "uncertain_call", undefined]) {
      expect(incompleteWords(reason)).not.toContain("_");
    }
    expect(incompleteWords("some_new_reason")).toContain("some new reason");
  });

  it("lists channels in the order of an answer, strangers last", () => {
    const channels = { harmonia_channels: { other: 1, final: 34, analysis: 1200, calls: 0 } };
    expect(channelWords({ ...usage, ...channels })).toBe("reasoning 1,200, answer 34, other 1");
    // As chats have it that an older page saved.
    expect(channelWords({ ...usage, output_tokens_details: channels })).toBe("reasoning 1,200, answer 34, other 1");
    expect(channelWords({ ...usage, output_tokens_details: { reasoning_tokens: 20 } })).toBe("reasoning 20, other 30");
    expect(channelWords(usage)).toBeNull();
  });

  it("says a speed that was measured", () => {
    expect(speedOf({ spoken_s: 1, spoken_tokens: 50 })).toBe(50);
    expect(speedOf({ usage })).toBeNull();
    expect(speedOf({ spoken_s: 1, spoken_tokens: 1 })).toBeNull();
  });

  it("tells the share of the context, where it is known", () => {
    expect(contextUse(usage, 1500)).toEqual({ used: 150, of: 1500, share: 0.1 });
    expect(contextUse(usage, null).share).toBeNull();
    expect(contextUse(usage, 100).share).toBe(1.5);
    expect(promptWords(1200, 131_072)).toBe("about 1,200 tokens, under 1 % of the context");
    expect(promptWords(1, null)).toBe("about 1 token");
    expect(promptWords(760, 700)).toBe("about 760 tokens, 109 % of the context");
    expect(promptWords(650, 700, false)).toBe("650 tokens, 93 % of the context, 50 left");
    expect(tooLongWords(760, 700)).toContain("about 760 tokens, but the model reads at most 700");
  });

  it("cuts between words", () => {
    expect(beginning("short  text\n", 20)).toBe("short text");
    expect(beginning("one two three four", 10)).toBe("one two …");
    expect(beginning("x".repeat(50), 10)).toBe(`${"x".repeat(10)} …`);
  });
});
