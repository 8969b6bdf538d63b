/**
 * Split Markdown into blocks while it arrives. Pure: no DOM.
 *
 *     const blocks = new Blocks();
 *     blocks.feed("# Tit"); blocks.feed("le\n\nText"); blocks.close();   // blocks.root.children
 *
 * 1. Chunking is invisible: any split of the text gives the same blocks once it is closed.
 * 2. Work per character is constant: a line is looked at again only while it is undecided what it is, and never beyond
 *    its first `LONG_LINE` characters. Long paragraphs come in pieces (`balance.ts`), code only grows.
 * 3. What is done never changes. Only the last block of each level is open.
 *
 * Lists and quotes hold blocks of their own, `DEPTH` levels deep; what is deeper is text. Reference links, footnotes and
 * HTML, except for the few tags of `tags.ts`, are not supported: they are shown as they were written.
 */

import { Balance } from "./balance";
import type { Alignment, Block, Container, DocumentBlock, Leaf, ListBlock, TextBlock } from "./block_tree";
import { cellsOf, indentOf, type Line, LONG_LINE, readLine, type Reach, untabbed } from "./lines";
import { markdownWork } from "./work";

const DEPTH = 16;
/** A formula that has no end after so many characters is none. */
const MATH_SIZE = 8000;

export class Blocks {
  readonly root: DocumentBlock = { kind: "document", version: 0, isDone: false, children: [] };
  private open: Container[] = [this.root];
  private leaf: Leaf | null = null;
  /** The start of the current line, as long as it is undecided. */
  private held = "";
  /** Whether the current line was decided, and what follows belongs to the open leaf. */
  private isInLine = false;
  private balance = new Balance();
  /** Where the last line of the open paragraph starts in its last piece; -1 where the line began in an earlier one. */
  private lineStart = 0;
  private fence = "";
  private fenceIndent = 0;
  private closer = "";
  private mathSource = "";
  private blankLines = 0;

  feed(text: string): void {
    // A null character is no text in HTML either; carriage returns only come in pairs with line feeds.
    const lines = text.replaceAll("\r", "").replaceAll("\0", "\ufffd").split("\n");
    lines.forEach((part, index) => {
      this.part(part);
      if (index < lines.length - 1) this.endLine();
    });
  }

  /** There is no more text. */
  close(): void {
    if (this.held !== "") this.begin(this.held, "whole");
    this.held = "";
    this.closeTo(1);
    this.root.isDone = true;
  }

  private part(part: string): void {
    if (part === "") return;
    if (this.isInLine) return this.append(part);
    const room = LONG_LINE - this.held.length;
    this.held += part.slice(0, room);
    const isLong = this.held.length >= LONG_LINE;
    if (!this.begin(this.held, isLong ? "long" : "partial")) return;
    this.isInLine = true;
    this.held = "";
    if (part.length > room) this.append(part.slice(room));
  }

  private endLine(): void {
    if (!this.isInLine) this.begin(this.held, "whole");
    if (this.leaf?.kind === "text" && this.leaf.level > 0) this.closeLeaf();
    this.held = "";
    this.isInLine = false;
  }

  /** Take the start of a line, unless it is undecided what it is. */
  private begin(line: string, reach: Reach): boolean {
    markdownWork.value.scannedCharacters += line.length;
    let rest = untabbed(line);
    let matched = 1;
    for (; matched < this.open.length; matched++) {
      const container = this.open[matched];
      if (container?.kind === "quote") {
        if (reach === "partial" && /^ {0,3}>?$/.test(rest)) return false;
        const mark = /^ {0,3}>[ \t]?/.exec(rest);
        if (!mark) break;
        rest = untabbed(rest.slice(mark[0].length));
      } else if (container?.kind === "item") {
        const isBlank = /^\s*$/.test(rest);
        if (isBlank && reach === "partial") return false;
        if (!isBlank && indentOf(rest) < container.offset) break;
        rest = rest.slice(Math.min(container.offset, rest.length));
      }
    }
    // A list is matched by one of its items only.
    if (this.open[matched - 1]?.kind === "list") matched--;
    const isMatched = matched === this.open.length;
    if (isMatched && this.leaf?.kind === "code" && this.leaf.isFenced) return this.codeLine(rest, reach);
    if (isMatched && this.leaf?.kind === "math") return this.mathLine(rest, reach);
    return this.start(rest, reach, matched);
  }

  private start(first: string, reach: Reach, matched: number): boolean {
    const isMatched = matched === this.open.length;
    const paragraph = this.leaf?.kind === "text" && this.leaf.level === 0 ? this.leaf : null;
    const entered: Line[] = [];
    let rest = first;
    for (;;) {
      let line = readLine(rest, reach);
      if (line.is === "undecided") return false;
      const continued = entered.length === 0 ? paragraph : null;
      line = this.settled(line, rest, isMatched, continued, entered.length);
      if (line.is === "quote" || line.is === "item") {
        entered.push(line);
        rest = untabbed(line.rest);
        continue;
      }
      this.enter(entered, line, matched, continued);
      return true;
    }
  }

