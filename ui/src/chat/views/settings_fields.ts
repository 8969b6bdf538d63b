/** What is typed into the settings, as values, or what is wrong with it in words. Pure. */

import type { McpServer } from "../../api/server";
import type { JsonValue } from "../../api/wire";

export type NumberField = "temperature" | "top_p" | "max_output_tokens";

const RANGES: Record<NumberField, { least: number; most: number; isWhole: boolean }> = {
  temperature: { least: 0, most: 2, isWhole: false },
  top_p: { least: 0, most: 1, isWhole: false },
  max_output_tokens: { least: 1, most: 1_000_000, isWhole: true },
};

/** Null means no value: the engine's own is taken. */
export function readNumber(name: NumberField, text: string): { value: number | null } | { fault: string } {
  const typed = text.trim().replace(",", ".");
  if (typed === "") return { value: null };
  const { least, most, isWhole } = RANGES[name];
  const value = Number(typed);
  if (!Number.isFinite(value) || value < least || value > most || (isWhole && !Number.isInteger(value))) {
    return { fault: `Write a ${isWhole ? "whole " : ""}number from ${least} to ${most.toLocaleString("en")}, or nothing.` };
  }
  return { value };
}

export type Declared = { [name: string]: JsonValue } & { name: string };

/** Functions as the Responses API has them. An empty text is none. */
export function readFunctions(text: string): { functions: Declared[] } | { fault: string } {
  if (text.trim() === "") return { functions: [] };
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    return { fault: `Not valid JSON yet: ${error instanceof Error ? error.message : "it cannot be read"}.` };
  }
  const list = Array.isArray(value) ? value : [value];
  const functions: Declared[] = [];
  for (const [at, each] of list.entries()) {
    const where = list.length === 1 ? "The function" : `Function ${at + 1}`;
    if (!isObject(each)) return { fault: `${where} must be an object: { … }.` };
    // Chat Completions wraps a function once more; people copy from there.
    const inner = isObject(each.function) ? each.function : each;
    const { name, parameters } = inner;
    if (typeof name !== "string" || !/^[A-Za-z_][\w-]{0,63}$/.test(name)) {
      return { fault: `${where} needs a "name" of letters, digits, "_" and "-".` };
    }
    if (functions.some((other) => other.name === name)) return { fault: `There are two functions with the name ${name}.` };
    if (parameters !== undefined && !isObject(parameters)) {
      return { fault: `"parameters" of ${name} must be a JSON Schema: { "type": "object", … }.` };
    }
    functions.push({ ...inner, type: "function", name });
  }
  return { functions };
}

function isObject(value: JsonValue | undefined): value is { [name: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a tool is offered, by the labels and `label.tool` that are switched off. */
export function isOn(off: readonly string[] | undefined, server: string, tool: string | null): boolean {
  return !(off ?? []).some((each) => each === server || (tool !== null && each === `${server}.${tool}`));
}

/** The list of what is off after a switch. Switching on a tool of a server that is off leaves its other tools off. */
export function switched(off: readonly string[] | undefined, server: McpServer, tool: string | null, on: boolean): string[] {
  const before = off ?? [];
  const { label } = server;
  const isOwn = (name: string): boolean => name === label || server.tools.some((each) => name === `${label}.${each.name}`);
  if (tool === null) return [...before.filter((name) => !isOwn(name)), ...(on ? [] : [label])];
  const name = `${label}.${tool}`;
  if (!on) return [...before.filter((each) => each !== name), name];
  if (!before.includes(label)) return before.filter((each) => each !== name);
  const others = server.tools.filter((each) => each.name !== tool).map((each) => `${label}.${each.name}`);
  return [...before.filter((each) => !isOwn(each)), ...others];
}
