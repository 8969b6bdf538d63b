/**
 * The nodes that are made of Markdown, and the work it takes. happy-dom walks a tree in another order than browsers do
 * while nodes are taken away, and DOMPurify loses elements in it; here a stand-in parses, and keeps nothing out. What the
 * sanitizer does is tested in a real browser (tests/page/test_attacks.py).
 */

import { beforeEach, describe, expect, test, vi } from "vitest";
import { MarkdownView } from "../../src/markdown/markdown_view";
import { markdownWork } from "../../src/markdown/work";

const sanitizer = vi.hoisted(() => ({ isCounting: false }));
vi.mock("dompurify", () => ({
  default: {
    addHook: () => undefined,
    sanitize(html: string) {
      if (sanitizer.isCounting) {
        const fragment = document.createDocumentFragment();
        fragment.append(html);
        return fragment;
      }
      const template = document.createElement("template");
      template.innerHTML = html;
      return template.content;
    },
  },
}));

let node: HTMLElement;
let view: MarkdownView;

beforeEach(() => {
  document.body.replaceChildren();
  node = document.createElement("div");
  document.body.append(node);
  view = new MarkdownView(node);
});

const whole = (text: string) => (view.show({ text, isLive: false }), node);

describe("the nodes", () => {
  test("headings are lowered", () => {
    whole("# One #\n\n## Two\n\nThree\n===\n\n##### Five");
    expect([...node.children].map((child) => `${child.localName} ${child.textContent}`)).toEqual(["h3 One", "h4 Two", "h3 Three", "h6 Five"]);
  });
  test("tables have scopes, alignment and a box that scrolls", () => {
    whole("| a | b |\n|---|--:|\n| 1 | **2** |\n| 3 |");
    const box = node.querySelector(".table-box");
    expect(box?.getAttribute("tabindex")).toBe("0");
    expect(box?.getAttribute("aria-label")).toBe("Table");
    expect([...node.querySelectorAll("th")].map((cell) => cell.getAttribute("scope"))).toEqual(["col", "col"]);
    expect([...node.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent))).toEqual([["a", "b"], ["1", "2"], ["3", ""]]);
    expect(node.querySelector("td.align-right strong")?.textContent).toBe("2");
  });
  test("a few tags without attributes are read, in cells of tables above all, however they come", () => {
    const text = "| a |\n|---|\n| one<br>H<sub>2</sub>O<br><kbd>C</kbd> |";
    whole(text);
    const cell = node.querySelector("td");
    expect(cell?.querySelectorAll("br").length).toBe(2);
    expect([cell?.querySelector("sub")?.textContent, cell?.querySelector("kbd")?.textContent]).toEqual(["2", "C"]);
    const shown = node.innerHTML;
    for (let size = 1; size < 6; size++) {
      node.replaceChildren();
      view = new MarkdownView(node);
      for (let end = size; end < text.length; end += size) {
        view.show({ text: text.slice(0, end), isLive: true });
        expect(node.textContent).not.toContain("<");
      }
      view.show({ text, isLive: false });
      expect(node.innerHTML).toBe(shown);
    }
  });
  test("a long paragraph is not cut inside a pair of tags", () => {
    whole(`${"word ".repeat(299)}<sup>${"small ".repeat(20)}</sup> end`);
    expect(node.querySelector("sup")?.textContent).toBe("small ".repeat(20));
  });
  test("lists, tasks and quotes nest", () => {
    whole("3. a\n   - [x] b\n   - [ ] c\n\n> d");
    expect(node.querySelector("ol")?.getAttribute("start")).toBe("3");
    const boxes = [...node.querySelectorAll<HTMLInputElement>("ol ul > li.task > input")];
    expect(boxes.map((box) => [box.checked, box.disabled])).toEqual([[true, true], [false, true]]);
    expect(node.querySelector("blockquote p")?.textContent).toBe("d");
  });
  test("code has its language and a button", () => {
    whole("```py\na < b\n```");
    expect(node.querySelector(".code-head")?.textContent).toContain("py");
    expect(node.querySelector("pre code")?.textContent).toBe("a < b");
    expect(node.querySelector("button")?.textContent).toBe("Copy code");
  });
  test("links say where they go", () => {
    whole("[here](https://a.example/x) and [bank.example](https://evil.example/)");
    const links = [...node.querySelectorAll("a")];
    expect(links.map((link) => [link.textContent, link.getAttribute("href"), link.title, link.rel, link.target])).toEqual([
      ["here", "https://a.example/x", "https://a.example/x", "noopener noreferrer nofollow", "_blank"],
      ["bank.example (evil.example)", "https://evil.example/", "https://evil.example/", "noopener noreferrer nofollow", "_blank"],
    ]);
  });
  test("links can be text", () => {
    view.show({ text: "[here](https://a.example/x)", isLive: false, openLinks: false });
    expect(node.querySelector("a")).toBeNull();
    expect(node.textContent).toBe("here (https://a.example/x)");
  });
  test("images are not loaded", () => {
    expect(whole("![cat](https://evil.example/x.png?secret)").querySelector("img")).toBeNull();
    expect(node.querySelector("a")?.textContent).toBe("image: cat");
  });
  test("sources become links when they are known", () => {
    const text = "So 【3†L1】.\n\nAnd this.";
    view.show({ text, isLive: true });
    expect(node.querySelector("a")).toBeNull();
    expect(node.querySelector(".citation")?.textContent).toBe("3†L1");
    const annotations = [
      { type: "url_citation", start_index: 3, end_index: 9, url: "https://a.example/", title: "A" },
      { type: "url_citation", start_index: 12, end_index: 21, url: "https://b.example/", title: "B" },
    ];
    view.show({ text, isLive: false, annotations });
    expect([...node.querySelectorAll("a.citation")].map((link) => [link.textContent, link.getAttribute("aria-label")])).toEqual([["3", "Source 3: A"], ["1", "Source 1: B"]]);
  });
});

