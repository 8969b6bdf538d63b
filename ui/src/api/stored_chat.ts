/**
 * Validates a chat that the server stored. The server does not check details and settings, and an import may bring items
 * of any shape, so no field can be trusted to have its type. What cannot be read is left out, and a warning of the turn
 * says so. Pure.
 */

import type { ChatSettings, Turn, TurnDetails, TurnStatus, WholeChat } from "./chats";
import type { Item } from "./wire";

type Fields = Record<string, unknown>;
type Check = (value: unknown) => boolean;

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
const optional = (check: Check): Check => (value) => value === undefined || value === null || check(value);
const listOf = (check: Check): Check => (value) => Array.isArray(value) && value.every(check);
const oneOf = (...words: string[]): Check => (value) => isText(value) && words.includes(value);
const shaped = (fields: Record<string, Check>): Check => (value) =>
  isObject(value) && Object.entries(fields).every(([name, check]) => check(value[name]));

const isAnnotation = shaped({
  type: isText, url: optional(isText), title: optional(isText), start_index: optional(isNumber), end_index: optional(isNumber),
});
const isPart: Check = (value) =>
  isObject(value) && value.type === "input_file"
    ? shaped({ filename: isText, file_data: isText })(value)
    : shaped({ type: isText, text: optional(isText), refusal: optional(isText), annotations: optional(listOf(isAnnotation)) })(value);
const isContent: Check = (value) => isText(value) || listOf(isPart)(value);
const BASE: Record<string, Check> = {
  id: optional(isText), status: optional(isText), encrypted_content: optional(isText), harmonia_continues: optional(isFlag),
};
const CALL: Record<string, Check> = { name: isText, arguments: isText };
const ERROR: Check = (value) =>
  isText(value) || shaped({ message: optional(isText), content: optional(listOf(shaped({ text: optional(isText) }))) })(value);

/** By type: the fields whose types the page relies on. Items of unknown types are kept. */
const ITEMS: Record<string, Record<string, Check>> = {
  message: { role: oneOf("user", "assistant", "system", "developer"), content: isContent, phase: optional(isText) },
  reasoning: {
    summary: optional(listOf(isPart)), content: optional(listOf(isPart)), harmonia_channel: optional(isText),
    harmonia_call: optional(shaped({ name: isText, arguments: isText, error: isText })),
  },
  function_call: { ...CALL, call_id: isText, namespace: optional(isText) },
  function_call_output: { call_id: isText, output: isText },
  mcp_call: {
    ...CALL, server_label: isText, output: optional(isText), error: optional(ERROR), approval_request_id: optional(isText),
    harmonia_by_hand: optional(isFlag),
  },
  mcp_list_tools: { server_label: isText, tools: listOf(isObject) },
  mcp_approval_request: { ...CALL, server_label: isText },
  mcp_approval_response: {
    approval_request_id: isText, approve: isFlag, reason: optional(isText), harmonia_arguments: optional(isText),
    harmonia_output: optional(isText),
  },
};

const isItem = (value: unknown): value is Item =>
  isObject(value) && isText(value.type) && shaped({ ...BASE, ...(Object.hasOwn(ITEMS, value.type) ? ITEMS[value.type] : {}) })(value);

const isEffort: Check = oneOf("low", "medium", "high");
const numbersOf: Check = (value) => isObject(value) && Object.values(value).every(isNumber);
const DETAILS: Record<keyof TurnDetails, Check> = {
  model: isText, effort: isEffort, first_token_s: isNumber, total_s: isNumber, spoken_s: isNumber, spoken_tokens: isNumber,
  imported: isFlag, item_s: numbersOf, item_tokens: numbersOf,
  error: shaped({ kind: isText, message: isText, code: optional(isText) }),
  incomplete: isText, warnings: listOf(isText), edited: isFlag,
  usage: shaped({
    input_tokens: isNumber, output_tokens: isNumber, total_tokens: isNumber,
    input_tokens_details: optional(shaped({ cached_tokens: optional(isNumber) })),
    output_tokens_details: optional(shaped({ reasoning_tokens: optional(isNumber), harmonia_channels: optional(numbersOf) })),
    harmonia_channels: optional(numbersOf),
  }),
  sampled: listOf(shaped({
    faults: listOf(isText), first_item: isNumber, items: isNumber, encrypted_content: optional(isText), unmet: optional(isText),
  })),
};
const SETTINGS: Record<keyof ChatSettings, Check> = {
  identity: isText, instructions: isText, effort: isEffort, temperature: isNumber, top_p: isNumber, max_output_tokens: isNumber,
  tools_off: listOf(isText), always: listOf(isText), functions: listOf(isObject),
};
const STATUSES: readonly TurnStatus[] = ["in_progress", "completed", "incomplete", "failed", "cancelled"];

/** The fields that pass their checks, and those without a check. Null counts as absent. */
function validFields(value: unknown, checks: Record<string, Check>): { fields: Fields; dropped: number } {
  if (!isObject(value)) return { fields: {}, dropped: value == null ? 0 : 1 };
  const isChecked = (name: string): boolean => Object.hasOwn(checks, name);
  const given = Object.entries(value).filter(([name, each]) => !isChecked(name) || each != null);
  const kept = given.filter(([name, each]) => !isChecked(name) || checks[name]?.(each));
  return { fields: Object.fromEntries(kept), dropped: given.length - kept.length };
}

const lostWords = (count: number, what: string): string =>
  count === 1 ? `1 ${what} of this turn could not be read and is not shown` : `${count} ${what}s of this turn could not be read and are not shown`;

function readTurn(value: unknown): Turn | null {
  if (!isObject(value) || !isText(value.id) || !optional(isText)(value.parent)) return null;
  const given = Array.isArray(value.items) ? (value.items as unknown[]) : [];
  const items = given.filter(isItem);
  const { fields, dropped } = validFields(value.details, DETAILS);
  const details = fields as TurnDetails;
  const lost = given.length - items.length + (Array.isArray(value.items) || value.items == null ? 0 : 1);
  const warnings = [...(lost > 0 ? [lostWords(lost, "item")] : []), ...(dropped > 0 ? [lostWords(dropped, "detail")] : [])];
  return {
    ...(value as unknown as Turn),
    parent: (value.parent as string | null | undefined) ?? null,
    role: value.role === "user" ? "user" : "assistant",
    items,
    status: STATUSES.find((status) => status === value.status) ?? "failed",
    created_at: isNumber(value.created_at) ? value.created_at : 0,
    details: warnings.length === 0 ? details : { ...details, warnings: [...(details.warnings ?? []), ...warnings] },
  };
}

/** The chat in the body of a server response. */
export function readChat(value: unknown): WholeChat {
  const chat = isObject(value) ? value : {};
  const turns = (Array.isArray(chat.turns) ? (chat.turns as unknown[]) : []).map(readTurn).filter((turn) => turn !== null);
  return {
    ...(chat as unknown as WholeChat),
    title: isText(chat.title) ? chat.title : "",
    leaf: isText(chat.leaf) ? chat.leaf : null,
    settings: validFields(chat.settings, SETTINGS).fields as ChatSettings,
    turns,
  };
}
