/**
 * The text of an unfinished paragraph as it most likely goes on, so that it does not flicker while it is written.
 *
 * What is open is closed (`**bold` is bold at once, `` `code `` is code), half a link is its text, and half a marker or
 * half a tag is not shown yet. Pure; it only ever looks at one piece of a paragraph, in time linear in its length.
 */

import { PAIRED_TAGS } from "./tags";

const TAG = new RegExp(`<(/?)(${PAIRED_TAGS})>`, "iy");
/** The beginning of one of the tags at the end of the text: `<`, `</su`, `<br /`. */
const HALF_TAG = /<(?:\/?(?:s|su|sub|sup|k|kb|kbd)?|b|br *\/?)$/i;

export function settle(text: string): string {
  let shown = text;
  // Half a citation, and a mark at the very end that may open or close anything.
  const marker = shown.lastIndexOf("【");
  if (marker >= 0 && shown.length - marker < 200 && !shown.includes("】", marker)) shown = shown.slice(0, marker);
  shown = shown.replace(HALF_TAG, "");
  shown = shown.replace(/(?:!?\[|!|\\|(?<![*_~])[*_~]+)$/, "");
  shown = shown.replace(/!?\[([^[\]\n]*)\](?:\([^()\s]*(?:\s[^()\n]*)?)?$/, (whole: string, label: string) =>
    whole.includes("](") ? label : whole,
  );
  return shown + closersOf(shown);
}

/** What has to follow so that everything that was opened is closed. */
function closersOf(text: string): string {
  const open = new Open();
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? "";
    if (character === "\\") {
      const next = text[at + 1];
      if (next === "(" || next === "[") {
        const closer = next === "(" ? "\\)" : "\\]";
        const end = text.indexOf(closer, at + 2);
        if (end < 0) return (/\S/.test(text.slice(at + 2)) ? closer : "") + open.closers();
        at = end + 1;
      } else at++;
    } else if (character === "`") {
      const run = runAt(text, at);
      const end = endOfCode(text, at + run.length, run);
      if (end < 0) return (/[^`\s]/.test(text.slice(at)) ? run : "") + open.closers();
      at = end - 1;
    } else if (character === "<") {
      TAG.lastIndex = at;
      const tag = TAG.exec(text);
      if (tag === null) continue;
      at += tag[0].length - 1;
      const closer = `</${(tag[2] ?? "").toLowerCase()}>`;
      if (tag[1] === "") open.push(closer);
      else if (open.has(closer)) open.close(closer);
    } else if (character === "*" || character === "_" || character === "~") {
      const run = runAt(text, at);
      const before = text[at - 1] ?? " ";
      const after = text[at + run.length] ?? " ";
      at += run.length - 1;
      if (run.length > 3 || (character === "~" && run.length !== 2)) continue;
      const isWord = character === "_" && /[\p{L}\p{N}]/u.test(before) && /[\p{L}\p{N}]/u.test(after);
      if (!isWord && open.has(run) && /\S/.test(before)) open.close(run);
      else if (!isWord && /\S/.test(after) && !/[\p{L}\p{N}]/u.test(character === "_" ? before : " ")) open.push(run);
    }
  }
  return open.closers();
}

/** The marks and tags that are open, each as the text that closes it. */
class Open {
  private readonly stack: string[] = [];
  private readonly counts = new Map<string, number>();

  has(closer: string): boolean {
    return (this.counts.get(closer) ?? 0) > 0;
  }

  push(closer: string): void {
    this.stack.push(closer);
    this.counts.set(closer, (this.counts.get(closer) ?? 0) + 1);
  }

  /** Close the last of its kind, and what was opened since. */
  close(closer: string): void {
    for (let last = this.stack.pop(); last !== undefined; last = this.stack.pop()) {
      this.counts.set(last, (this.counts.get(last) ?? 0) - 1);
      if (last === closer) return;
    }
  }

  closers(): string {
    return [...this.stack].reverse().join("");
  }
}

function runAt(text: string, at: number): string {
  let end = at;
  while (text[end] === text[at]) end++;
  return text.slice(at, end);
}

/** Where the code span ends that a run of backticks opened, or -1. */
function endOfCode(text: string, from: number, run: string): number {
  for (let at = text.indexOf("`", from); at >= 0; at = text.indexOf("`", at)) {
    const found = runAt(text, at);
    at += found.length;
    if (found.length === run.length) return at;
  }
  return -1;
}
