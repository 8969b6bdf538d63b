/** Inspections for tests, made by hand as the server would make them. */

import type { Diagnostic, InspectedMessage, Inspection, TokenInfo } from "../../src/api/inspect";

export const TABLE: Record<string, TokenInfo> = {
  "200006": { bytes: "3c7c73746172747c3e", text: "<|start|>", special: true },
  "200008": { bytes: "3c7c6d6573736167657c3e", text: "<|message|>", special: true },
  "200007": { bytes: "3c7c656e647c3e", text: "<|end|>", special: true },
  "1428": { bytes: "75736572", text: "user", special: false },
  "12194": { bytes: "4869", text: "Hi", special: false },
  // A parrot in three tokens, the first of them with a space before it.
  "9552": { bytes: "20f09f", text: " �", special: false },
  "99": { bytes: "a6", text: "�", special: false },
  "250": { bytes: "9c", text: "�", special: false },
  "1354": { bytes: "207468657265", text: " there", special: false },
  "999999": { bytes: null, text: null, special: false },
};

interface Given extends Partial<Omit<InspectedMessage, "ids" | "tokens">> {
  header?: number[];
  body?: number[];
  end?: number[];
}

/** A message behind all others: characters are counted on as if each token were ten of them. */
export function message(index: number, given: Given = {}, start = index * 100): InspectedMessage {
  const { header = [200006, 1428, 200008], body = [12194], end = [200007], ...rest } = given;
  return {
    index,
    role: "user",
    name: null,
    channel: null,
    recipient: null,
    content_type: null,
    content: "Hi",
    stop: "end",
    source: "text",
    trust: "certain",
    forged: false,
    faults: [],
    spans: {
      header: { start_token: null, end_token: null, start_char: start, end_char: start + 30 },
      body: { start_token: null, end_token: null, start_char: start + 30, end_char: start + 50 },
    },
    flags: [],
    skipped: [],
    tokens: { header: header.length, body: body.length, stop: end.length },
    ids: { header, body, stop: end },
    ...rest,
  };
}

export function problem(code: string, at: Diagnostic["at"]): Diagnostic {
  return { code, message: code, found: "", at, repair: "", strict: "raises", explanation: "", excerpt: null, hint: null };
}

export function inspectionOf(messages: InspectedMessage[], rest: Partial<Inspection> = {}): Inspection {
  const tokens = messages.reduce((sum, one) => sum + one.tokens.header + one.tokens.body + one.tokens.stop, 0);
  return {
    input: "text",
    taken_for: "raw Harmony text",
    notes: [],
    characters: messages.length * 100,
    tokens,
    counts_are_exact: false,
    messages,
    outside: [],
    turns: [],
    channels: [],
    diagnostics: [],
    diagnostics_total: rest.diagnostics?.length ?? 0,
    strict: null,
    token_table: TABLE,
    ...rest,
  };
}
