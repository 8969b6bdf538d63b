/**
 * A block of code in the page: its language, a button that copies it, and the code.
 *
 * New code is appended; what is shown already is not touched again. It is kept in several nodes, so that the browser
 * need not lay out all lines for each new one.
 */

import type { CodeBlock } from "./block_tree";
import { finishCode } from "./finish";
import { markdownWork } from "./work";

const NODE_SIZE = 8000;

export class CodeView {
  readonly node = document.createElement("div");
  private readonly code = document.createElement("code");
  private text: Text | null = null;
  private shownParts = 0;
  private version = -1;

  constructor(private readonly block: CodeBlock) {
    const language = block.language.slice(0, 40);
    this.node.className = "code-block";
    const head = document.createElement("div");
    head.className = "code-head";
    const name = document.createElement("span");
    name.textContent = language || "text";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain copy";
    const what = document.createElement("span");
    what.className = "hidden-visually";
    what.textContent = " code";
    button.append("Copy", what);
    const said = document.createElement("span");
    said.className = "hidden-visually";
    said.setAttribute("role", "status");
    button.addEventListener("click", () => void this.copy(button, what, said));
    head.append(name, button, said);
    const box = document.createElement("pre");
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
    box.dir = "ltr";
    box.append(this.code);
    this.node.append(head, box);
  }

  update(): void {
    const { block } = this;
    if (this.version === block.version) return;
    this.version = block.version;
    markdownWork.value.renderedPieces++;
    for (; this.shownParts < block.parts.length; this.shownParts++) this.append(block.parts[this.shownParts] ?? "");
    if (block.isDone) finishCode(this.code, block.parts.join(""), block.language);
  }

  private append(part: string): void {
    markdownWork.value.appendedCharacters += part.length;
    let rest = part;
    if (this.text !== null && this.text.length >= NODE_SIZE) {
      const end = rest.indexOf("\n");
      if (end >= 0) {
        this.text.appendData(rest.slice(0, end + 1));
        this.text = null;
        rest = rest.slice(end + 1);
      }
    }
    if (this.text === null) {
      this.text = document.createTextNode("");
      const lines = document.createElement("span");
      lines.className = "code-lines";
      lines.append(this.text);
      this.code.append(lines);
    }
    this.text.appendData(rest);
  }

  private async copy(button: HTMLButtonElement, what: HTMLElement, said: HTMLElement): Promise<void> {
    let word = "Copied";
    try {
      await navigator.clipboard.writeText(this.block.parts.join(""));
    } catch {
      // Without HTTPS there is no clipboard: the code is marked, and the user's own keys copy it.
      getSelection()?.selectAllChildren(this.code);
      word = "Marked: press Ctrl+C";
    }
    button.textContent = word;
    said.textContent = word;
    setTimeout(() => {
      button.replaceChildren("Copy", what);
      said.textContent = "";
    }, 2500);
  }
}
