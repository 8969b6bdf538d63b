/**
 * Whether the arguments of a call fit the tool's JSON Schema. A small checker that says what it did not look at.
 *
 * 1. It checks `type`, `enum`, `const`, `required`, `properties`, `additionalProperties`, `items` and `anyOf`.
 * 2. Every other word that could forbid something is named in `unchecked`; words that only describe are passed over.
 * 3. A stranger's `pattern` is never matched: it might take forever.
 */

import type { JsonValue } from "../api/wire";

export interface SchemaProblem {
  /** Where in the arguments: `city`, `days[2].from`; empty for the whole. */
  path: string;
  message: string;
}

export interface SchemaCheck {
  verdict: "fits" | "misfits" | "unchecked";
  problems: SchemaProblem[];
  /** Words of the schema that were not looked at. */
  unchecked: string[];
}

type JsonObject = { [name: string]: JsonValue };

const MOST_PROBLEMS = 20;
const DEEPEST = 64;
const TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"];
const CHECKED = new Set(["type", "enum", "const", "required", "properties", "additionalProperties", "items", "anyOf"]);
const DESCRIBING = new Set([
  ...["title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"],
  ...["$schema", "$id", "$comment", "$defs", "definitions", "nullable"],
]);

/** Check the text of a call's arguments. A tool that declares no schema is told as that. */
export function checkArguments(text: string, schema: JsonValue | undefined): SchemaCheck {
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    return { verdict: "misfits", problems: [{ path: "", message: "not valid JSON" }], unchecked: [] };
  }
  if (schema === undefined || schema === null) {
    return { verdict: "unchecked", problems: [], unchecked: ["the tool has no schema"] };
  }
  const found: Found = { problems: [], unchecked: new Set() };
  check(value, schema, "", 0, found);
  const unchecked = [...found.unchecked];
  const verdict = found.problems.length > 0 ? "misfits" : unchecked.length > 0 ? "unchecked" : "fits";
  return { verdict, problems: found.problems, unchecked };
}

interface Found {
  problems: SchemaProblem[];
  unchecked: Set<string>;
}

function check(value: JsonValue, schema: JsonValue, path: string, depth: number, found: Found): void {
  if (found.problems.length >= MOST_PROBLEMS) return;
  const wrong = (message: string): void => void found.problems.push({ path, message });
  if (schema === true) return;
  if (schema === false) return wrong("nothing may be here");
  if (!isObject(schema)) return void found.unchecked.add("a schema that is not an object");
  if (depth > DEEPEST) return void found.unchecked.add(`what is deeper than ${DEEPEST} levels`);
  for (const word of Object.keys(schema)) {
    if (!CHECKED.has(word) && !DESCRIBING.has(word)) found.unchecked.add(word);
  }
  if (schema.nullable === true && value === null) return;
  const types = typesOf(schema.type, found);
  if (types !== null && !types.some((type) => hasType(value, type))) {
    return wrong(`expected ${types.map(withArticle).join(" or ")}, found ${withArticle(typeOf(value))}`);
  }
  if (Array.isArray(schema.enum) && !schema.enum.some((choice) => isSame(choice, value))) {
    wrong(`expected one of ${schema.enum.map(brief).join(", ")}`);
  }
  if (Object.hasOwn(schema, "const") && !isSame(schema.const ?? null, value)) wrong(`expected ${brief(schema.const ?? null)}`);
  if (Array.isArray(schema.anyOf)) checkAnyOf(value, schema.anyOf, path, depth, found);
  if (isObject(value)) checkObject(value, schema, path, depth, found);
  if (Array.isArray(value) && schema.items !== undefined) checkItems(value, schema.items, path, depth, found);
}

function checkObject(value: JsonObject, schema: JsonObject, path: string, depth: number, found: Found): void {
  const properties = isObject(schema.properties) ? schema.properties : {};
  if (Array.isArray(schema.required)) {
    for (const name of schema.required) {
      if (typeof name !== "string" || Object.hasOwn(value, name)) continue;
      found.problems.push({ path: inside(path, name), message: "is missing" });
    }
  }
  for (const [name, inner] of Object.entries(value)) {
    const place = inside(path, name);
    if (Object.hasOwn(properties, name)) check(inner, properties[name] ?? null, place, depth + 1, found);
    else if (Object.hasOwn(schema, "patternProperties")) continue; // named as not checked
    else if (schema.additionalProperties === false) found.problems.push({ path: place, message: "is not known to this tool" });
    else if (isObject(schema.additionalProperties)) check(inner, schema.additionalProperties, place, depth + 1, found);
  }
}

function checkItems(value: JsonValue[], items: JsonValue, path: string, depth: number, found: Found): void {
  // A list of schemas, one for each place, is the older drafts' way.
  if (Array.isArray(items)) return void found.unchecked.add("items as a list");
  value.forEach((inner, at) => check(inner, items, `${path}[${at}]`, depth + 1, found));
}

function checkAnyOf(value: JsonValue, choices: JsonValue[], path: string, depth: number, found: Found): void {
  const tried = choices.map((choice) => {
    const inner: Found = { problems: [], unchecked: new Set() };
    check(value, choice, path, depth + 1, inner);
    return inner;
  });
  const open = tried.filter((inner) => inner.problems.length === 0);
  if (open.some((inner) => inner.unchecked.size === 0)) return;
  for (const inner of open) for (const word of inner.unchecked) found.unchecked.add(word);
  if (open.length === 0) found.problems.push({ path, message: "fits none of the forms that are allowed" });
}

function typesOf(type: JsonValue | undefined, found: Found): string[] | null {
  if (type === undefined) return null;
  const types = (Array.isArray(type) ? type : [type]).filter((each) => typeof each === "string");
  if (types.length > 0 && types.every((each) => TYPES.includes(each))) return types;
  found.unchecked.add("a type that is not known");
  return null;
}

function hasType(value: JsonValue, type: string): boolean {
  const is = typeOf(value);
  return is === type || (type === "number" && is === "integer");
}

function typeOf(value: JsonValue): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

function isSame(one: JsonValue, other: JsonValue): boolean {
  if (one === other) return true;
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((each, at) => isSame(each, other[at] ?? null));
  }
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSame(one[name] ?? null, other[name] ?? null))
  );
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const inside = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);
const withArticle = (type: string): string => (type === "null" ? type : `${/^[aeiou]/.test(type) ? "an" : "a"} ${type}`);

function brief(value: JsonValue): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
