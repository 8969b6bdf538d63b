/**
 * Where an answer names its sources: `【3†L1-L4】` as gpt-oss writes them, and annotations with an address. Pure.
 *
 * A marker that an annotation covers becomes a link; one that nothing is known about stays a quiet mark. An annotation
 * that covers other text gets a marker after that text, unless the text is a link already.
 */

import type { Annotation } from "../api/wire";
import { safeAddress } from "./address";

export interface Source {
  url: string;
  title: string;
}

export interface Cited {
  text: string;
  /** By the marker as it stands in the text, brackets and all. */
  sources: Map<string, Source>;
}

/** The longest marker that is taken for one. */
export const MARKER = /^【([^【】\n]{1,200})】/;

export function cite(text: string, annotations: readonly Annotation[]): Cited {
  const sources = new Map<string, Source>();
  const added: { at: number; marker: string }[] = [];
  const positions = positionsIn(text);
  const seen = new Map<string, number>();
  for (const annotation of annotations) {
    const url = annotation.type === "url_citation" && annotation.url ? safeAddress(annotation.url) : null;
    if (url === null) continue;
    const source = { url: url.href, title: annotation.title || url.host || url.href };
    const start = positions(annotation.start_index);
    const end = positions(annotation.end_index);
    if (start === null || end === null || end < start) continue;
    const covered = text.slice(start, end);
    if (MARKER.exec(covered)?.[0] === covered) {
      sources.set(covered, source);
      continue;
    }
    if (/\]\([^)]*\)/.test(covered) || /https?:\/\//.test(covered)) continue;
    const number = seen.get(url.href) ?? seen.size + 1;
    seen.set(url.href, number);
    const marker = `【${number}】`;
    sources.set(marker, source);
    added.push({ at: end, marker });
  }
  added.sort((one, other) => one.at - other.at);
  let shown = "";
  let from = 0;
  for (const { at, marker } of added) {
    shown += text.slice(from, at) + marker;
    from = at;
  }
  return { text: shown + text.slice(from), sources };
}

/** What stands for a marker: the number of the source, or the whole marker where it has none. */
export function markerLabel(marker: string): string {
  const inside = marker.slice(1, -1);
  return /^\d+/.exec(inside)?.[0] ?? inside;
}

/** Annotations count characters as Python does; strings here count the halves of those beyond the first plane. */
function positionsIn(text: string): (index: number | undefined) => number | null {
  const hasPairs = /[\ud800-\udbff]/.test(text);
  return (index) => {
    if (index === undefined || !Number.isInteger(index) || index < 0) return null;
    if (!hasPairs) return index <= text.length ? index : null;
    let at = 0;
    for (let count = 0; count < index; count++) {
      if (at >= text.length) return null;
      at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    }
    return at;
  };
}
