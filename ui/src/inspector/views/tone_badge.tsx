/** A letter in a shape of its own for each tone, so that none is told by its colour alone. */

import type { Tone } from "../trace";

const LETTERS: Record<Tone, string> = {
  system: "S",
  developer: "D",
  user: "U",
  analysis: "A",
  commentary: "C",
  final: "F",
  tool: "T",
  unknown: "?",
};

export const ToneBadge = ({ tone }: { tone: Tone }) => (
  <span class={`badge tone-${tone}`} aria-hidden="true">
    {LETTERS[tone]}
  </span>
);
