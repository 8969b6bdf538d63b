/** What answers cost, in tokens. Pure. */

import type { TurnDetails } from "../api/chats";
import type { Usage } from "../api/wire";

/** What a continued answer cost: the prompt of the last request, and the output of all. */
export function addUsage(before: Usage | undefined, more: Usage | null): Usage | null {
  if (more === null) return before ?? null;
  if (before === undefined) return more;
  const channels: Record<string, number> = { ...channelsOf(before) };
  for (const [name, count] of Object.entries(channelsOf(more) ?? {})) channels[name] = (channels[name] ?? 0) + count;
  const output_tokens = before.output_tokens + more.output_tokens;
  return {
    ...more,
    output_tokens,
    total_tokens: more.input_tokens + more.output_tokens,
    output_tokens_details: {
      reasoning_tokens: (before.output_tokens_details?.reasoning_tokens ?? 0) + (more.output_tokens_details?.reasoning_tokens ?? 0),
    },
    ...(Object.keys(channels).length === 0 ? {} : { harmonia_channels: channels }),
  };
}

/** What each channel cost, where the server said so. */
export function channelsOf(usage: Usage): Record<string, number> | undefined {
  return usage.harmonia_channels ?? usage.output_tokens_details?.harmonia_channels;
}

/** The details of an answer that waited for the person: those of its turns, added up. */
export function joinDetails(legs: readonly TurnDetails[]): TurnDetails {
  return legs.reduce((before, more) => {
    const usage = addUsage(before.usage, more.usage ?? null);
    const joined: TurnDetails = { ...more, ...(usage === null ? {} : { usage }) };
    for (const name of ["total_s", "spoken_s", "spoken_tokens"] as const) {
      const parts = [before[name], more[name]].filter((part) => part !== undefined);
      if (parts.length > 0) joined[name] = parts.reduce((one, other) => one + other);
    }
    if (before.first_token_s !== undefined) joined.first_token_s = before.first_token_s;
    return joined;
  });
}
