/**
 * Blocks in the page. Nodes are made once; only what is open, the last block of each level, is looked at again.
 *
 * The open piece of a paragraph is parsed again each time it is shown, and only the nodes that differ are replaced, so
 * that a selection in what is there already survives.
 */

import type { Block, Container, DocumentBlock, TableBlock, TextBlock } from "./block_tree";
import { type InlineOptions, inlineNodes } from "./clean";
import { CodeView } from "./code_view";
import { finishFormula } from "./finish";
import { DISPLAY_CLASS, MATH_CLASS } from "./inline";
import { cellsOf } from "./lines";
import { settle } from "./settle";
import { markdownWork } from "./work";

/** A row that is longer is shown when it is whole, and as it was written. */
const ROW_SIZE = 4000;

export interface View {
  readonly node: HTMLElement;
  update(): void;
}

/** The children of a container, in a node. */
export class ChildrenView {
  private count = 0;
  private last: { block: Block; view: View } | null = null;

  constructor(
    private readonly node: HTMLElement,
    private readonly block: Container | DocumentBlock,
    private readonly options: InlineOptions,
  ) {}

  update(): void {
    const children = this.block.children as Block[];
    // The last one shown was open: it may have grown, or have turned out to be something else.
    if (this.last !== null) {
      const now = children[this.count - 1];
      if (now === this.last.block) this.last.view.update();
      else {
        this.last.view.node.remove();
        this.last = null;
        this.count--;
      }
    }
    for (; this.count < children.length; this.count++) {
      const block = children[this.count];
      if (block === undefined) break;
      const view = viewOf(block, this.options, this.block.kind === "item" && this.count === 0);
      this.node.append(view.node);
      view.update();
      this.last = { block, view };
    }
  }
}

function viewOf(block: Block, options: InlineOptions, isFirstInItem: boolean): View {
  switch (block.kind) {
    case "text":
      return new TextView(block, options, isFirstInItem);
    case "code":
      return new CodeView(block);
    case "table":
      return new TableView(block, options);
    case "math": {
      const node = document.createElement("div");
      node.className = DISPLAY_CLASS;
      return new Simple(node, block, () => {
        node.textContent = block.tex.trim();
        if (block.isDone) finishFormula(node, block.tex.trim(), true);
      });
    }
    case "rule":
      return new Simple(document.createElement("hr"), block, () => undefined);
    default: {
      const list = block.kind === "list" ? block : null;
      const node = document.createElement(list ? (list.start === null ? "ul" : "ol") : block.kind === "item" ? "li" : "blockquote");
      if (node instanceof HTMLOListElement && list && list.start !== 1) node.start = list.start ?? 1;
      const children = new ChildrenView(node, block, options);
      return { node, update: () => (list && node.classList.toggle("loose", list.isLoose), children.update()) };
    }
  }
}

class Simple implements View {
  private version = -1;
  constructor(
    readonly node: HTMLElement,
    private readonly block: Block,
    private readonly draw: () => void,
  ) {}
  update(): void {
    if (this.version === this.block.version) return;
    this.version = this.block.version;
    this.draw();
  }
}

/** A paragraph or a heading. Headings start at the third level: those above belong to the page. */
class TextView implements View {
  node: HTMLElement = document.createElement("p");
  private host = this.node;
  private level = 0;
  private shownPieces = 0;
  private version = -1;

  constructor(
    private readonly block: TextBlock,
    private readonly options: InlineOptions,
    private readonly isFirstInItem: boolean,
  ) {
    this.node.dir = "auto";
  }

