/** The words of a search query, and where they stand in a text. Pure. */

export const wordsOf = (query: string): string[] => query.split(/\s+/).filter((word) => word !== "");

/** Matches any of the phrases, in either case. Of two that begin at the same place it takes the longer one. */
export function anyOf(phrases: readonly string[]): RegExp {
  const escaped = phrases.map((phrase) => phrase.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`(${escaped.sort((one, other) => other.length - one.length).join("|")})`, "giu");
}
