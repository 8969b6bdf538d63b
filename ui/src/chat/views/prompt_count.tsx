/** How many tokens the next question takes, told by the server a moment after the typing stopped. */

import { useEffect, useState } from "preact/hooks";
import type { Turn } from "../../api/chats";
import { ask } from "../../api/client";
import { serverInfo } from "../../api/server";
import type { Item } from "../../api/wire";
import { unanswered } from "../decisions";
import { userItem } from "../items";
import { requestFor } from "../request";
import { type AttachedFile, branch, draft, running, settings, waitingFor } from "../session";
import { promptWords } from "./words";

const WAIT_MS = 600;

export function PromptCount({ files }: { files: readonly AttachedFile[] }) {
  const [tokens, setTokens] = useState<number | null>(null);
  const text = draft.value;
  const turns = branch.value;
  const isRunning = running.value !== null;
  const waiting = waitingFor.value;
  const chosen = settings.value;
  const info = serverInfo.value;
  const isEmpty = text.trim() === "" && files.length === 0;
  useEffect(() => {
    if (isRunning || isEmpty) return setTokens(null);
    const stopped = new AbortController();
    const timer = setTimeout(() => {
      const asked = [...turns, nextTurn([...unanswered(waiting), userItem(text, files)])];
      const { stream: _, include: __, ...request } = requestFor({ branch: asked, settings: chosen, servers: info?.mcp_servers ?? [] });
      ask<{ input_tokens: number }>("v1/responses/input_tokens", { body: request, signal: stopped.signal }).then(
        (told) => setTokens(told.input_tokens),
        () => setTokens(null), // nobody must be told that a count is not there
      );
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      stopped.abort();
    };
  }, [text, files, turns, waiting, chosen, info, isRunning, isEmpty]);
  return <span class="prompt-count quiet">{tokens === null ? "" : promptWords(tokens, info?.context_tokens ?? null)}</span>;
}

/** The turn that sending would make. */
function nextTurn(items: Item[]): Turn {
  return { id: "turn_next", parent: null, role: "user", items, status: "completed", created_at: 0, details: {} };
}