describe("streaming", () => {
  const answer = [
    "# Title", "Some **bold** and `code` with [a link](https://a.example/).", "- one\n- two\n  - three\n\n    ```js\n    x\n    ```",
    "| a | b |\n|---|---|\n| 1 | *2* |\n| 3 | 4 |", "```py\nprint(1)\n\nprint(2)\n```", "> quoted\n> text", "\\[\nx\n\\]", "Under\n---", "1. [x] done\n2. [ ] not", "The end 【1】.",
  ].join("\n\n");

  test("ends with the nodes that the whole text has", () => {
    for (let end = 1; end < answer.length; end++) view.show({ text: answer.slice(0, end), isLive: true });
    view.show({ text: answer, isLive: false });
    const streamed = node.innerHTML;
    const other = document.createElement("div");
    document.body.append(other);
    new MarkdownView(other).show({ text: answer, isLive: false });
    expect(streamed).toBe(other.innerHTML);
  });
  test("leaves finished blocks and what is equal alone", () => {
    view.show({ text: "One\n\nTwo **bold** th", isLive: true });
    const [first, second] = node.children;
    const [words, bold] = second?.childNodes ?? [];
    view.show({ text: "One\n\nTwo **bold** three\n\nFour", isLive: true });
    expect(node.children[0]).toBe(first);
    expect(node.children[1]).toBe(second);
    expect([...(second?.childNodes ?? [])].slice(0, 2)).toEqual([words, bold]);
    expect(node.textContent).toBe("OneTwo bold threeFour");
  });
  test("starts over when the text is another", () => {
    view.show({ text: "One\n\nTwo", isLive: true });
    view.show({ text: "Other", isLive: true });
    expect(node.textContent).toBe("Other");
    view.show({ text: "Otter", isLive: false });
    expect(node.textContent).toBe("Otter");
    view.show({ text: "Otter goes on", isLive: true });
    expect(node.textContent).toBe("Otter goes on");
  });
  test("holds back what would flicker", () => {
    const shown: string[] = [];
    const text = "A **b** [c](https://d.example/)\n\n| x | y |\n|---|---|\n";
    for (let end = 1; end <= text.length; end++) {
      view.show({ text: text.slice(0, end), isLive: true });
      shown.push(node.textContent ?? "");
    }
    expect(shown.filter((words) => /[*|]|\(http/.test(words))).toEqual([]);
  });

  const word = "lorem ipsum *dolor* `sit` amet, ";
  const kinds: Record<string, (tokens: number) => string[]> = {
    "paragraphs": (tokens) => Array.from({ length: tokens }, (_, at) => (at % 40 === 39 ? "\n\n" : word.slice((at % 5) * 6, (at % 5) * 6 + 6))),
    "one paragraph": (tokens) => Array.from({ length: tokens }, (_, at) => word.slice((at % 5) * 6, (at % 5) * 6 + 6)),
    "one word": (tokens) => Array.from({ length: tokens }, () => "abcd"),
    "code": (tokens) => ["```py\n", ...Array.from({ length: tokens }, (_, at) => (at % 9 === 8 ? "\n" : "x = "))],
    "one line of code": (tokens) => ["```\n", ...Array.from({ length: tokens }, () => "x = ")],
    "a list": (tokens) => Array.from({ length: tokens }, (_, at) => (at % 12 === 0 ? "\n- " : "item ")),
    "code in a list": (tokens) => ["- a\n\n  ```\n", ...Array.from({ length: tokens }, (_, at) => (at % 9 === 8 ? "\n  " : "x = "))],
    "a table": (tokens) => ["|a|b|\n|-|-|\n", ...Array.from({ length: tokens }, (_, at) => (at % 8 === 7 ? "|\n" : "| *c* "))],
    "a quote": (tokens) => Array.from({ length: tokens }, (_, at) => (at % 12 === 0 ? "\n> " : "item ")),
    "stars": (tokens) => Array.from({ length: tokens }, () => "**a "),
    "brackets": (tokens) => Array.from({ length: tokens }, () => "[["),
    "a formula": (tokens) => ["$$\n", ...Array.from({ length: tokens }, () => "x + \n")],
    "strokes": (tokens) => Array.from({ length: tokens }, () => "----"),
  };

  /** The work that was done after each part of the stream. */
  function workAfter(tokens: string[], ...counts: number[]): number[] {
    sanitizer.isCounting = true;
    const sum = () => Object.values(markdownWork.value).reduce((total, count) => total + count, 0);
    const before = sum();
    const shown = new MarkdownView(document.createElement("div"));
    let text = "";
    const found: number[] = [];
    tokens.forEach((token, index) => {
      shown.show({ text: (text += token), isLive: true });
      if (counts.includes(index + 1)) found.push(sum() - before);
    });
    sanitizer.isCounting = false;
    return found;
  }

  test.each(Object.keys(kinds))("work per token does not grow: %s", { timeout: 60_000 }, (kind) => {
    const [first = 0, second = 0, third = 0] = workAfter(kinds[kind]?.(5_400) ?? [], 1_800, 3_600, 5_400);
    expect(third - second).toBeGreaterThan(0);
    expect(third - second).toBeLessThan(1.5 * (second - first) + 1_000);
  });

  test("an answer of 20,000 tokens takes twice the work of one of 10,000", { timeout: 120_000 }, () => {
    const mixed = Object.values(kinds).flatMap((make) => [...make(100), "\n\n```\n\n```\n\n"]);
    const tokens = Array.from({ length: 20_000 }, (_, at) => mixed[at % mixed.length] ?? "");
    const [half = 0, full = 0] = workAfter(tokens, 10_000, 20_000);
    expect(full / half).toBeGreaterThan(1.7);
    expect(full / half).toBeLessThan(2.3);
  });
});
