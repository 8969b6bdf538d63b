/**
 * HTML made into nodes that can do nothing: the only way for HTML into the page, and the only user of DOMPurify.
 *
 * 1. Only the elements and classes named here come through; links go to the web or to mail, and nowhere else.
 * 2. The HTML is never put anywhere as a string: what comes back is a fragment.
 */

import DOMPurify, { type Config } from "dompurify";
import { hiddenHost, safeAddress } from "./address";
import { markerLabel, type Source } from "./citations";
import { CITATION_CLASS, DISPLAY_CLASS, inlineHtml, isPlain, MATH_CLASS } from "./inline";

const INLINE: Config = {
  ALLOWED_TAGS: ["a", "strong", "em", "del", "code", "br", "sub", "sup", "kbd", "span"],
  ALLOWED_ATTR: ["href", "class"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const TOKENS: Config = { ...INLINE, ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] };

const CLASSES = new Set([MATH_CLASS, DISPLAY_CLASS, CITATION_CLASS]);
const TOKEN_CLASS = /^hljs-[a-z_-]+(?: [a-z]+_)*$/;

let isHooked = false;

function purified(html: string, config: Config): DocumentFragment {
  if (!isHooked) {
    isHooked = true;
    DOMPurify.addHook("uponSanitizeAttribute", (_node, attribute) => {
      const { attrName, attrValue } = attribute;
      if (attrName === "class" && !CLASSES.has(attrValue) && !TOKEN_CLASS.test(attrValue)) attribute.keepAttr = false;
    });
  }
  return DOMPurify.sanitize(html, config) as unknown as DocumentFragment;
}

export interface InlineOptions {
  sources: ReadonlyMap<string, Source>;
  /** Whether links can be followed; otherwise they are text with their address. */
  openLinks: boolean;
}

/** Inline Markdown as nodes. */
export function inlineNodes(text: string, options: InlineOptions): DocumentFragment {
  if (isPlain(text)) {
    const fragment = document.createDocumentFragment();
    if (text !== "") fragment.append(text);
    return fragment;
  }
  const fragment = purified(inlineHtml(text), INLINE);
  for (const link of [...fragment.querySelectorAll("a")]) finishLink(link, options);
  for (const mark of [...fragment.querySelectorAll(`.${CITATION_CLASS}`)]) finishCitation(mark, options);
  fragment.normalize();
  return fragment;
}

/** Highlighted code as nodes: what highlight.js returns has spans with classes, and nothing else. */
export function tokenNodes(html: string): DocumentFragment {
  return purified(html, TOKENS);
}

function finishLink(link: HTMLAnchorElement, { openLinks }: InlineOptions): void {
  const url = safeAddress(link.getAttribute("href") ?? "");
  const label = link.textContent ?? "";
  if (url === null) return link.replaceWith(...link.childNodes);
  if (!openLinks) return link.replaceWith(...link.childNodes, label === url.href ? "" : ` (${url.href})`);
  aim(link, url, url.href);
  const host = hiddenHost(label, url);
  if (host !== null) link.append(` (${host})`);
}

function finishCitation(mark: Element, { sources, openLinks }: InlineOptions): void {
  const written = mark.textContent ?? "";
  const source = sources.get(written);
  const url = source && openLinks ? safeAddress(source.url) : null;
  if (!source || url === null) {
    mark.textContent = written.slice(1, -1);
    return;
  }
  const link = document.createElement("a");
  link.className = CITATION_CLASS;
  link.textContent = markerLabel(written);
  link.setAttribute("aria-label", `Source ${markerLabel(written)}: ${source.title}`);
  aim(link, url, `${source.title}\n${url.href}`);
  // A link in a link is none: the outer one stays.
  if (mark.closest("a") === null) mark.replaceWith(link);
}

function aim(link: HTMLAnchorElement, url: URL, title: string): void {
  link.href = url.href;
  link.rel = "noopener noreferrer nofollow";
  link.target = "_blank";
  link.title = title;
}
