/**
 * The blocks of a Markdown text, as `Blocks` builds them.
 *
 * Only the last child of each level can still change. What changes raises its `version`; what is done never changes.
 */

/** A run of inline text that is parsed as one. A long paragraph has several. */
export interface Piece {
  text: string;
  isDone: boolean;
}

interface BlockBase {
  version: number;
  isDone: boolean;
}

/** A paragraph (`level` 0) or a heading. */
export interface TextBlock extends BlockBase {
  kind: "text";
  level: 0 | 1 | 2 | 3 | 4 | 5 | 6;
  pieces: Piece[];
}

export interface CodeBlock extends BlockBase {
  kind: "code";
  /** The first word after the fence, as written. */
  language: string;
  isFenced: boolean;
  /** The code in the order it came: only ever appended to, so that nobody joins a long text for a short addition. */
  parts: string[];
  size: number;
}

/** A formula that stands alone. It is only done once its end was seen: half of one becomes a paragraph. */
export interface MathBlock extends BlockBase {
  kind: "math";
  tex: string;
}

export type Alignment = "left" | "center" | "right" | null;

export interface TableBlock extends BlockBase {
  kind: "table";
  header: string[];
  alignments: Alignment[];
  /** The rows as written. Only the last one can grow. */
  rows: string[];
}

export interface RuleBlock extends BlockBase {
  kind: "rule";
}

export interface ListBlock extends BlockBase {
  kind: "list";
  /** The character that makes an item belong to the list: `-`, `*`, `+`, `.` or `)`. */
  marker: string;
  /** The first number, or null in a list with bullets. */
  start: number | null;
  isLoose: boolean;
  children: ItemBlock[];
}

export interface ItemBlock extends BlockBase {
  kind: "item";
  /** How far the item's lines are indented. */
  offset: number;
  hadBlank: boolean;
  children: Block[];
}

export interface QuoteBlock extends BlockBase {
  kind: "quote";
  children: Block[];
}

export interface DocumentBlock extends BlockBase {
  kind: "document";
  children: Block[];
}

export type Leaf = TextBlock | CodeBlock | MathBlock | TableBlock | RuleBlock;
export type Container = DocumentBlock | QuoteBlock | ListBlock | ItemBlock;
export type Block = Leaf | QuoteBlock | ListBlock | ItemBlock;
