/**
 * Editing a trace that is a text: messages are written back at the places where the server found them. Pure.
 *
 * 1. Only what was changed is written again: an edited body leaves its header as it was spelled, however oddly.
 * 2. What stands between messages stays where it is.
 * 3. A message that comes to stand before another one gets a stop, where it had none.
 */

import type { Inspection, InspectedMessage, Role } from "../../api/inspect";
import { Characters } from "./characters";

export type StopWord = "end" | "call" | "return";

export interface Fields {
  role: Role;
  name: string | null;
  channel: string | null;
  recipient: string | null;
  content_type: string | null;
  content: string;
  /** Null where the message is cut off. */
  stop: StopWord | null;
}

/** Where a message stands, in UTF-16 units: its header, its body, its stop. */
export interface Extent {
  start: number;
  body: number;
  stop: number;
  end: number;
  /** Whether it begins with `<|start|>`; a completion's first message does not. */
  starts: boolean;
  /** Whether the recipient stands after the channel. */
  recipientIsLast: boolean;
  /** Whether the text between has the body in one piece, so that it can be edited in a form. */
  isWhole: boolean;
}

const START = "<|start|>";
const STOPS: readonly string[] = ["end", "call", "return"];

export function fieldsOf(message: InspectedMessage): Fields {
  const { role, name, channel, recipient, content_type, content, stop } = message;
  return { role, name, channel, recipient, content_type, content, stop: isStop(stop) ? stop : null };
}

const isStop = (word: string | null): word is StopWord => word !== null && STOPS.includes(word);

/** A new message of this kind. */
export const newFields = (role: Role = "user"): Fields => ({
  role,
  name: role === "tool" ? "functions.name" : null,
  channel: role === "assistant" ? "final" : role === "tool" ? "commentary" : null,
  recipient: role === "tool" ? "assistant" : null,
  content_type: null,
  content: "",
  stop: "end",
});

/** A header, from after `<|start|>` and the role where `starts` is false. */
export function spellHeader(fields: Fields, starts = true, recipientIsLast = false): string {
  const { role, name, channel, recipient, content_type } = fields;
  const author = role === "tool" ? (name ?? "functions.name") : name === null ? role : `${role}:${name}`;
  const to = recipient === null ? "" : ` to=${recipient}`;
  const isLast = recipientIsLast && channel !== null;
  return [
    starts ? START + author : "",
    isLast ? "" : to,
    channel === null ? "" : `<|channel|>${channel}`,
    isLast ? to : "",
    content_type === null ? "" : ` ${content_type}`,
    "<|message|>",
  ].join("");
}

export const spellMessage = (fields: Fields): string =>
  spellHeader(fields) + fields.content + (fields.stop === null ? "" : `<|${fields.stop}|>`);

/** Where the messages of an inspection stand in its text. */
export function extentsOf(text: string, messages: Inspection["messages"]): Extent[] {
  const characters = new Characters(text);
  return messages.map((message) => {
    const start = characters.unitOf(message.spans.header.start_char);
    const body = characters.unitOf(message.spans.body.start_char);
    const stop = characters.unitOf(message.spans.body.end_char);
    const spelled = message.stop === null ? "" : `<|${message.stop}|>`;
    const header = text.slice(start, body);
    const to = header.indexOf(" to=");
    return {
      start,
      body,
      stop,
      end: text.startsWith(spelled, stop) ? stop + spelled.length : stop,
      starts: header.startsWith(START),
      recipientIsLast: to !== -1 && header.includes("<|channel|>") && to > header.indexOf("<|channel|>"),
      isWhole: start <= body && body <= stop && text.slice(body, stop) === message.content,
    };
  });
}

export function replaceMessage(text: string, at: Extent, before: Fields, after: Fields): string {
  const isSameHeader = (["role", "name", "channel", "recipient", "content_type"] as const).every((key) => before[key] === after[key]);
  const header = isSameHeader ? text.slice(at.start, at.body) : spellHeader(after, at.starts, at.recipientIsLast);
  const stop = before.stop === after.stop ? text.slice(at.stop, at.end) : after.stop === null ? "" : `<|${after.stop}|>`;
  return text.slice(0, at.start) + header + after.content + stop + text.slice(at.end);
}

/** Put a message after the one at `after`; before all others where that is -1. */
export function insertMessage(text: string, extents: readonly Extent[], after: number, spelled: string): string {
  const before = extents[after];
  const at = before?.end ?? extents[0]?.start ?? text.length;
  return text.slice(0, at) + (before === undefined ? "" : missingStop(before)) + spelled + text.slice(at);
}

export function duplicateMessage(text: string, extents: readonly Extent[], index: number): string {
  const at = extents[index];
  if (at === undefined) return text;
  const copy = text.slice(at.start, at.end);
  return insertMessage(text, extents, index, at.starts ? copy : `${START}assistant${copy}`);
}

export function removeMessage(text: string, at: Extent): string {
  return text.slice(0, at.start) + text.slice(at.end);
}

/** Whether a message may change places with the one after it. */
export const canSwap = (extents: readonly Extent[], index: number): boolean =>
  extents[index]?.starts === true && extents[index + 1]?.starts === true;

/** Let a message change places with the one after it. */
export function swapWithNext(text: string, extents: readonly Extent[], index: number): string {
  const first = extents[index];
  const second = extents[index + 1];
  if (first === undefined || second === undefined || !canSwap(extents, index)) return text;
  return [
    text.slice(0, first.start),
    text.slice(second.start, second.end),
    missingStop(second),
    text.slice(first.end, second.start),
    text.slice(first.start, first.end),
    text.slice(second.end),
  ].join("");
}

const missingStop = (at: Extent): string => (at.stop === at.end ? "<|end|>" : "");
