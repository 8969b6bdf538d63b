/** What each tool's schema costs. Pure. */

import type { SchemaCost } from "../../api/inspect";

export interface Cost {
  tool: string;
  tokens: number;
  /** Of the prompt, of the context (null where its size is not known), and of the dearest tool, for the bar. */
  ofPrompt: number;
  ofContext: number | null;
  ofLargest: number;
}

/** The dearest first; tools of one price by name. */
export function costsOf(schemas: readonly SchemaCost[], prompt: number, context: number | null): Cost[] {
  const largest = Math.max(1, ...schemas.map(({ tokens }) => tokens));
  return schemas
    .map(({ tool, tokens }) => ({
      tool,
      tokens,
      ofPrompt: prompt === 0 ? 0 : tokens / prompt,
      ofContext: context === null || context === 0 ? null : tokens / context,
      ofLargest: tokens / largest,
    }))
    .sort((one, other) => other.tokens - one.tokens || (one.tool < other.tool ? -1 : 1));
}

export const sumOf = (costs: readonly { tokens: number }[]): number => costs.reduce((sum, { tokens }) => sum + tokens, 0);
