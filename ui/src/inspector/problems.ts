/** Where a problem is shown: with which row, and with which part of it. Pure. */

import type { Diagnostic, Inspection } from "../api/inspect";
import { type Row, rowKey } from "./trace";

/** `header` and `body` are those of a message; everything else has its problems after it. */
export type Place = { key: string; part: "header" | "body" };

/** The places of all diagnostics, by their position. */
export function placesOf(inspection: Inspection, rows: readonly Row[]): Place[] {
  const last = rows.findLast((row) => row.kind === "message" || row.kind === "outside");
  const outside = inspection.outside.map((piece) => ({ start: piece.start_char, end: piece.start_char + [...piece.text].length }));
  return inspection.diagnostics.map((diagnostic) => {
    const at = diagnostic.at.character ?? null;
    const found = at === null ? -1 : outside.findIndex((piece) => piece.start <= at && at < piece.end);
    if (found !== -1) return { key: rowKey({ kind: "outside", outside: found }), part: "body" };
    const message = diagnostic.at.message ?? null;
    if (message !== null && inspection.messages[message] !== undefined) {
      return { key: rowKey({ kind: "message", message }), part: partOf(inspection, message, diagnostic) };
    }
    return { key: last === undefined ? "" : rowKey(last), part: "body" };
  });
}

function partOf(inspection: Inspection, message: number, diagnostic: Diagnostic): "header" | "body" {
  const body = inspection.messages[message]?.spans.body;
  const at = diagnostic.at.character;
  if (body === undefined || at == null) return diagnostic.code.startsWith("header.") ? "header" : "body";
  return at < body.start_char ? "header" : "body";
}

/** The positions of the diagnostics of each row. */
export function problemsByRow(places: readonly Place[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  places.forEach(({ key }, at) => {
    const list = found.get(key);
    if (list === undefined) found.set(key, [at]);
    else list.push(at);
  });
  return found;
}
