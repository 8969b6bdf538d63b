/** An answer that the person rewrote: the same items with other words. Pure. */

import type { Item } from "../../api/wire";
import { textOf, withText } from "../items";

export interface EditablePlace {
  /** The position among the items. */
  at: number;
  text: string;
  label: string;
}

/** What of an answer can be rewritten: its texts, and reasoning that is shown. */
export function editablePlaces(items: readonly Item[]): EditablePlace[] {
  return items.flatMap((item, at) => {
    if (item.type === "message") return [{ at, text: textOf(item), label: item.phase === "commentary" ? "Note" : "Answer" }];
    const text = item.type === "reasoning" && item.harmonia_call == null ? textOf(item) : "";
    return text === "" ? [] : [{ at, text, label: "Reasoning" }];
  });
}

/** The items with other texts in the place of theirs; what was not changed stays as it came, with its seal. */
export function rewritten(items: readonly Item[], texts: ReadonlyMap<number, string>): Item[] {
  return items.map((item, at) => {
    const text = texts.get(at);
    return text === undefined || text === textOf(item) ? item : { ...withText(item, text), status: "completed" };
  });
}
