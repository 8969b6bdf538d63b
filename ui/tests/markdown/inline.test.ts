import { describe, expect, test } from "vitest";
import { hiddenHost, safeAddress } from "../../src/markdown/address";
import { cite, markerLabel } from "../../src/markdown/citations";
import { formulaAt, formulaStart } from "../../src/markdown/formulas";
import { inlineHtml, isPlain } from "../../src/markdown/inline";
import { settle } from "../../src/markdown/settle";

describe("addresses", () => {
  test.each(["https://example.org/a?b=c#d", "http://example.org", "mailto:a@example.org", "HTTPS://EXAMPLE.ORG/"])(
    "%s is a link",
    (written) => expect(safeAddress(written)).not.toBeNull(),
  );
  test.each([
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", " javascript:alert(1)", "\u0001javascript:alert(1)",
    "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://a/b", "ftp://a/b", "/v1/chats", "#/inspect", "//evil",
    "", "javascript&colon;alert(1)", "view-source:https://a", "about:blank", "https://",
  ])("%j is none", (written) => expect(safeAddress(written)).toBeNull());

  test.each<[string, string, string | null]>([
    ["here", "https://evil.example/", null],
    ["https://bank.example/login", "https://evil.example/", "evil.example"],
    ["bank.example", "https://bank.example/x", null],
    ["www.bank.example", "https://bank.example/x", null],
    ["bank.example", "https://bank.example@evil.example/", "evil.example"],
    ["Visit bank.example now", "https://evil.example:8080/", "evil.example:8080"],
    ["version 1.2.3", "https://evil.example/", null],
    ["a@bank.example", "mailto:b@evil.example", null],
  ])("the link %j to %s shows %j", (label, address, host) => expect(hiddenHost(label, new URL(address))).toBe(host));
});

describe("formulas", () => {
  test.each<[string, string | null]>([
    ["\\(x+1\\) is", "x+1"], ["\\[ y \\]", "y"], ["$$z$$", "z"], ["$x$", "x"], ["$a_1 + b$, so", "a_1 + b"], ["$5$", "5"],
    ["$2^n$ ways", "2^n"], ["$2x$", "2x"], ["$\\$5$", "\\$5"], ["$\\frac{1}{2}$", "\\frac{1}{2}"],
    ["$5 and $10", null], ["$5-$10", null], ["$5 (or 10$)", null], ["$ x$", null], ["$x $", null], ["$HOME/bin:$PATH", null],
    ["$x", null], ["\\(", null], ["$a\n\nb$", null], ["$$", null], ["$$$", null], ["$1,000 a year, 2,000 for two$", null],
  ])("%j is %j", (text, tex) => expect(formulaAt(text)?.tex ?? null).toBe(tex));

  test("a dollar behind a letter starts nothing", () => {
    expect(formulaStart("US$5 or $x$")).toBe(8);
    expect(formulaStart("no")).toBe(-1);
  });
});

describe("inline HTML", () => {
  test.each<[string, string]>([
    ["**a** *b* ~~c~~ `d`", "<strong>a</strong> <em>b</em> <del>c</del> <code>d</code>"],
    ["<b onclick=x>*a*</b>", "&lt;b onclick=x&gt;<em>a</em>&lt;/b&gt;"],
    ["[a](https://example.org/?a=1&b=2)", '<a href="https://example.org/?a=1&#38;b=2">a</a>'],
    ["[a](javascript:alert(1))", "a (javascript:alert(1))"],
    ["[a](/v1/chats)", "a (/v1/chats)"],
    ["![cat](https://evil.example/x.png)", '<a href="https://evil.example/x.png">image: cat</a>'],
    ["![](data:image/png;base64,AAAA)", "image: no description (data:image/png;base64,AAAA)"],
    ["[a][b]", "[a][b]"],
    ["[^1]", "[^1]"],
    ["so $x_1 < y_1$ is", 'so <span class="math">x_1 &#60; y_1</span> is'],
    ["see 【3†L1-L4】", 'see <span class="citation">【3†L1-L4】</span>'],
    ["$5 and $10", "$5 and $10"],
    ["a<br>b<BR/>c<br />d", "a<br>b<br>c<br>d"],
    ["H<sub>2</sub>O, x<sup>**2**</sup>, <KBD>Ctrl</KBD>", "H<sub>2</sub>O, x<sup><strong>2</strong></sup>, <kbd>Ctrl</kbd>"],
    ["**a<br>b** and `<br>` and \\<br>", "<strong>a<br>b</strong> and <code>&lt;br&gt;</code> and &lt;br&gt;"],
    ["<br onclick=x> <sub class=x>a</sub> <sub>a</sup> </kbd>", "&lt;br onclick=x&gt; &lt;sub class=x&gt;a&lt;/sub&gt; &lt;sub&gt;a&lt;/sup&gt; &lt;/kbd&gt;"],
    ["<sub><script>x</script></sub>", "<sub>&lt;script&gt;x&lt;/script&gt;</sub>"],
    ["`$x$ 【1】`", "<code>$x$ 【1】</code>"],
  ])("%j", (text, html) => expect(inlineHtml(text)).toBe(html));

  test("plain text needs no parser", () => {
    expect(isPlain("Just words, and (more) words! 1 + 1 = 2.\nNext")).toBe(true);
    for (const text of ["*a", "a_b", "<", "&amp;", "https://a", "www.a.b", "a@b", "a  \nb", "\\", "[", "$"]) {
      expect(isPlain(text)).toBe(false);
    }
  });
});

