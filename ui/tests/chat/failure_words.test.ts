import { describe, expect, it } from "vitest";
import { Failure, failureFrom, type FailureKind } from "../../src/api/client";
import { failureWords } from "../../src/chat/failure_words";

const KINDS: FailureKind[] = ["gone", "key", "engine", "context", "busy", "request", "stopped", "server"];

describe("a failure in words", () => {
  it("is told apart by its kind", () => {
    const titles = KINDS.map((kind) => failureWords(new Failure(kind, "it broke")).title);
    expect(new Set(titles).size).toBe(KINDS.length);
  });

  it.each([
    ["gone", "retry"],
    ["key", "key"],
    ["engine", "retry"],
    ["context", "shorten"],
    ["busy", "retry"],
    ["server", "retry"],
  ] as const)("says what to do about %s", (kind, action) => {
    const words = failureWords(new Failure(kind, "the engine broke off"));
    expect(words.action).toBe(action);
    expect(words.what).toMatch(/\.$/);
  });

  it("offers nothing to press where an approval was used: the same would fail again", () => {
    const words = failureWords(new Failure("request", "decided before", "approval_used", "input[2].approval_request_id", 400));
    expect(words.action).toBe("none");
    expect(words.title).not.toBe(failureWords(new Failure("request", "x", "invalid_value", null, 400)).title);
  });

  it("has the server's own words as a sentence, and the place", () => {
    expect(failureWords(new Failure("engine", "the engine behind this server broke off")).what).toMatch(/^The engine behind this server broke off\. /);
    expect(failureWords(new Failure("request", "temperature is 9", "invalid_value", "temperature", 400)).what).toBe("Temperature is 9. (at temperature)");
    expect(failureWords(new Failure("server", "")).what).not.toMatch(/^ /);
  });

  it.each([
    ["engine_died", null, "engine"],
    ["engine_unreachable", 503, "engine"],
    ["engine_stalled", 504, "engine"],
    ["context_length_exceeded", 400, "context"],
    ["invalid_api_key", 401, "key"],
    ["rate_limit_exceeded", 429, "busy"],
    ["server_stopping", 503, "gone"],
    ["store_unavailable", 503, "server"],
    ["server_error", null, "server"],
    ["invalid_value", 400, "request"],
  ])("of the code %s with the status %s is of the kind %s", (code, status, kind) => {
    expect(failureFrom({ code, message: "" }, status).kind).toBe(kind);
  });
});