  /** What the line is in its place: some things are only what they look like after or outside a paragraph. */
  private settled(line: Line, whole: string, isMatched: boolean, continued: TextBlock | null, depth: number): Line {
    const text: Line = { is: "text", rest: whole.trimStart() };
    const isInside = isMatched && depth === 0;
    switch (line.is) {
      case "quote":
        return this.open.length + 2 * depth >= 2 * DEPTH ? text : line;
      case "item": {
        const isBarred = isMatched && continued !== null && (line.isEmpty || (line.start ?? 1) !== 1);
        return isBarred || this.open.length + 2 * depth >= 2 * DEPTH ? text : line;
      }
      case "indented":
        return continued || (isInside && this.leaf?.kind === "table") ? text : line;
      case "strokes": {
        const isUnderline = continued !== null && isMatched && line.underline > 0 && continued.pieces.length === 1;
        if (isUnderline) return line;
        if (line.isRule) return { ...line, underline: 0 };
        if (line.rest.trim() !== "-" || (continued && isMatched)) return text;
        return { is: "item", marker: "-", start: null, offset: indentOf(whole) + 2, rest: "", isEmpty: true };
      }
      case "columns": {
        const header = continued && isMatched ? this.headerOf(continued) : null;
        return header?.length === line.alignments.length ? line : text;
      }
      default:
        return line;
    }
  }

  /** Close what the line does not go on with, open what it opens, and take its text. */
  private enter(entered: Line[], line: Line, matched: number, continued: TextBlock | null): void {
    const isMatched = matched === this.open.length;
    if (continued && line.is === "text") {
      // Also a line that left out the marks of its quotes and items goes on with their paragraph.
      this.lineStart = (continued.pieces.at(-1)?.text.length ?? 0) + 1;
      return this.append(`\n${line.rest}`);
    }
    if (line.is === "blank" && entered.length === 0) return this.blank(matched);
    if (line.is === "strokes" && line.underline > 0 && continued) {
      continued.level = line.underline as 1 | 2;
      return this.closeLeaf();
    }
    if (line.is === "columns" && continued) return this.makeTable(continued, line.alignments);
    if (isMatched && entered.length === 0) {
      if (this.leaf?.kind === "table" && line.is === "text") {
        this.leaf.rows.push("");
        return this.append(line.rest);
      }
      if (this.leaf?.kind === "code" && line.is === "indented") {
        const lines = "\n".repeat(this.blankLines + 1);
        this.blankLines = 0;
        return this.append(lines + line.rest);
      }
    }
    const sibling = this.open[matched];
    const first = entered[0];
    const goesOn = sibling?.kind === "list" && first?.is === "item" && first.marker === sibling.marker &&
      (first.start === null) === (sibling.start === null);
    this.closeTo(goesOn ? matched + 1 : matched);
    for (const step of entered) {
      if (step.is === "quote") this.push({ kind: "quote", version: 0, isDone: false, children: [] });
      else if (step.is === "item") this.pushItem(step);
    }
    this.pushLeaf(line);
  }

  private pushItem(line: Line & { is: "item" }): void {
    if (this.open.at(-1)?.kind !== "list") {
      this.push({ kind: "list", version: 0, isDone: false, marker: line.marker, start: line.start, isLoose: false, children: [] });
    }
    const list = this.open.at(-1) as ListBlock;
    if (list.children.at(-1)?.hadBlank) list.isLoose = true;
    this.push({ kind: "item", version: 0, isDone: false, offset: line.offset, hadBlank: false, children: [] });
  }

  private push(block: Exclude<Container, DocumentBlock>): void {
    this.addChild(block);
    this.open.push(block);
  }

  private addChild(block: Block): void {
    const parent = this.open.at(-1) ?? this.root;
    if (parent.kind === "item" && parent.hadBlank && parent.children.length > 0) {
      const list = this.open.at(-2);
      if (list?.kind === "list") list.isLoose = true;
    }
    for (const container of this.open) if (container.kind === "item") container.hadBlank = false;
    (parent.children as Block[]).push(block);
    for (const container of this.open) container.version++;
  }

  private pushLeaf(line: Line): void {
    const base = { version: 0, isDone: false };
    switch (line.is) {
      case "text":
        this.pushText(0, line.rest);
        break;
      case "heading":
        this.pushText(line.level, line.rest);
        break;
      case "indented":
        this.setLeaf({ ...base, kind: "code", language: "", isFenced: false, parts: [], size: 0 });
        this.blankLines = 0;
        this.append(line.rest);
        break;
      case "fence":
        this.fence = line.fence;
        this.fenceIndent = line.indent;
        this.setLeaf({ ...base, kind: "code", language: line.language, isFenced: true, parts: [], size: 0 });
        break;
      case "math":
        this.closer = line.closer;
        this.mathSource = line.source;
        this.setLeaf({ ...base, kind: "math", tex: line.tex.trim() });
        if (line.isClosed) this.endMath();
        break;
      case "strokes":
        this.setLeaf({ ...base, kind: "rule" });
        this.closeLeaf();
        break;
      default:
        break; // a blank line after a mark opens nothing
    }
  }

