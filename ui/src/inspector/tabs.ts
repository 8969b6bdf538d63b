/** The tabs of the inspector. Each is loaded when it is first opened. A tool is added here, and nowhere else. */

import type { ComponentType } from "preact";

export interface Tab {
  id: string;
  label: string;
  load: () => Promise<ComponentType>;
  /** What it is good for before anything was inspected; without this it has nothing to show then. */
  alone?: string;
}

export const TABS: Tab[] = [
  { id: "messages", label: "Messages", load: () => import("./views/messages_view").then((module) => module.MessagesView) },
  { id: "overview", label: "Overview", load: () => import("./views/overview").then((module) => module.Overview) },
  { id: "tokens", label: "Tokens", load: () => import("./views/tokens_view").then((module) => module.TokensView) },
  { id: "edit", label: "Edit", load: () => import("./tools/edit_tab").then((module) => module.EditTab) },
  { id: "compare", label: "Compare", alone: "Two prompts: where they differ, and what was dropped", load: () => import("./tools/diff_tab").then((module) => module.DiffTab) },
  { id: "injection", label: "Injection lens", alone: "Typed control tokens, and how they are encoded", load: () => import("./tools/injection_tab").then((module) => module.InjectionTab) },
  { id: "costs", label: "Tools' cost", load: () => import("./tools/costs_tab").then((module) => module.CostsTab) },
  { id: "replay", label: "Replay", load: () => import("./tools/scrubber_tab").then((module) => module.ScrubberTab) },
];