describe("unfinished text", () => {
  test.each<[string, string]>([
    ["plain", "plain"],
    ["**bold", "**bold**"],
    ["**bold**", "**bold**"],
    ["**bold*", "**bold**"],
    ["a **", "a "],
    ["*a **b", "*a **b***"],
    ["`code", "`code`"],
    ["``co`de", "``co`de``"],
    ["`", "`"],
    ["`a` **b `c", "`a` **b `c`**"],
    ["[te", "[te"],
    ["see [text](htt", "see text"],
    ["see [text](https://example.org/a b", "see text"],
    ["see [text](https://example.org)", "see [text](https://example.org)"],
    ["see ![al](x", "see al"],
    ["see [text]", "see [text]"],
    ["snake_case_name", "snake_case_name"],
    ["2 * 3", "2 * 3"],
    ["\\(x_1 + y", "\\(x_1 + y\\)"],
    ["\\*a", "\\*a"],
    ["as 【3†L1", "as "],
    ["as 【3†L1】 so", "as 【3†L1】 so"],
    ["~~gone", "~~gone~~"],
    ["H<sub>2", "H<sub>2</sub>"],
    ["H<sub>2</su", "H<sub>2</sub>"],
    ["x<sup>**a", "x<sup>**a**</sup>"],
    ["one<b", "one"],
    ["one<br /", "one"],
    ["1 < 2", "1 < 2"],
  ])("%j is shown as %j", (text, shown) => expect(settle(text)).toBe(shown));
});

describe("citations", () => {
  const at = (start_index: number, end_index: number, url: string, title?: string) => ({
    type: "url_citation", start_index, end_index, url, ...(title === undefined ? {} : { title }),
  });

  test("a marker that an annotation covers has a source", () => {
    const text = "So 【3†L1-L4】 it is.";
    const cited = cite(text, [at(3, 12, "https://example.org/a", "A page")]);
    expect(cited.text).toBe(text);
    expect([...cited.sources]).toEqual([["【3†L1-L4】", { url: "https://example.org/a", title: "A page" }]]);
  });
  test("other text gets a marker behind it, with one number for one address", () => {
    const cited = cite("One. Two. Three.", [at(5, 9, "https://b.example/"), at(0, 4, "https://a.example/"), at(10, 16, "https://b.example/")]);
    expect(cited.text).toBe("One.【2】 Two.【1】 Three.【1】");
    expect(cited.sources.get("【2】")).toEqual({ url: "https://a.example/", title: "a.example" });
  });
  test("links stay, and what is no link or no range is left out", () => {
    const text = "See ([a](https://a.example)).";
    const annotations = [at(4, 28, "https://a.example/"), at(0, 3, "javascript:alert(1)"), at(3, 99, "https://a.example"), at(3, 1, "https://a.example"), at(-1, 2, "https://a.example"), { type: "file_citation" }];
    expect(cite(text, annotations)).toEqual({ text, sources: new Map() });
  });
  test("positions count characters, not halves of them", () => {
    expect(cite("😀😀 x y", [at(3, 4, "https://a.example/")]).text).toBe("😀😀 x【1】 y");
  });
  test("labels", () => {
    expect(markerLabel("【3†L1-L4】")).toBe("3");
    expect(markerLabel("【turn0】")).toBe("turn0");
  });
});
