/** Numbers and states of a chat in words. Pure: what it says depends on what it is told only. */

import type { TurnDetails } from "../../api/chats";
import type { Usage } from "../../api/wire";
import { rate } from "../timing";
import { channelsOf } from "../usage";

/** `under 0.1 s`, `3.2 s`, `42 s`, `1 min 5 s`. */
export function inSeconds(seconds: number): string {
  if (seconds < 0.1) return "under 0.1 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export const inNumber = (value: number): string => Math.round(value).toLocaleString("en");
export const inTokens = (tokens: number): string => `${inNumber(tokens)} ${tokens === 1 ? "token" : "tokens"}`;

/** `42 %`; never 0 % or 100 % where it is not quite that. */
export function inPercent(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 1) return "under 1 %";
  if (percent < 100 && percent > 99) return "99 %";
  return `${Math.round(percent)} %`;
}

export interface Thought {
  isRunning: boolean;
  seconds: number | null;
  /** `estimated`: counted by the pieces in which it came. */
  tokens: { count: number; estimated: boolean } | null;
}

/** The line of a reasoning: what it says while it runs, and then. */
export function thoughtWords({ isRunning, seconds, tokens }: Thought): string {
  const took = seconds === null ? "" : !isRunning && seconds < 0.1 ? " briefly" : ` for ${inSeconds(seconds)}`;
  if (isRunning) return `Thinking${took} …`;
  if (tokens === null || tokens.count === 0) return `Thought${took}`;
  return `Thought${took}, ${tokens.estimated ? "about " : ""}${inTokens(tokens.count)}`;
}

/** The line of text that was held back: it was on no channel, or on one that nobody is meant to read. */
export function heldBackWords(channel: string | null): string {
  return channel === null || channel === "" ? "Text on no channel, held back" : `Text on the channel ${channel}, held back`;
}

/** Why an answer is not complete, and what can be done. */
export function incompleteWords(reason: string | undefined): string {
  switch (reason) {
    case "max_output_tokens":
      return "Cut off: the answer reached its token limit. Continue it, or raise the limit in the settings.";
    case "max_tool_calls":
      return "Cut off: the limit of tool calls was reached. Press Continue to resume.";
    case "time_limit":
      return "Cut off: the server's time limit was reached. Press Continue to resume.";
    case "no_visible_output":
      return "The model ended without an answer that can be shown. Continue it, or regenerate.";
    case "uncertain_call":
      return "A tool call was malformed or cut off, so it was not run. Regenerate to try again.";
    case "content_filter":
      return "Cut off by a filter of the model's server.";
    case undefined:
      return "The answer is not complete. Continue it, or regenerate.";
    default:
      return `The answer is not complete (${reason.replaceAll("_", " ")}). Continue it, or regenerate.`;
  }
}

const CHANNEL_WORDS: Record<string, string> = { analysis: "reasoning", commentary: "notes", final: "answer", calls: "calls" };

/** `reasoning 120, answer 34`, in the order in which they stand in an answer. */
export function channelWords(usage: Usage): string | null {
  const channels = channelsOf(usage);
  const reasoning = usage.output_tokens_details?.reasoning_tokens ?? 0;
  if (channels === undefined) {
    return reasoning > 0 ? `reasoning ${inNumber(reasoning)}, other ${inNumber(usage.output_tokens - reasoning)}` : null;
  }
  const known = Object.keys(CHANNEL_WORDS);
  const others = Object.keys(channels).filter((name) => !known.includes(name));
  const names = [...known.filter((name) => (channels[name] ?? 0) > 0), ...others];
  if (names.length === 0) return null;
  return names.map((name) => `${CHANNEL_WORDS[name] ?? name} ${inNumber(channels[name] ?? 0)}`).join(", ");
}

/** Tokens per second; null where there is too little to measure, or nobody measured it. */
export function speedOf({ spoken_tokens, spoken_s }: TurnDetails): number | null {
  return spoken_tokens === undefined || spoken_s === undefined ? null : rate(spoken_tokens, spoken_s);
}

export interface ContextUse {
  used: number;
  of: number | null;
  share: number | null;
}

/** The share of the context that some tokens take up; null where its size is not known. */
export function shareOf(tokens: number, contextTokens: number | null): number | null {
  return contextTokens === null || contextTokens === 0 ? null : tokens / contextTokens;
}

/** How much of the context the conversation takes up after this answer. */
export function contextUse(usage: Usage, contextTokens: number | null): ContextUse {
  const used = usage.input_tokens + usage.output_tokens;
  return { used, of: contextTokens, share: shareOf(used, contextTokens) };
}

/** From this share of the context on, there is little room left for an answer. */
export const NEARLY_FULL = 0.9;

/** `about 120 tokens, 3 % of the context`; without `about` where the number is not an estimate. */
export function promptWords(tokens: number, contextTokens: number | null, isEstimate = true): string {
  const words = `${isEstimate ? "about " : ""}${inTokens(tokens)}`;
  const share = shareOf(tokens, contextTokens);
  if (contextTokens === null || share === null) return words;
  const left = share >= NEARLY_FULL && share < 1 ? `, ${inNumber(contextTokens - tokens)} left` : "";
  return `${words}, ${inPercent(share)} of the context${left}`;
}

export function tooLongWords(tokens: number, contextTokens: number): string {
  return (
    `The context is full: with this message, the conversation has about ${inTokens(tokens)}, but the model reads at most ${inNumber(contextTokens)}. ` +
    "Shorten the message, delete earlier ones, or start a new chat."
  );
}

/** The beginning of a text, cut between words, for announcements and labels. */
export function beginning(text: string, most: number): string {
  const flat = text.slice(0, most * 4).replace(/\s+/g, " ").trim();
  if (flat.length <= most) return flat;
  const cut = flat.slice(0, most);
  return `${cut.slice(0, cut.lastIndexOf(" ") > most / 2 ? cut.lastIndexOf(" ") : most)} …`;
}
