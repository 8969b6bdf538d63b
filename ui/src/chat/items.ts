/** Items of the Responses API, read and changed. Pure. */

import type { FilePart, Item, JsonValue, MessageItem, TextPart } from "../api/wire";
import type { Turn } from "../api/chats";

/** What an item says: its text, or of calls and approvals the arguments. Hidden reasoning says nothing. */
export function textOf(item: Item): string {
  switch (item.type) {
    case "message":
      return typeof item.content === "string" ? item.content : item.content.map(textOfPart).join("");
    case "reasoning":
      return (item.content ?? []).map(textOfPart).join("");
    case "function_call":
    case "mcp_call":
    case "mcp_approval_request":
      return item.arguments;
    case "function_call_output":
      return item.output;
    case "mcp_approval_response":
      return item.reason ?? "";
    default:
      return ""; // an import may bring any item
  }
}

function textOfPart(part: TextPart | FilePart): string {
  return part.type === "input_file" ? "" : (part.text ?? part.refusal ?? "");
}

/** The same item with another text. It has no seal and no id: it is not what the model said. */
export function withText(item: Item, text: string): Item {
  const { encrypted_content: _seal, id: _id, ...rest } = item;
  switch (rest.type) {
    case "message": {
      if (rest.role === "assistant") return { ...rest, content: [{ type: "output_text", text, annotations: [] }] };
      const files = typeof rest.content === "string" ? [] : rest.content.filter((part) => part.type === "input_file");
      return { ...rest, content: files.length === 0 ? text : [...files, { type: "input_text", text }] };
    }
    case "reasoning": {
      const { harmonia_call: _call, harmonia_channel: _channel, ...thought } = rest;
      return { ...thought, content: [{ type: "reasoning_text", text }] };
    }
    case "function_call":
    case "mcp_call":
    case "mcp_approval_request":
      return { ...rest, arguments: text };
    case "function_call_output":
      return { ...rest, output: text };
    default:
      return rest;
  }
}

export function withoutSeal<T extends Item>(item: T): T {
  if (item.encrypted_content == null) return item;
  const { encrypted_content: _seal, ...rest } = item;
  return rest as T;
}

/** Whether two items are the same but for their seals, ids and states. */
export function sameContent(one: Item, other: Item): boolean {
  const bare = (item: Item): string => JSON.stringify({ ...item, encrypted_content: null, id: null, status: null });
  return bare(one) === bare(other);
}

/** Whether the model was still at it. */
export function isUnfinished(item: Item): boolean {
  return item.status === "in_progress" || item.status === "incomplete" || item.status === "calling";
}

export function isCall(item: Item): boolean {
  return item.type === "function_call" || item.type === "mcp_call" || item.type === "mcp_approval_request";
}

/** Whether an item lists an MCP server's tools. The model did not write it, and the page does not show it. */
export function isListing(item: Item): boolean {
  return item.type === "mcp_list_tools";
}

/** The items of a turn that may go back to the model: nothing that is empty, and no call that was not made. */
export function sendable(turn: Turn): Item[] {
  return turn.items.filter((item) => {
    if (isCall(item) || isListing(item)) return !isUnfinished(item);
    if (item.type === "reasoning") return item.encrypted_content != null || textOf(item) !== "";
    if (item.type === "message" && item.role === "assistant") return item.encrypted_content != null || textOf(item) !== "";
    return true;
  });
}

/**
 * The first item of a continuation, joined to the one that it goes on with. Null where they do not belong together: then
 * it stands after it. The item that came has only the new text, but its seal holds the whole message.
 */
export function joinItems(old: Item, more: Item): Item | null {
  if (!isUnfinished(old) || old.type !== more.type || (old.type !== "message" && old.type !== "reasoning")) return null;
  if (old.type === "message" && more.type === "message") {
    if (old.role !== more.role || (old.phase ?? null) !== (more.phase ?? null)) return null;
  }
  const added = textOf(more);
  const bare = added === "" ? withoutSeal(old) : withText(old, textOf(old) + added);
  const seal = more.encrypted_content ?? (added === "" ? old.encrypted_content : null);
  return { ...bare, id: more.id ?? old.id ?? null, status: more.status ?? null, ...(seal == null ? {} : { encrypted_content: seal }) } as Item;
}

/** A text file that goes along with a message. */
export interface AttachedFile {
  name: string;
  text: string;
}

/** What a person wrote: their text, and the files that came with it. */
export function typedIn(turn: Turn): { text: string; files: AttachedFile[] } {
  const texts: string[] = [];
  const files: AttachedFile[] = [];
  for (const item of turn.items) {
    if (item.type !== "message" || item.role !== "user") continue;
    texts.push(textOf(item));
    if (typeof item.content === "string") continue;
    for (const part of item.content) if (part.type === "input_file") files.push({ name: part.filename, text: textOfFile(part.file_data) });
  }
  return { text: texts.join("\n\n"), files };
}

export function userItem(text: string, files: readonly AttachedFile[]): MessageItem {
  if (files.length === 0) return { type: "message", role: "user", content: text };
  const parts = files.map((file): FilePart => ({ type: "input_file", filename: file.name, file_data: dataOf(file.text) }));
  return { type: "message", role: "user", content: [...parts, ...(text === "" ? [] : [{ type: "input_text" as const, text }])] };
}

function dataOf(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const letters: string[] = [];
  // In slices, because a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) letters.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return `data:text/plain;base64,${btoa(letters.join(""))}`;
}

function textOfFile(data: string): string {
  try {
    const letters = atob(data.slice(data.indexOf(",") + 1));
    return new TextDecoder().decode(Uint8Array.from(letters, (letter) => letter.charCodeAt(0)));
  } catch {
    return ""; // an import may bring anything
  }
}

/** Whether a user turn has only answers to calls and approvals; these are shown with the calls, not as a message. */
export function isOnlyAnswers(turn: Turn): boolean {
  return turn.role === "user" && turn.items.length > 0 && turn.items.every((item) => item.type === "mcp_approval_response" || item.type === "function_call_output");
}

/** The first line of what was typed, cut at a word. */
export function titleFrom(text: string, files: readonly AttachedFile[] = []): string {
  const line = text.split("\n").map((each) => each.trim().replace(/\s+/g, " ")).find((each) => each !== "") ?? "";
  if (line === "") return files[0]?.name ?? "New chat";
  const letters = [...line];
  if (letters.length <= TITLE_LETTERS) return line;
  const cut = letters.slice(0, TITLE_LETTERS - 1).join("");
  const space = cut.lastIndexOf(" ");
  return `${(space > TITLE_LETTERS / 2 ? cut.slice(0, space) : cut).trimEnd()}…`;
}

const TITLE_LETTERS = 60;

/** An error of a tool in words: a text, JSON that has one, or an object. */
export function errorText(error: unknown): string {
  if (typeof error === "string") {
    try {
      const read = JSON.parse(error) as JsonValue;
      if (read !== null && typeof read === "object" && !Array.isArray(read) && typeof read["error"] === "string") return read["error"];
    } catch {
      // It is plain text.
    }
    return error;
  }
  const { message, content } = (error ?? {}) as { message?: unknown; content?: unknown };
  const told = Array.isArray(content) ? (content as { text?: unknown }[]).map((part) => part.text).find((text) => typeof text === "string") : undefined;
  if (typeof told === "string") return errorText(told);
  return typeof message === "string" ? message : "The tool failed.";
}
