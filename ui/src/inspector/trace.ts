/**
 * An inspection as a list of rows, and as a list of tokens. Pure.
 *
 * Rows stand in the order of the trace: messages, text that is part of none, ends of turns, and where an answer begins.
 * A token's position counts from the beginning of the trace. Where the input was ids it is the position in them; where it
 * was text, in the tokens that it would be encoded to, and a space between two messages may not be counted.
 */

import type { InspectedMessage, Inspection, TurnTrace } from "../api/inspect";

export type Row =
  | { kind: "message"; message: number }
  | { kind: "outside"; outside: number }
  | { kind: "turn"; turn: number }
  /** The prompt ends in the header of the message that follows: its last token is the one before `token`. */
  | { kind: "answer"; token: number };

export type Part = "header" | "body" | "stop";

export interface Piece {
  /** The message; null for text that is part of none, whose ids are not known. */
  message: number | null;
  outside: number | null;
  /** The position of its first token. */
  start: number;
  count: number;
}

/** The tones of the design, each with a colour, a letter and a kind of line. */
export type Tone = "system" | "developer" | "user" | "analysis" | "commentary" | "final" | "tool" | "unknown";

const CHANNEL_TONES = new Set<string>(["analysis", "commentary", "final"]);
const ROLE_TONES = new Set<string>(["system", "developer", "user", "tool"]);

/** An assistant's message has the tone of its channel; all others that of their role. */
export function toneOf(message: Pick<InspectedMessage, "role" | "channel">): Tone {
  if (ROLE_TONES.has(message.role)) return message.role as Tone;
  return message.channel !== null && CHANNEL_TONES.has(message.channel) ? (message.channel as Tone) : "unknown";
}

/** The tone of a row of the table of channels: `analysis`, or `no channel (user)`. */
export function toneOfChannel(channel: string): Tone {
  const name = /^no channel \((\w+)\)$/.exec(channel)?.[1] ?? channel;
  return CHANNEL_TONES.has(name) || ROLE_TONES.has(name) ? (name as Tone) : "unknown";
}

export const countOf = (message: InspectedMessage): number =>
  message.tokens.header + message.tokens.body + message.tokens.stop;

/** `60 tokens`; `about 60 tokens` where the input was text, which may have been tokenized otherwise. */
export const tokensOf = ({ tokens, counts_are_exact }: Inspection): string => `${counts_are_exact ? "" : "about "}${counted(tokens, "token")}`;

const listed = new WeakMap<Inspection, readonly Piece[]>();

/** Messages and what is outside of them, in order, with their places among the tokens. They are found once. */
export function piecesOf(inspection: Inspection): readonly Piece[] {
  let pieces = listed.get(inspection);
  if (pieces === undefined) listed.set(inspection, (pieces = findPieces(inspection)));
  return pieces;
}

function findPieces(inspection: Inspection): Piece[] {
  const pieces: Piece[] = [];
  let next = 0;
  let outside = 0;
  const addOutside = (before: number): void => {
    for (; outside < inspection.outside.length; outside++) {
      const found = inspection.outside[outside];
      if (found === undefined || found.start_char >= before) return;
      pieces.push({ message: null, outside, start: next, count: found.tokens });
      next += found.tokens;
    }
  };
  inspection.messages.forEach((message, index) => {
    addOutside(message.spans.header.start_char);
    const start = message.spans.header.start_token ?? next;
    pieces.push({ message: index, outside: null, start, count: countOf(message) });
    next = start + countOf(message);
  });
  addOutside(Infinity);
  return pieces;
}

/** Where each message begins among the tokens. */
export const messagesStarting = (inspection: Inspection): number[] =>
  piecesOf(inspection).flatMap((piece) => (piece.message === null ? [] : [piece.start]));

/** The position of the last value of a sorted list that is not above `value`; 0 where all are. */
export function lastNotAbove(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((sorted[middle] ?? 0) <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

export const isTurnTrace = (inspection: Inspection): inspection is TurnTrace => "prompt_tokens" in inspection;

/** Everything that the list of messages shows, in order. */
export function rowsOf(inspection: Inspection): Row[] {
  const rows: Row[] = [];
  const promptEnd = isTurnTrace(inspection) ? inspection.prompt_tokens : null;
  let isMarked = promptEnd === null;
  let turn = 0;
  let messages = 0;
  let outside = 0;
  const addTurns = (): void => {
    for (; turn < inspection.turns.length; turn++) {
      const found = inspection.turns[turn];
      if (found === undefined || found.messages > messages || found.outside > outside) return;
      rows.push({ kind: "turn", turn });
    }
  };
  for (const piece of piecesOf(inspection)) {
    if (!isMarked && promptEnd !== null && piece.start + piece.count > promptEnd) {
      rows.push({ kind: "answer", token: promptEnd });
      isMarked = true;
    }
    if (piece.message !== null) {
      rows.push({ kind: "message", message: piece.message });
      messages += 1;
    } else if (piece.outside !== null) {
      rows.push({ kind: "outside", outside: piece.outside });
      outside += 1;
    }
    addTurns();
  }
  messages = outside = Infinity;
  addTurns();
  return rows;
}

export const messagesIn = (rows: readonly Row[]): number => rows.filter((row) => row.kind === "message").length;

export const rowKey = (row: Row): string => {
  switch (row.kind) {
    case "message":
      return `m${row.message}`;
    case "outside":
      return `o${row.outside}`;
    case "turn":
      return `t${row.turn}`;
    case "answer":
      return "answer";
  }
};

/** The part that a token of a message lies in, counted from the message's first. */
export function partAt(message: InspectedMessage, offset: number): Part {
  if (offset < message.tokens.header) return "header";
  return offset < message.tokens.header + message.tokens.body ? "body" : "stop";
}

/** The ids of a message, header, body and stop in one list. */
export const idsOf = (message: InspectedMessage): number[] =>
  message.ids === undefined ? [] : [...message.ids.header, ...message.ids.body, ...message.ids.stop];

/** A share as a percentage that never says 0 for something or 100 for less than all. */
export function percent(share: number): string {
  if (share <= 0) return "0 %";
  if (share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  const isNearAnEnd = share < 0.0995 || (share < 1 && share >= 0.99);
  return `${(share * 100).toFixed(isNearAnEnd ? 1 : 0)} %`;
}

export const number = (count: number): string => count.toLocaleString("en-US");
export const counted = (count: number, one: string, many = `${one}s`): string => `${number(count)} ${count === 1 ? one : many}`;
