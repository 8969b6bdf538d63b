/** Output of the model's that was damaged and mended: what the page keeps of it, and says. Pure. */

import type { SampledEntry } from "../api/wire";

// Together with all else that is kept beside the items of a turn it has to fit into what the server takes.
const MOST_CHARS = 160_000;
const NAMED = 4;

/** What is known, and what a response adds whose items begin at `offset` of the turn. */
export function addSampled(before: readonly SampledEntry[] = [], more: readonly SampledEntry[] = [], offset = 0): SampledEntry[] {
  const all = [...before, ...more.map((entry) => ({ ...entry, first_item: entry.first_item + offset }))];
  let left = MOST_CHARS;
  return all.map((entry) => {
    const { encrypted_content: sealed, ...rest } = entry;
    left -= JSON.stringify(rest).length + (sealed?.length ?? 0);
    return left < 0 ? rest : entry;
  });
}

/** What to tell of it in a line; null where nothing was damaged. An import may bring anything. */
export function damageWords(sampled: unknown): string | null {
  if (!Array.isArray(sampled)) return null;
  const codes = (sampled as (Partial<SampledEntry> | null)[]).flatMap((entry) => (Array.isArray(entry?.faults) ? entry.faults.map(String) : []));
  if (codes.length === 0) return null;
  const kinds = [...new Set(codes)];
  const named = kinds.slice(0, NAMED).join(", ") + (kinds.length > NAMED ? ", …" : "");
  return `The model's output was damaged in ${codes.length === 1 ? "1 place" : `${codes.length} places`} and was mended: ${named}.`;
}
