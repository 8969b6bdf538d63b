/**
 * What one line of Markdown is, as far as its own characters say. Pure: no state, no DOM.
 *
 * A line may still be arriving. `undecided` says that more characters could make it something else; everything decided
 * stays decided, whatever follows. `long` lines are judged by their first `LONG_LINE` characters alone.
 */

import type { Alignment } from "./block_tree";

export const LONG_LINE = 1000;

export type Reach = "partial" | "whole" | "long";

export type Line =
  | { is: "undecided" }
  | { is: "blank" }
  | { is: "indented"; rest: string }
  | { is: "quote"; rest: string }
  | { is: "item"; marker: string; start: number | null; offset: number; rest: string; isEmpty: boolean }
  | { is: "fence"; fence: string; indent: number; language: string }
  | { is: "heading"; level: 1 | 2 | 3 | 4 | 5 | 6; rest: string }
  | { is: "math"; closer: string; tex: string; isClosed: boolean; source: string }
  /** `---`, `***` or `===`: a rule, the underline of a heading, or text. */
  | { is: "strokes"; underline: 0 | 1 | 2; isRule: boolean; rest: string }
  /** `|---|:--|`: the second line of a table, or text. */
  | { is: "columns"; alignments: Alignment[]; rest: string }
  | { is: "text"; rest: string };

const UNDECIDED: Line = { is: "undecided" };

export function indentOf(line: string): number {
  let count = 0;
  while (line[count] === " ") count++;
  return count;
}

/** The line with the tabs of its indentation as spaces. */
export function untabbed(line: string): string {
  const white = /^[ \t]*/.exec(line)?.[0] ?? "";
  if (!white.includes("\t")) return line;
  let columns = 0;
  for (const character of white) columns += character === "\t" ? 4 - (columns % 4) : 1;
  return " ".repeat(columns) + line.slice(white.length);
}

export function readLine(line: string, reach: Reach): Line {
  const isOpen = reach === "partial";
  const isWhole = reach === "whole";
  if (/^\s*$/.test(line)) return isOpen ? UNDECIDED : { is: "blank" };
  const indent = indentOf(line);
  if (indent >= 4) return { is: "indented", rest: line.slice(4) };
  const rest = line.slice(indent);

  if (rest[0] === ">") {
    if (rest.length === 1 && isOpen) return UNDECIDED;
    return { is: "quote", rest: rest.slice(/^>[ \t]/.test(rest) ? 2 : 1) };
  }
  if (/^[`~]/.test(rest)) {
    if (isOpen && (/^(?:`{1,2}|~{1,2})$/.test(rest) || /^(?:```|~~~)/.test(rest))) return UNDECIDED;
    const match = isWhole ? /^(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s]*)/.exec(rest) : null;
    if (match) return { is: "fence", fence: match[1] ?? "", indent, language: match[2] ?? "" };
  }
  if (rest[0] === "#") {
    const match = /^(#{1,6})(?:[ \t]+|$)/.exec(rest);
    if (isOpen && (/^#{1,6}$/.test(rest) || (match && match[0].length === rest.length))) return UNDECIDED;
    if (match) return { is: "heading", level: (match[1] ?? "").length as 1, rest: rest.slice(match[0].length) };
  }
  if (rest[0] === "$" || rest[0] === "\\") {
    if (isOpen && (rest.length === 1 || /^(?:\$\$|\\\[)/.test(rest))) return UNDECIDED;
    const math = isWhole ? readMath(rest) : null;
    if (math) return math;
  }
  if (/^[-*_=|:]/.test(rest)) {
    if (isOpen && (/^[-*_=][-*_= \t]*$/.test(rest) || /^[|:-][|:\- \t]*$/.test(rest))) return UNDECIDED;
    if (isWhole) {
      const isRule = /^([-*_])[ \t]*(?:\1[ \t]*){2,}$/.test(rest);
      const underline = /^=+\s*$/.test(rest) ? 1 : /^-+\s*$/.test(rest) ? 2 : 0;
      if (isRule || underline) return { is: "strokes", underline, isRule, rest };
      const alignments = rest.includes("|") ? readAlignments(rest) : null;
      if (alignments) return { is: "columns", alignments, rest };
    }
  }
  const item = /^(?:([-*+])|(\d{1,9})([.)]))([ \t]+|$)/.exec(rest);
  if (isOpen && (/^\d{1,9}$/.test(rest) || (item && item[0].length === rest.length))) return UNDECIDED;
  if (item) {
    const mark = item[0].length - (item[4] ?? "").length;
    const isEmpty = item[0].length === rest.length;
    const spaces = untabbed(" ".repeat(indent + mark) + (item[4] ?? "")).length - indent - mark;
    const padding = isEmpty || spaces > 4 ? 1 : spaces;
    return {
      is: "item",
      marker: item[1] ?? item[3] ?? "",
      start: item[2] === undefined ? null : Number(item[2]),
      offset: indent + mark + padding,
      rest: isEmpty ? "" : " ".repeat(spaces - padding) + rest.slice(item[0].length),
      isEmpty,
    };
  }
  return { is: "text", rest };
}

/** Which formula a line opens; null where something else follows the formula, which then is part of a paragraph. */
function readMath(line: string): Line | null {
  const opener = line.slice(0, 2);
  const closer = opener === "$$" ? "$$" : opener === "\\[" ? "\\]" : null;
  if (closer === null) return null;
  const end = line.indexOf(closer, 2);
  if (end < 0) return { is: "math", closer, tex: line.slice(2), isClosed: false, source: line };
  if (line.slice(end + 2).trim() !== "" || end === 2) return null;
  return { is: "math", closer, tex: line.slice(2, end), isClosed: true, source: line };
}

function readAlignments(line: string): Alignment[] | null {
  const cells = cellsOf(line);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => {
    const isLeft = cell.startsWith(":");
    return cell.endsWith(":") ? (isLeft ? "center" : "right") : isLeft ? "left" : null;
  });
}

/** The cells of a row of a table. `\|` is a bar in a cell, also in code. */
export function cellsOf(row: string): string[] {
  const cells: string[] = [];
  let cell = "";
  for (let at = 0; at < row.length; at++) {
    const character = row[at] ?? "";
    if (character === "\\" && row[at + 1] === "|") {
      cell += "|";
      at++;
    } else if (character === "|") {
      cells.push(cell.trim());
      cell = "";
    } else if (character === "\\" && at + 1 < row.length) {
      cell += character + (row[++at] ?? "");
    } else {
      cell += character;
    }
  }
  if (cell.trim() !== "") cells.push(cell.trim());
  return row.trimStart().startsWith("|") ? cells.slice(1) : cells;
}
