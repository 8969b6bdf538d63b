/** Ctrl-K: all chats by their words. Typing searches, arrows choose, Enter opens. */

import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ListedChat } from "../api/chats";
import { failureOf, type Failure } from "../api/client";
import { searchTarget } from "../chat/search_target";
import { Dialog } from "../parts/dialog";
import { isComposing } from "../parts/keys";
import { go } from "../route";
import { timesOfTwins } from "./days";
import { marked } from "./marks";
import type { OverlayProps } from "./overlay_view";
import { Problem } from "./problem";
import { searchChats } from "./searching";

const PAUSE_MS = 150;

export function SearchDialog({ onClose }: OverlayProps) {
  const [query, setQuery] = useState("");
  const [found, setFound] = useState<readonly ListedChat[] | null>(null);
  const [isSearching, setSearching] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const at = useSignal(0);
  const list = useId();
  const shown = useRef<HTMLUListElement>(null);

  useEffect(() => {
    const asked = new AbortController();
    const wait = setTimeout(
      () => {
        let isFirst = true;
        const tell = (chats: readonly ListedChat[], isWhole: boolean) => {
          if (asked.signal.aborted) return;
          setFound(chats);
          setSearching(!isWhole);
          setFailure(null);
          if (isFirst) at.value = 0;
          isFirst = false;
        };
        searchChats(query, asked.signal, tell).catch((error: unknown) => {
          if (asked.signal.aborted) return;
          setSearching(false);
          setFailure(failureOf(error));
        });
      },
      found === null ? 0 : PAUSE_MS,
    );
    return () => {
      clearTimeout(wait);
      asked.abort();
    };
  }, [query]);

  useEffect(() => shown.current?.children[at.value]?.scrollIntoView({ block: "nearest" }), [at.value]);

  const open = (chat: ListedChat | undefined) => {
    if (chat === undefined) return;
    onClose();
    const turn = chat.excerpt?.turn ?? null;
    searchTarget.value = turn === null ? null : { turn, query };
    go({ view: "chat", chat: chat.id, turn });
  };
  const count = found?.length ?? 0;
  const times = timesOfTwins(found ?? [], Date.now() / 1000);
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    if (event.key === "ArrowDown") at.value = Math.min(at.value + 1, count - 1);
    else if (event.key === "ArrowUp") at.value = Math.max(at.value - 1, 0);
    else if (event.key === "Enter") open(found?.[at.value]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search the chats" class="search" onClose={onClose}>
      <input
        type="text"
        value={query}
        autofocus
        placeholder="Words in titles, messages, tool calls"
        aria-label="Words to search for"
        role="combobox"
        aria-expanded={count > 0}
        aria-controls={list}
        aria-activedescendant={count > 0 ? `${list}-${at.value}` : undefined}
        onInput={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <Problem failure={failure} />
      <p class="hidden-visually" role="status">
        {found === null || isSearching ? "" : `${count} ${count === 1 ? "chat" : "chats"} found`}
      </p>
      {isSearching && <p class="quiet">Searching …</p>}
      {found !== null && count === 0 && !isSearching && failure === null && (
        <p class="quiet">{query.trim() === "" ? "There are no chats yet." : "No chat has these words."}</p>
      )}
      <ul id={list} ref={shown} role="listbox" aria-label="Chats" class="found">
        {found?.map((chat, index) => (
          <li key={chat.id} id={`${list}-${index}`} role="option" aria-selected={index === at.value} onClick={() => open(chat)} onPointerMove={() => (at.value = index)}>
            <strong>
              <bdi>{marked(chat.title, query)}</bdi>
              {times.has(chat.id) && <span class="quiet chat-time">{` ${times.get(chat.id)}`}</span>}
            </strong>
            {chat.excerpt && (
              <span class="quiet">
                <bdi>{marked(chat.excerpt.text, query)}</bdi>
              </span>
            )}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
