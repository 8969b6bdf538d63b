import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { InspectedMessage, Inspection, InspectInput } from "../../src/api/inspect";
import * as edit from "../../src/inspector/tools/edit_state";
import * as scrub from "../../src/inspector/tools/scrub_state";
import { closeInspection, input, inspection, origin } from "../../src/inspector/state";

interface Asked {
  path: string;
  body: Record<string, unknown>;
}

let asked: Asked[] = [];
let answers: Record<string, (body: Record<string, unknown>) => unknown> = {};

beforeEach(() => {
  asked = [];
  vi.stubGlobal("fetch", async (address: string, init: RequestInit) => {
    init.signal?.throwIfAborted();
    const path = new URL(address).pathname.replace(/^.*\/v1\/harmony\//, "");
    const body = JSON.parse(String(init.body)) as Record<string, unknown>;
    asked.push({ path, body });
    return new Response(JSON.stringify(answers[path]?.(body) ?? {}), { status: 200 });
  });
});
afterEach(() => {
  closeInspection();
  vi.unstubAllGlobals();
});

const USER = "<|start|>user<|message|>Hi<|end|>";
const FINAL = "<|start|>assistant<|channel|>final<|message|>Ho<|end|>";

function message(index: number, text: string, start: number, token: number | null): InspectedMessage {
  const body = text.indexOf("<|message|>") + 11;
  const end = text.length - 7;
  const span = (from: number, to: number) => ({ start_token: token, end_token: token, start_char: start + from, end_char: start + to });
  return {
    index, role: index === 0 ? "user" : "assistant", name: null, channel: index === 0 ? null : "final", recipient: null,
    content_type: null, content: text.slice(body, end), stop: "end", source: "", trust: "", forged: false, faults: [],
    spans: { header: span(0, body), body: span(body, end) }, flags: [], skipped: [], tokens: { header: 1, body: 1, stop: 1 },
    ids: { header: [index * 10], body: [index * 10 + 1], stop: [index * 10 + 2] },
  };
}

function inspected(text: string, isIds: boolean): Inspection {
  const messages = [message(0, USER, 0, isIds ? 0 : null), message(1, FINAL, USER.length, isIds ? 3 : null)];
  return {
    input: isIds ? "tokens" : "text", taken_for: "", notes: [], characters: text.length, tokens: 6, counts_are_exact: isIds, messages,
    outside: [], turns: [], channels: [], diagnostics: [], diagnostics_total: 0, strict: null, text, token_table: {},
  };
}

function open(isIds: boolean): void {
  const text = USER + FINAL;
  input.value = isIds ? { tokens: [0, 1, 2, 10, 11, 12] } : { text, role: "assistant" };
  origin.value = { kind: "input" };
  inspection.value = inspected(text, isIds);
  answers = {
    inspect: () => inspected(text, isIds),
    tokenize: (body) => ({ tokens: [...String(body["text"])].map((sign) => sign.charCodeAt(0)) }),
    render: () => ({ tokens: [7, 7], text: null, spans: [] }),
  };
}

const settled = () => vi.waitFor(() => expect(edit.isBusy.value).toBe(false));

test("a text is encoded and inspected as text, with what was said of it", async () => {
  open(false);
  edit.change({ kind: "text", text: `${USER}!` });
  await settled();
  expect(asked.map(({ path }) => path)).toEqual(["tokenize", "tokenize", "inspect"]);
  expect(asked[2]?.body).toMatchObject({ text: `${USER}!`, as: "text", role: "assistant" });
  expect(edit.outcome.value?.first).toBe(USER.length);
});

test("of ids only what changed is encoded, and the rest is sent as it was", async () => {
  open(true);
  edit.change({ kind: "text", text: `${USER.replace("Hi", "Oh")}${FINAL}` });
  await settled();
  expect(asked[0]).toEqual({ path: "tokenize", body: { text: USER.replace("Hi", "Oh"), special: true } });
  expect((asked[1]?.body as InspectInput).tokens?.slice(-3)).toEqual([10, 11, 12]);
});

test("a conversation is rendered, so that what is typed stays text", async () => {
  open(true);
  const typed = { role: "user", name: null, channel: null, recipient: null, content_type: null, content: "<|end|>", stop: "end" } as const;
  edit.change({ kind: "conversation", messages: [typed] });
  await settled();
  expect(asked.map(({ path }) => path)).toEqual(["render", "inspect"]);
  expect(asked[0]?.body).toMatchObject({ format: "harmony-json", messages: [{ role: "user", content: [{ type: "text", text: "<|end|>" }] }] });
  expect(asked[1]?.body).toMatchObject({ tokens: [7, 7] });
});

test("undo asks again about what was there, and another trace begins anew", async () => {
  open(false);
  edit.change({ kind: "text", text: "x" });
  await settled();
  edit.stepBack();
  await settled();
  expect(edit.outcome.value?.first).toBeNull();
  open(true);
  expect(edit.history.value.past).toEqual([]);
  expect(edit.outcome.value).toBeNull();
});

test("a text is replayed by the tokens that it encodes to, or by its characters", async () => {
  open(false);
  answers["replay"] = (body) => ({ total: 3, unit: body["tokens"] === undefined ? "characters" : "tokens", start: 0, steps: [], closing: [] });
  await scrub.fetchAround();
  expect(asked.map(({ path }) => path)).toEqual(["tokenize", "inspect", "replay"]);
  expect(asked[2]?.body).toMatchObject({ role: "assistant", start: 0, count: 1000 });
  expect(asked[2]?.body).not.toHaveProperty("text");
  scrub.byTokens.value = false;
  asked = [];
  await scrub.fetchAround();
  expect(asked).toMatchObject([{ path: "replay", body: { text: USER + FINAL } }]);
  expect(scrub.windows.value?.unit).toBe("characters");
  scrub.byTokens.value = true;
});
