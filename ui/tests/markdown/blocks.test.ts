import { describe, expect, test } from "vitest";
import type { Block, DocumentBlock } from "../../src/markdown/block_tree";
import { Blocks } from "../../src/markdown/blocks";

function blocksOf(text: string): DocumentBlock {
  const blocks = new Blocks();
  blocks.feed(text);
  blocks.close();
  return blocks.root;
}

/** The tree in short: what a test wants to see, and nothing of how it came about. */
function short(block: Block): unknown {
  switch (block.kind) {
    case "text":
      return [block.level === 0 ? "p" : `h${block.level}`, ...block.pieces.map((piece) => piece.text)];
    case "code":
      return ["code", block.language, block.parts.join("")];
    case "math":
      return ["math", block.tex.trim()];
    case "table":
      return ["table", block.header, block.alignments, block.rows];
    case "rule":
      return ["rule"];
    case "list":
      return [block.start === null ? "ul" : `ol ${block.start}`, block.isLoose ? "loose" : "tight", ...block.children.map(short)];
    default:
      return [block.kind, ...block.children.map(short)];
  }
}

const shape = (text: string) => blocksOf(text).children.map(short);

describe("blocks", () => {
  test.each<[string, string, unknown]>([
    ["paragraphs", "one\ntwo\n\nthree", [["p", "one\ntwo"], ["p", "three"]]],
    ["headings", "# One\ntext\n###### Six\n#no", [["h1", "One"], ["p", "text"], ["h6", "Six"], ["p", "#no"]]],
    ["underlined headings", "One\n===\nTwo\n---\n---", [["h1", "One"], ["h2", "Two"], ["rule"]]],
    ["rules", "***\n- - -\n___", [["rule"], ["rule"], ["rule"]]],
    ["code", "```py\na = 1\n\n  b\n```\nafter", [["code", "py", "a = 1\n\n  b"], ["p", "after"]]],
    ["code that never ends", "~~~\na\n```\nb", [["code", "", "a\n```\nb"]]],
    ["code between words", "see ```x``` here\n```x``` there", [["p", "see ```x``` here\n```x``` there"]]],
    ["indented code", "a\n\n    b\n\n      c\nd", [["p", "a"], ["code", "", "b\n\n  c"], ["p", "d"]]],
    ["a list", "- a\n- b\n  more\n* c", [["ul", "tight", ["item", ["p", "a"]], ["item", ["p", "b\nmore"]]], ["ul", "tight", ["item", ["p", "c"]]]]],
    ["a loose list", "3. a\n\n4. b", [["ol 3", "loose", ["item", ["p", "a"]], ["item", ["p", "b"]]]]],
    ["a list in a list", "1. a\n   - b\n   - c\n2. d", [["ol 1", "tight", ["item", ["p", "a"], ["ul", "tight", ["item", ["p", "b"]], ["item", ["p", "c"]]]], ["item", ["p", "d"]]]]],
    ["code in a list", "- a\n  ```js\n  x\n\n    y\n  ```\n- b", [["ul", "tight", ["item", ["p", "a"], ["code", "js", "x\n\n  y"]], ["item", ["p", "b"]]]]],
    ["the end of a list", "- a\n\nb", [["ul", "tight", ["item", ["p", "a"]]], ["p", "b"]]],
    ["a lazy line", "- a\nb\n> c\nd", [["ul", "tight", ["item", ["p", "a\nb"]]], ["quote", ["p", "c\nd"]]]],
    ["no list in a paragraph", "in\n1986. a year\n- but this", [["p", "in\n1986. a year"], ["ul", "tight", ["item", ["p", "but this"]]]]],
    ["an empty item", "-\n- a", [["ul", "tight", ["item"], ["item", ["p", "a"]]]]],
    ["a quote", "> a\n>\n> - b\n\nc", [["quote", ["p", "a"], ["ul", "tight", ["item", ["p", "b"]]]], ["p", "c"]]],
    ["a table", "| a | b |\n|---|:-:|\n| 1 | 2 |\n| x \\| y |\n\nafter", [["table", ["a", "b"], [null, "center"], ["| 1 | 2 |", "| x \\| y |"]], ["p", "after"]]],
    ["a table under a paragraph", "text\na | b\n--|--\n1 | 2", [["p", "text"], ["table", ["a", "b"], [null, null], ["1 | 2"]]]],
    ["no table", "a | b\n|---|\n1", [["p", "a | b\n|---|\n1"]]],
    ["a formula", "so:\n\\[\nx^2\n\\]\nthen $$y$$.\n$$ z $$", [["p", "so:"], ["math", "x^2"], ["p", "then $$y$$."], ["math", "z"]]],
    ["a formula that never ends", "$$ is the shell\n\nnext", [["p", "$$ is the shell"], ["p", "next"]]],
    ["tabs", "-\ta\n\tb", [["ul", "tight", ["item", ["p", "a\nb"]]]]],
    ["windows lines", "a\r\n\r\nb", [["p", "a"], ["p", "b"]]],
    ["HTML as text", "<div>\n*a*\n</div>", [["p", "<div>\n*a*\n</div>"]]],
  ])("%s", (_name, text, expected) => {
    expect(shape(text)).toEqual(expected);
  });

  const everything = [
    "# Title #\n\nA *paragraph* with `code` and\nmore.\n\n- one\n  - two\n\n    ```py\n    x = 1\n\n    y\n    ```\n- three\n",
    "\n1. a\n2. b\n\n> quoted\nlazy\n> - item\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n|3|\n\n$$\nx\n$$\n\\[ a \\] b\n",
    "\n```\n``\n ``` x\n~~~\n```\n- - -\nUnder\n--\n-\n*\n**bold** * x\n    code\n\n    more\n10) x\n",
    `long ${"word *em* `x` ".repeat(400)}\n${"=".repeat(1200)}\n| ${"c".repeat(1500)} |\n\n${"```".repeat(500)}\n\n`,
    "$$ open\n\n\\[ also\n- $$\n  y\n  $$ tail\n>\n> \n>> deep\n- [ ] task\n\t- tab\n",
  ].join("\n");

  test("chunking is invisible", () => {
    const expected = shape(everything);
    for (const size of [1, 2, 3, 7, 64, 999, 1000, 1001]) {
      const blocks = new Blocks();
      for (let at = 0; at < everything.length; at += size) blocks.feed(everything.slice(at, at + size));
      blocks.close();
      expect(blocks.root.children.map(short)).toEqual(expected);
    }
  });

  test("chunking is invisible for lines put together at random", () => {
    const starts = ["- ", "  ", "    ", "> ", "1. ", "```", "~~~", "# ", "| a |", "|--|", "---", "===", "$$", "\\[", "\\]", "\t", "", "*", "-", ">"];
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 400; round++) {
      let text = "";
      for (let line = 0; line < 8; line++) {
        for (let part = random(4); part > 0; part--) text += starts[random(starts.length)] ?? "";
        text += ["", "a", "b c", "x | y"][random(4)] + "\n";
      }
      const blocks = new Blocks();
      for (const character of text) blocks.feed(character);
      blocks.close();
      expect(blocks.root.children.map(short), JSON.stringify(text)).toEqual(shape(text));
    }
  });

  test("deep nesting ends", () => {
    let depth = 0;
    let block = blocksOf(">".repeat(5000) + "x").children[0];
    while (block && "children" in block) {
      depth++;
      block = block.children[0];
    }
    expect(depth).toBeLessThan(40);
  });
});