  private setLeaf(leaf: Leaf): void {
    this.addChild(leaf);
    this.leaf = leaf;
  }

  private pushText(level: TextBlock["level"], text: string): void {
    this.setLeaf({ kind: "text", version: 0, isDone: false, level, pieces: [{ text: "", isDone: false }] });
    this.balance = new Balance();
    this.lineStart = 0;
    this.append(text);
  }

  /** Take text of the current line. */
  private append(text: string): void {
    const leaf = this.leaf;
    if (leaf === null) return;
    leaf.version++;
    if (leaf.kind === "text") this.appendText(leaf, text);
    else if (leaf.kind === "code") {
      leaf.parts.push(text);
      leaf.size += text.length;
    } else if (leaf.kind === "table") leaf.rows[leaf.rows.length - 1] += text;
    else if (leaf.kind === "math") {
      leaf.tex += text;
      this.mathSource += text;
    }
  }

  private appendText(leaf: TextBlock, text: string): void {
    let piece = leaf.pieces[leaf.pieces.length - 1];
    let from = 0;
    for (let at = 0; at < text.length && piece; at++) {
      if (!this.balance.step(text[at] ?? "")) continue;
      piece.text += text.slice(from, at + 1);
      piece.isDone = true;
      this.lineStart = this.lineStart === piece.text.length ? 0 : -1;
      from = at + 1;
      piece = { text: "", isDone: false };
      leaf.pieces.push(piece);
      this.balance = new Balance();
    }
    if (piece) piece.text += text.slice(from);
  }

  private codeLine(line: string, reach: Reach): boolean {
    const leaf = this.leaf;
    if (leaf?.kind !== "code") return false;
    const mark = /^ {0,3}([`~]*)\s*$/.exec(line);
    if (mark && reach === "partial") return false;
    const fence = mark?.[1] ?? "";
    if (fence.length >= this.fence.length && fence === (this.fence[0] ?? "").repeat(fence.length)) this.closeLeaf();
    else {
      const code = line.slice(Math.min(indentOf(line), this.fenceIndent));
      this.append(leaf.parts.length > 0 ? `\n${code}` : code);
    }
    return true;
  }

  private mathLine(line: string, reach: Reach): boolean {
    if (reach === "partial") return false;
    const leaf = this.leaf;
    if (leaf?.kind !== "math") return false;
    if (/^\s*$/.test(line)) {
      this.blank(this.open.length);
      return true;
    }
    const end = reach === "whole" ? line.indexOf(this.closer) : -1;
    if (end < 0) {
      this.append(`\n${line}`);
      if (leaf.tex.length > MATH_SIZE) this.mathToText(leaf);
      return true;
    }
    this.append(`\n${line.slice(0, end)}`);
    this.endMath();
    const after = line.slice(end + 2).trim();
    if (after !== "") this.pushText(0, after);
    return true;
  }

  private endMath(): void {
    const leaf = this.leaf;
    if (leaf === null) return;
    this.finish(leaf);
    this.leaf = null;
  }

  /** What began like a formula and never ended was a paragraph. */
  private mathToText(leaf: Leaf): void {
    const source = this.mathSource;
    this.dropLast(leaf);
    this.pushText(0, source);
  }

  private dropLast(leaf: Leaf): void {
    const siblings = (this.open.at(-1) ?? this.root).children as Block[];
    if (siblings.at(-1) === leaf) siblings.pop();
    this.leaf = null;
  }

  private headerOf(paragraph: TextBlock): string[] | null {
    if (this.lineStart < 0) return null;
    const line = paragraph.pieces.at(-1)?.text.slice(this.lineStart) ?? "";
    return line.includes("|") ? cellsOf(line) : null;
  }

  /** The last line of the paragraph was the header of a table. */
  private makeTable(paragraph: TextBlock, alignments: Alignment[]): void {
    const header = this.headerOf(paragraph) ?? [];
    const piece = paragraph.pieces.at(-1);
    if (this.lineStart > 0 && piece) {
      piece.text = piece.text.slice(0, this.lineStart - 1);
      this.closeLeaf();
    } else if (paragraph.pieces.length > 1) {
      paragraph.pieces.pop();
      this.closeLeaf();
    } else this.dropLast(paragraph);
    this.setLeaf({ kind: "table", version: 0, isDone: false, header, alignments, rows: [] });
  }

  private blank(matched: number): void {
    if (matched < this.open.length) this.closeTo(matched);
    if (this.leaf?.kind === "code") this.blankLines++;
    else this.closeLeaf();
    for (const container of this.open) if (container.kind === "item") container.hadBlank = true;
  }

  private closeTo(depth: number): void {
    this.closeLeaf();
    for (const container of this.open.splice(depth)) this.finish(container);
  }

  private closeLeaf(): void {
    if (this.leaf?.kind === "math") this.mathToText(this.leaf);
    const leaf = this.leaf;
    if (leaf === null) return;
    if (leaf.kind === "text") for (const piece of leaf.pieces) piece.isDone = true;
    this.finish(leaf);
    this.leaf = null;
  }

  private finish(block: Block | Container): void {
    block.isDone = true;
    block.version++;
  }
}
