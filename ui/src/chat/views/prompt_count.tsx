/**
 * How full the context is: with the message that is being written, which the server counts a moment after typing stops;
 * without one, after the last answer.
 */

import { useEffect, useState } from "preact/hooks";
import type { Turn } from "../../api/chats";
import { ask } from "../../api/client";
import { serverInfo } from "../../api/server";
import type { Item } from "../../api/wire";
import { unanswered } from "../decisions";
import { userItem } from "../items";
import { requestFor } from "../request";
import { type AttachedFile, branch, draft, running, settings, waitingFor } from "../session";
import { contextUse, NEARLY_FULL, promptWords, shareOf, tooLongWords } from "./words";

const WAIT_MS = 600;

export interface PromptSize {
  /** Null where it is not known. */
  tokens: number | null;
  /** Whether it was counted for the message as it is now, not as it was a moment ago. */
  isCurrent: boolean;
}

/** How many tokens the next question takes. */
export function usePromptSize(files: readonly AttachedFile[]): PromptSize {
  const [counted, setCounted] = useState<{ text: string; files: readonly AttachedFile[]; turns: readonly Turn[]; tokens: number } | null>(null);
  const text = draft.value;
  const turns = branch.value;
  const isRunning = running.value !== null;
  const waiting = waitingFor.value;
  const chosen = settings.value;
  const info = serverInfo.value;
  const isEmpty = text.trim() === "" && files.length === 0;
  useEffect(() => {
    if (isRunning || isEmpty) return setCounted(null);
    const stopped = new AbortController();
    const timer = setTimeout(() => {
      const asked = [...turns, nextTurn([...unanswered(waiting), userItem(text, files)])];
      const { stream: _, include: __, ...request } = requestFor({ branch: asked, settings: chosen, servers: info?.mcp_servers ?? [] });
      ask<{ input_tokens: number }>("v1/responses/input_tokens", { body: request, signal: stopped.signal }).then(
        (told) => setCounted({ text, files, turns, tokens: told.input_tokens }),
        () => setCounted(null), // nobody must be told that a count is not there
      );
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      stopped.abort();
    };
  }, [text, files, turns, waiting, chosen, info, isRunning, isEmpty]);
  if (isEmpty || counted === null) return { tokens: null, isCurrent: false };
  return { tokens: counted.tokens, isCurrent: counted.text === text && counted.files === files && counted.turns === turns };
}

/** Whether the message does not fit, as far as is known. */
export function isTooLong({ tokens, isCurrent }: PromptSize): boolean {
  const context = serverInfo.value?.context_tokens ?? null;
  return isCurrent && tokens !== null && context !== null && tokens >= context;
}

export function PromptCount({ size }: { size: PromptSize }) {
  const context = serverInfo.value?.context_tokens ?? null;
  const usage = branch.value.findLast((turn) => turn.details.usage !== undefined)?.details.usage;
  const used = size.tokens ?? (usage === undefined ? null : contextUse(usage, context).used);
  if (used === null) return <span class="prompt-count quiet" />;
  const share = shareOf(used, context);
  return (
    <span class={`prompt-count ${share !== null && share >= NEARLY_FULL ? "is-warning" : "quiet"}`}>
      {share !== null && <meter class="narrow-off" min={0} max={1} high={NEARLY_FULL} value={Math.min(share, 1)} aria-label="Share of the context" />}
      {promptWords(used, context, size.tokens !== null)}
    </span>
  );
}

/** Warns before a message is sent that the server would refuse as too long. */
export function TooLong({ size }: { size: PromptSize }) {
  const context = serverInfo.value?.context_tokens ?? null;
  return (
    <p class="too-long" role="alert">
      {isTooLong(size) && context !== null && size.tokens !== null && tooLongWords(size.tokens, context)}
    </p>
  );
}

/** The turn that sending would make. */
function nextTurn(items: Item[]): Turn {
  return { id: "turn_next", parent: null, role: "user", items, status: "completed", created_at: 0, details: {} };
}
