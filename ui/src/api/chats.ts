/** `v1/chats`: the page's conversations, as the server keeps them. A chat is a tree of turns. */

import { ask, send } from "./client";
import { readChat } from "./stored_chat";
import type { Effort, Item, JsonValue, SampledEntry, Usage } from "./wire";

/** What a turn says beside its items. The server keeps it and does not look at it. */
export interface TurnDetails {
  model?: string;
  effort?: Effort;
  usage?: Usage;
  /** Seconds from the request to the first token, and to the last. */
  first_token_s?: number;
  total_s?: number;
  /** Seconds in which the model generated, without tools and waiting, and the tokens that it generated in that time. */
  spoken_s?: number;
  spoken_tokens?: number;
  /** Imported from a file: the person here did not give the tool results in it. */
  imported?: boolean;
  /** By the position of an item: how long it took, in seconds. */
  item_s?: Record<string, number>;
  /** By the position of an item: its tokens, counted by the pieces in which they came. */
  item_tokens?: Record<string, number>;
  error?: { kind: string; message: string; code: string | null };
  /** Why an answer is not complete, as the API has it. */
  incomplete?: string;
  warnings?: string[];
  /** The person rewrote it: it is not what the model said. */
  edited?: boolean;
  /** Output that was damaged and mended, as it was sampled; its positions are those of the turn's items. */
  sampled?: SampledEntry[];
}

export type TurnStatus = "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

export interface Turn {
  /** Chosen by the page: `turn_` and letters or digits. */
  id: string;
  parent: string | null;
  /** Who speaks: the person (also for tools that were answered by hand, and approvals), or the model. */
  role: "user" | "assistant";
  items: Item[];
  status: TurnStatus;
  created_at: number;
  details: TurnDetails;
}

/** How answers of a chat are asked for. The server keeps it and does not look at it. */
export interface ChatSettings {
  /** Who the model is, in the system message; otherwise what it says by itself. */
  identity?: string;
  /** The developer's. */
  instructions?: string;
  effort?: Effort;
  temperature?: number;
  top_p?: number;
  max_output_tokens?: number;
  /** Labels of MCP servers that are switched off, and `label.tool` of single tools. */
  tools_off?: string[];
  /** `label.tool` of tools that may always run without asking. */
  always?: string[];
  /** Functions that the person declares, as the Responses API has them; the person answers their calls. */
  functions?: JsonValue[];
}

export interface Chat {
  id: string;
  object: "chat";
  title: string;
  created_at: number;
  updated_at: number;
  /** The turn at the end of the branch that is shown. */
  leaf: string | null;
  settings: ChatSettings;
}

export interface WholeChat extends Chat {
  turns: Turn[];
}

/** A chat in a list. With a query, `excerpt` is where it was found. */
export interface ListedChat extends Omit<Chat, "settings"> {
  turns: number;
  excerpt?: { turn: string | null; text: string };
}

export interface ChatList {
  object: "list";
  data: ListedChat[];
  has_more: boolean;
  /** What to send as `after` to go on. A search reads so much at once: it may have found nothing yet, and more to read. */
  next?: string;
}

export type ExportFormat = "markdown" | "json" | "harmony" | "tokens";

export interface ImportedChats {
  chats: ListedChat[];
  /** What the file was taken for: `harmonia-chat`, `chat`, `responses`, `harmony-json`, … */
  format: string;
  /** What had no place, in words. */
  losses: string[];
}

const path = (id: string): string => `v1/chats/${encodeURIComponent(id)}`;

export const listChats = (asked: { query?: string; after?: string; limit?: number } = {}, signal?: AbortSignal): Promise<ChatList> => {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) if (value !== undefined) words.set(name, String(value));
  return ask(`v1/chats?${words}`, signal === undefined ? {} : { signal });
};
export const createChat = (chat: { title?: string; settings?: ChatSettings }): Promise<Chat> => ask("v1/chats", { body: chat });
export const loadChat = async (id: string): Promise<WholeChat> => readChat(await ask<unknown>(path(id)));
export const changeChat = (id: string, change: { title?: string; leaf?: string | null; settings?: ChatSettings }): Promise<Chat> =>
  ask(path(id), { method: "PATCH", body: change });
export const deleteChat = async (id: string): Promise<void> => void (await send(path(id), { method: "DELETE" }));
/** Write a turn, or write it again. Its parent must be there, and does not change. A new turn becomes the chat's leaf. */
export const saveTurn = async (chat: string, turn: Turn, keepalive = false): Promise<void> =>
  void (await send(`${path(chat)}/turns/${encodeURIComponent(turn.id)}`, { method: "PUT", body: turn, keepalive }));
/** Delete a turn and all that follow it. */
export const deleteTurn = async (chat: string, turn: string): Promise<void> =>
  void (await send(`${path(chat)}/turns/${encodeURIComponent(turn)}`, { method: "DELETE" }));
/** The branch that ends in `leaf`, as a file. */
export const exportChat = async (id: string, format: ExportFormat, leaf?: string | null): Promise<Blob> => {
  const words = new URLSearchParams({ format, ...(leaf == null ? {} : { leaf }) });
  return (await send(`${path(id)}/export?${words}`)).blob();
};
export const importChats = (text: string, name: string): Promise<ImportedChats> => ask("v1/chats/import", { body: { text, name } });
