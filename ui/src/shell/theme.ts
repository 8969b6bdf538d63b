/** Light or dark: as the system has it, unless the person chose. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const NAME = "harmonia.theme";
const THEMES: readonly Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>(readTheme());

export function nextTheme(): Theme {
  return THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
}

function readTheme(): Theme {
  try {
    const kept = localStorage.getItem(NAME);
    return THEMES.find((each) => each === kept) ?? "system";
  } catch {
    return "system";
  }
}

effect(() => {
  const chosen = theme.value;
  if (chosen === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
  try {
    localStorage.setItem(NAME, chosen);
  } catch {
    // Storage is switched off: it holds for this visit.
  }
});
