/**
 * A Markdown text in a node, kept up to date while the text grows.
 *
 * While it is live the text is only ever appended to: then only what is new is read. Anything else starts over.
 */

import type { Annotation } from "../api/wire";
import { Blocks } from "./blocks";
import { cite, type Source } from "./citations";
import { ChildrenView } from "./view";

const TAIL = 64;
const NONE: readonly Annotation[] = [];

export interface Shown {
  text: string;
  isLive: boolean;
  annotations?: readonly Annotation[] | undefined;
  openLinks?: boolean | undefined;
}

export class MarkdownView {
  private blocks = new Blocks();
  private children: ChildrenView | null = null;
  private fed = "";
  /** The annotations that were looked at last. */
  private seen: readonly Annotation[] = NONE;
  /** The annotations that everything shown was built with, spelled out. */
  private builtWith = "";
  private openLinks = true;
  private sources = new Map<string, Source>();

  constructor(private readonly node: HTMLElement) {}

  show({ text, isLive, annotations = NONE, openLinks = true }: Shown): void {
    let shown = text;
    let key = this.builtWith;
    if (!isLive || annotations !== this.seen) {
      const cited = cite(text, annotations);
      this.seen = annotations;
      // While it is live, markers are not put into the text, and what is shown stays: it is put right at the end.
      for (const [marker, source] of cited.sources) this.sources.set(marker, source);
      if (!isLive) {
        shown = cited.text;
        key = annotations.length === 0 ? "" : JSON.stringify(annotations);
      }
    }
    const isStale = openLinks !== this.openLinks || key !== this.builtWith;
    const isDone = this.blocks.root.isDone;
    if (isDone && !isStale && !isLive && this.fed === shown) return;
    if (this.children === null || isStale || isDone || !this.isMore(shown, isLive)) {
      this.openLinks = openLinks;
      this.builtWith = key;
      this.startOver();
    }
    this.blocks.feed(shown.slice(this.fed.length));
    this.fed = shown;
    if (!isLive) this.blocks.close();
    this.children?.update();
  }

  private isMore(text: string, isLive: boolean): boolean {
    if (!isLive) return text.startsWith(this.fed);
    const { length } = this.fed;
    return text.length >= length && text.startsWith(this.fed.slice(-TAIL), Math.max(0, length - TAIL));
  }

  private startOver(): void {
    this.blocks = new Blocks();
    this.fed = "";
    this.node.replaceChildren();
    this.children = new ChildrenView(this.node, this.blocks.root, { sources: this.sources, openLinks: this.openLinks });
  }
}
