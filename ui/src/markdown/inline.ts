/**
 * Inline Markdown as HTML: emphasis, code, links, formulas, citations. The HTML goes through `clean.ts` and nowhere else.
 *
 * HTML is shown as text, except for a few tags without attributes that models write where Markdown has no syntax:
 * `<br>`, and pairs of `<sub>`, `<sup>` and `<kbd>`. Images are links that say so: nothing is loaded. A link that may not
 * be followed is its text with the address after it. Reference links and footnotes stay as they were written.
 */

import { Marked, type Token, type Tokens } from "marked";
import { safeAddress } from "./address";
import { MARKER } from "./citations";
import { formulaAt, formulaStart } from "./formulas";
import { PAIRED_TAGS } from "./tags";
import { markdownWork } from "./work";

export const MATH_CLASS = "math";
export const DISPLAY_CLASS = "math-display";
export const CITATION_CLASS = "citation";

const BREAK = /^<br *\/?>/i;
const PAIR = new RegExp(`^<(${PAIRED_TAGS})>([^]*?)</\\1>`, "i");
const START = new RegExp(`<(?:br *\\/?|${PAIRED_TAGS})>`, "i");

interface PairToken extends Tokens.Generic {
  tag: string;
  tokens: Token[];
}

interface FormulaToken extends Tokens.Generic {
  tex: string;
  isDisplay: boolean;
}

const marked = new Marked({
  gfm: true,
  tokenizer: {
    tag: () => undefined,
    html: () => undefined,
    reflink: () => undefined,
  },
  renderer: {
    html: ({ text }) => escaped(text),
    link({ href, tokens }) {
      return linked(href, this.parser.parseInline(tokens));
    },
    image: ({ href, text }) => linked(href, `image: ${escaped(text || "no description")}`),
  },
  extensions: [
    {
      name: "tag",
      level: "inline",
      start: (source) => {
        const at = source.search(START);
        return at < 0 ? undefined : at;
      },
      tokenizer(source) {
        const line = BREAK.exec(source);
        if (line !== null) return { type: "tag", raw: line[0], tag: "br", tokens: [] };
        const pair = PAIR.exec(source);
        if (pair === null) return undefined;
        return { type: "tag", raw: pair[0], tag: (pair[1] ?? "").toLowerCase(), tokens: this.lexer.inlineTokens(pair[2] ?? "") };
      },
      renderer(token) {
        const { tag, tokens } = token as PairToken;
        return tag === "br" ? "<br>" : `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
      },
    },
    {
      name: "formula",
      level: "inline",
      start: formulaStart,
      tokenizer: (source) => {
        const formula = formulaAt(source);
        return formula === null ? undefined : { type: "formula", ...formula };
      },
      renderer: (token) => {
        const { tex, isDisplay } = token as FormulaToken;
        return `<span class="${isDisplay ? DISPLAY_CLASS : MATH_CLASS}">${escaped(tex)}</span>`;
      },
    },
    {
      name: "citation",
      level: "inline",
      start: (source) => source.indexOf("【"),
      tokenizer: (source) => {
        const raw = MARKER.exec(source)?.[0];
        return raw === undefined ? undefined : { type: "citation", raw };
      },
      renderer: (token) => `<span class="${CITATION_CLASS}">${escaped(token.raw)}</span>`,
    },
  ],
});

/** Whether the text is the same with and without Markdown. */
export function isPlain(text: string): boolean {
  return /^[^\\`*_[\]<>&~$【@]*$/.test(text) && !/https?:|ftp:|www\.| \n/i.test(text);
}

export function inlineHtml(text: string): string {
  markdownWork.value.parsedCharacters += text.length;
  return marked.parseInline(text, { async: false });
}

function linked(address: string, label: string): string {
  const url = safeAddress(address);
  if (url !== null) return `<a href="${escaped(url.href)}">${label}</a>`;
  return address.trim() === "" ? label : `${label} (${escaped(address)})`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
