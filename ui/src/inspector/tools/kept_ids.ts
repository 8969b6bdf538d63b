/**
 * A trace of token ids that is edited as text. What was not touched keeps its ids: a model may have sampled tokens that
 * no encoder would write, and a text that spells a control token must not become one because its message was moved. Only
 * messages that changed are encoded again. Pure.
 */

import type { InspectedMessage } from "../../api/inspect";
import { Characters, countBelow } from "./characters";

/** Places at which a text and its ids may be cut, both sorted: where messages begin, and the end. */
export interface Cuts {
  units: number[];
  tokens: number[];
}

/** A stretch of the ids that stays, or a text that is encoded again. */
export type Stretch = { kind: "kept"; ids: readonly [number, number] } | { kind: "text"; text: string };

/** More texts than this are encoded as one, from the first to the last: each of them is a request. */
export const MOST_TEXTS = 8;
/** A body may spell `<|start|>`; so many of them are looked past for the end of a message. */
const MOST_SPELLED = 4;
const START = "<|start|>";

/** Null where the inspection does not say where messages stand in the ids. */
export function cutsOf(text: string, messages: readonly InspectedMessage[], tokens: number): Cuts | null {
  const characters = new Characters(text);
  const cuts: Cuts = { units: [0], tokens: [0] };
  for (const { spans } of messages) {
    if (spans.header.start_token === null) return null;
    const unit = characters.unitOf(spans.header.start_char);
    if (unit <= (cuts.units.at(-1) ?? 0) || spans.header.start_token <= (cuts.tokens.at(-1) ?? 0)) continue;
    cuts.units.push(unit);
    cuts.tokens.push(spans.header.start_token);
  }
  cuts.units.push(text.length);
  cuts.tokens.push(tokens);
  return cuts;
}

/**
 * What becomes of the ids when `before` becomes `after`: messages at the beginning and at the end that are the same stay,
 * and so do those between them, wherever they are now.
 */
export function keepIds(before: string, after: string, cuts: Cuts): Stretch[] {
  const most = Math.min(before.length, after.length);
  let same = 0;
  while (same < most && before.charCodeAt(same) === after.charCodeAt(same)) same += 1;
  const first = countBelow(cuts.units, same + 1) - 1; // the last cut that is not after the first difference
  const head = cuts.units[first] ?? 0;
  let sameEnd = 0;
  while (sameEnd < most - head && before.charCodeAt(before.length - 1 - sameEnd) === after.charCodeAt(after.length - 1 - sameEnd))
    sameEnd += 1;
  const second = Math.max(countBelow(cuts.units, before.length - sameEnd), first); // the first cut that is in the common end
  const tail = before.length - (cuts.units[second] ?? before.length);
  const tokenAt = (cut: number): number => cuts.tokens[cut] ?? cuts.tokens.at(-1) ?? 0;
  const stretches = new Stretches();
  stretches.keep(0, tokenAt(first));
  findMessages(before, after.slice(head, after.length - tail), cuts, first, second, stretches);
  stretches.keep(tokenAt(second), cuts.tokens.at(-1) ?? 0);
  return stretches.list;
}

class Stretches {
  readonly list: Stretch[] = [];

  keep(from: number, to: number): void {
    const last = this.list.at(-1);
    if (from === to) return;
    if (last?.kind === "kept" && last.ids[1] === from) this.list[this.list.length - 1] = { kind: "kept", ids: [last.ids[0], to] };
    else this.list.push({ kind: "kept", ids: [from, to] });
  }

  write(text: string): void {
    const last = this.list.at(-1);
    if (text === "") return;
    if (last?.kind === "text") last.text += text;
    else this.list.push({ kind: "text", text });
  }
}

/** The messages of the text between two cuts that stand, whole, in `middle`. */
function findMessages(before: string, middle: string, cuts: Cuts, first: number, second: number, stretches: Stretches): void {
  const known = new Map<string, number>();
  for (let cut = first; cut < second; cut += 1) known.set(before.slice(cuts.units[cut], cuts.units[cut + 1]), cut);
  const found = new Stretches();
  let written = 0;
  let texts = 0;
  for (let at = middle.indexOf(START); at !== -1; ) {
    let end = at;
    let cut: number | undefined;
    for (let looked = 0; looked < MOST_SPELLED && cut === undefined && end < middle.length; looked += 1) {
      const next = middle.indexOf(START, end + START.length);
      end = next === -1 ? middle.length : next;
      cut = known.get(middle.slice(at, end));
    }
    if (cut !== undefined) {
      if (written < at) texts += 1;
      found.write(middle.slice(written, at));
      found.keep(cuts.tokens[cut] ?? 0, cuts.tokens[cut + 1] ?? 0);
      written = end;
      at = end < middle.length ? end : -1;
    } else at = middle.indexOf(START, at + START.length);
  }
  found.write(middle.slice(written));
  if (texts >= MOST_TEXTS) return stretches.write(middle);
  for (const stretch of found.list) {
    if (stretch.kind === "text") stretches.write(stretch.text);
    else stretches.keep(...stretch.ids);
  }
}

/** The ids of what was edited; `encode` is asked for each text, one after the other. */
export async function joinIds(
  before: readonly number[],
  stretches: readonly Stretch[],
  encode: (text: string) => Promise<readonly number[]>,
): Promise<number[]> {
  let ids: number[] = [];
  for (const stretch of stretches) {
    ids = ids.concat(stretch.kind === "kept" ? before.slice(...stretch.ids) : await encode(stretch.text));
  }
  return ids;
}
