/**
 * Inline Markdown as HTML: emphasis, code, links, formulas, citations. The HTML goes through `clean.ts` and nowhere else.
 *
 * HTML in the text is text. Images are links that say so: nothing is loaded. A link that may not be followed is its text
 * with the address behind it. Reference links and footnotes stay as they were written.
 */

import { Marked, type Tokens } from "marked";
import { safeAddress } from "./address";
import { MARKER } from "./citations";
import { formulaAt, formulaStart } from "./formulas";
import { markdownWork } from "./work";

export const MATH_CLASS = "math";
export const DISPLAY_CLASS = "math-display";
export const CITATION_CLASS = "citation";

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