  update(): void {
    const { block } = this;
    if (this.version === block.version) return;
    this.version = block.version;
    if (this.level !== block.level) this.rename();
    for (let index = Math.max(this.shownPieces - 1, 0); index < block.pieces.length; index++) {
      const piece = block.pieces[index];
      if (piece === undefined) break;
      if (index >= this.shownPieces) this.addPiece();
      let text = piece.text;
      if (index === 0 && this.isFirstInItem) text = this.task(text);
      if (block.level > 0) text = text.replace(/(?:^|[ \t]+)#+[ \t]*$/, "");
      text = text.trimEnd();
      markdownWork.value.renderedPieces++;
      // The first line of a table looks like one before the second says so.
      if (!piece.isDone && block.pieces.length === 1 && /^\|[^\n]*$/.test(text)) text = "";
      const isShort = index < block.pieces.length - 1 && /\s$/.test(piece.text);
      patch(this.host, inlineNodes((piece.isDone ? text : settle(text)) + (isShort ? " " : ""), this.options));
      if (piece.isDone) finishFormulas(this.host);
    }
  }

  private rename(): void {
    this.level = this.block.level;
    const renamed = document.createElement(this.level === 0 ? "p" : `h${Math.min(this.level + 2, 6)}`);
    renamed.dir = "auto";
    renamed.append(...this.node.childNodes);
    this.node.replaceWith(renamed);
    if (this.host === this.node) this.host = renamed;
    this.node = renamed;
  }

  private addPiece(): void {
    this.shownPieces++;
    if (this.shownPieces === 1) return;
    if (this.shownPieces === 2) {
      const first = document.createElement("span");
      first.append(...this.node.childNodes);
      this.node.append(first);
    }
    this.host = document.createElement("span");
    this.node.append(this.host);
  }

  /** Take the box of a task (`[ ] `, `[x] `) from the text. It cannot be ticked: it says what the model wrote. */
  private task(text: string): string {
    const mark = /^\[([ xX])\](?:\s+|$)/.exec(text);
    if (mark === null) return text;
    let box = this.node.previousElementSibling;
    if (box === null && this.node.parentElement !== null) box = this.addBox(this.node.parentElement);
    if (box instanceof HTMLInputElement) box.checked = mark[1] !== " ";
    return box === null ? `${mark[1] === " " ? "☐" : "☑"} ${text.slice(mark[0].length)}` : text.slice(mark[0].length);
  }

  private addBox(item: HTMLElement): HTMLInputElement {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.disabled = true;
    box.setAttribute("aria-label", "Task");
    item.prepend(box);
    item.classList.add("task");
    return box;
  }
}

class TableView implements View {
  readonly node = document.createElement("div");
  private readonly body = document.createElement("tbody");
  private shownRows = 0;
  private version = -1;

  constructor(
    private readonly block: TableBlock,
    private readonly options: InlineOptions,
  ) {
    this.node.className = "table-box";
    this.node.tabIndex = 0;
    this.node.setAttribute("role", "group");
    this.node.setAttribute("aria-label", "Table");
    const table = document.createElement("table");
    const row = document.createElement("tr");
    block.header.forEach((cell, column) => row.append(this.cell("th", cell, column, true)));
    const head = document.createElement("thead");
    head.append(row);
    table.append(head, this.body);
    this.node.append(table);
    finishFormulas(row);
  }

  update(): void {
    const { block } = this;
    if (this.version === block.version) return;
    this.version = block.version;
    for (let index = Math.max(this.shownRows - 1, 0); index < block.rows.length; index++) {
      const text = block.rows[index] ?? "";
      const isDone = block.isDone || index < block.rows.length - 1;
      if (text.length > ROW_SIZE && !isDone) break;
      markdownWork.value.renderedPieces++;
      const row = document.createElement("tr");
      const cells = text.length > ROW_SIZE ? [] : cellsOf(text);
      block.header.forEach((_, column) => row.append(this.cell("td", cells[column] ?? "", column, isDone)));
      const [only] = row.cells;
      if (text.length > ROW_SIZE && only) only.textContent = text;
      if (index < this.shownRows) this.body.lastElementChild?.replaceWith(row);
      else this.body.append(row);
      this.shownRows = index + 1;
      if (isDone) finishFormulas(row);
    }
  }

  private cell(name: "td" | "th", text: string, column: number, isDone: boolean): HTMLElement {
    const cell = document.createElement(name);
    cell.dir = "auto";
    if (name === "th") cell.setAttribute("scope", "col");
    const alignment = this.block.alignments[column];
    if (alignment) cell.classList.add(`align-${alignment}`);
    cell.append(inlineNodes(isDone ? text : settle(text), this.options));
    return cell;
  }
}

function finishFormulas(host: HTMLElement): void {
  for (const node of host.querySelectorAll<HTMLElement>(`.${MATH_CLASS}, .${DISPLAY_CLASS}`)) {
    finishFormula(node, node.textContent ?? "", node.classList.contains(DISPLAY_CLASS));
  }
}

/** Make the children of the host those of the fragment, and keep the ones in front that are the same. */
function patch(host: HTMLElement, fragment: DocumentFragment): void {
  let old = host.firstChild;
  let next = fragment.firstChild;
  while (old !== null && next !== null && old.isEqualNode(next)) {
    const same: ChildNode = next;
    old = old.nextSibling;
    next = next.nextSibling;
    same.remove();
  }
  if (old instanceof Text && next instanceof Text && next.data.startsWith(old.data)) {
    old.appendData(next.data.slice(old.length));
    next.remove();
    old = old.nextSibling;
  }
  while (old !== null) {
    const gone: ChildNode = old;
    old = old.nextSibling;
    gone.remove();
  }
  host.append(fragment);
}
