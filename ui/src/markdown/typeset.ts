/** Formulas set in type. Loaded when the first finished formula is shown. */

import "katex/dist/katex.min.css";
import katex from "katex";

const SIZE = 5000;

/** Set the formula into the node; false where it cannot be read, and then the node is as it was. */
export function typeset(tex: string, node: HTMLElement, isDisplay: boolean): boolean {
  if (tex.length > SIZE) return false;
  const set = document.createElement("span");
  try {
    katex.render(tex, set, {
      displayMode: isDisplay,
      throwOnError: true,
      trust: false,
      maxExpand: 100,
      maxSize: 20,
      strict: "ignore",
    });
  } catch {
    return false;
  }
  node.replaceChildren(...set.childNodes);
  return true;
}
