/** Whether tokens are shown as text, as ids, or as both. */

import { signal } from "@preact/signals";
import type { Mode } from "./token_chips";

export const mode = signal<Mode>("text");

const WORDS: [Mode, string][] = [
  ["text", "Text"],
  ["ids", "Ids"],
  ["both", "Both"],
];

export function ModeChoice({ name }: { name: string }) {
  return (
    <fieldset class="mode">
      <legend>Show</legend>
      {WORDS.map(([value, word]) => (
        <label key={value}>
          <input type="radio" name={name} checked={mode.value === value} onChange={() => (mode.value = value)} />
          {word}
        </label>
      ))}
    </fieldset>
  );
}
