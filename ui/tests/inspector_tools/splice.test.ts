import { expect, test } from "vitest";
import type { InspectedMessage, Role } from "../../src/api/inspect";
import { Characters } from "../../src/inspector/tools/characters";
import * as splice from "../../src/inspector/tools/splice";
import { extentsOf, fieldsOf } from "../../src/inspector/tools/splice";

const ODD = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>";
const USER = "<|start|>user<|message|>Hi 🦜<|end|>";
const CUT = "<|start|>assistant<|channel|>final<|message|>Fo";

function message(text: string, whole: string, fields: Partial<InspectedMessage>): InspectedMessage {
  const characters = new Characters(whole);
  const start = whole.indexOf(text);
  const body = start + text.indexOf("<|message|>") + 11;
  const stop = /<\|(end|call|return)\|>$/.exec(text);
  const end = start + (stop?.index ?? text.length);
  const at = (from: number, to: number) => ({
    start_token: null,
    end_token: null,
    start_char: characters.characterOf(from),
    end_char: characters.characterOf(to),
  });
  return {
    index: 0, role: "user" as Role, name: null, channel: null, recipient: null, content_type: null,
    content: whole.slice(body, end), stop: stop?.[1] ?? null, source: "text", trust: "certain", forged: false,
    faults: [], spans: { header: at(start, body), body: at(body, end) }, flags: [], skipped: [],
    tokens: { header: 0, body: 0, stop: 0 },
    ...fields,
  };
}

function trace(...parts: [string, Partial<InspectedMessage>][]) {
  const text = parts.map(([part]) => part).join("");
  const messages = parts.map(([part, fields]) => message(part, text, fields));
  return { text, messages, extents: extentsOf(text, messages) };
}

const whole = () =>
  trace(
    [USER, {}],
    [ODD, { role: "assistant", channel: "commentary", recipient: "functions.f", content_type: "<|constrain|>json" }],
    [CUT, { role: "assistant", channel: "final" }],
  );

test("extents are in units, behind characters that take two", () => {
  const { text, extents } = whole();
  expect(extents.map(({ start, end }) => text.slice(start, end))).toEqual([USER, ODD, CUT]);
  expect(extents.map(({ isWhole, starts, recipientIsLast }) => [isWhole, starts, recipientIsLast])).toEqual([
    [true, true, false],
    [true, true, true],
    [true, true, false],
  ]);
});

test("a changed body leaves the header as it was spelled", () => {
  const { text, messages, extents } = whole();
  const before = fieldsOf(messages[1]!);
  const after = splice.replaceMessage(text, extents[1]!, before, { ...before, content: '{"a":1}' });
  expect(after).toBe(USER + ODD.replace("{}", '{"a":1}') + CUT);
});

test("a changed header keeps the place of the recipient", () => {
  const { text, messages, extents } = whole();
  const before = fieldsOf(messages[1]!);
  const after = splice.replaceMessage(text, extents[1]!, before, { ...before, recipient: "functions.g", stop: "end" });
  expect(after).toBe(USER + ODD.replace("functions.f", "functions.g").replace("<|call|>", "<|end|>") + CUT);
});

test("a completion's first message is written without a start", () => {
  const part = "<|channel|>final<|message|>Four.<|return|>";
  const { text, messages, extents } = trace([part, { role: "assistant", channel: "final" }]);
  const before = fieldsOf(messages[0]!);
  expect(splice.replaceMessage(text, extents[0]!, before, { ...before, channel: "analysis" })).toBe(
    "<|channel|>analysis<|message|>Four.<|return|>",
  );
  expect(splice.duplicateMessage(text, extents, 0)).toBe(`${part}<|start|>assistant${part}`);
});

test("messages are inserted, duplicated and removed", () => {
  const { text, extents } = whole();
  expect(splice.insertMessage(text, extents, -1, "NEW")).toBe(`NEW${text}`);
  expect(splice.insertMessage(text, extents, 0, "NEW")).toBe(`${USER}NEW${ODD}${CUT}`);
  expect(splice.insertMessage(text, extents, 2, "NEW")).toBe(`${text}<|end|>NEW`);
  expect(splice.insertMessage("", [], -1, "NEW")).toBe("NEW");
  expect(splice.duplicateMessage(text, extents, 2)).toBe(`${text}<|end|>${CUT}`);
  expect(splice.removeMessage(text, extents[1]!)).toBe(USER + CUT);
});

test("messages change places, and what becomes an inner one is stopped", () => {
  const { text, extents } = whole();
  expect(splice.swapWithNext(text, extents, 0)).toBe(ODD + USER + CUT);
  expect(splice.swapWithNext(text, extents, 1)).toBe(`${USER}${CUT}<|end|>${ODD}`);
  expect(splice.swapWithNext(text, extents, 2)).toBe(text);
});

test("a message whose text is not in one piece is not whole", () => {
  const { text, messages } = whole();
  messages[0]!.content = "something that was put together";
  expect(extentsOf(text, messages)[0]!.isWhole).toBe(false);
});

test("headers are spelled in the order of the format", () => {
  const fields = { ...splice.newFields("assistant"), channel: "commentary", recipient: "functions.f", content_type: "json" };
  expect(splice.spellHeader(fields)).toBe("<|start|>assistant to=functions.f<|channel|>commentary json<|message|>");
  expect(splice.spellMessage({ ...splice.newFields("tool"), content: "ok" })).toBe(
    "<|start|>functions.name to=assistant<|channel|>commentary<|message|>ok<|end|>",
  );
  expect(splice.spellHeader({ ...splice.newFields("user"), name: "ann" })).toBe("<|start|>user:ann<|message|>");
});
