/** The chat: the conversation, what went wrong, and where the next message is written. */

import "../style/answer.css";
import "../style/composer.css";
import "../style/chat.css";
import { useEffect, useState } from "preact/hooks";
import { needsKey } from "../api/client";
import { SettingsIcon } from "../parts/icons";
import { go, route } from "../route";
import { failureWords } from "./failure_words";
import { branch, chat, dismissFailure, failure, loading, newChat, openChat } from "./session";
import { retry, retrySaving, saveFailure, saving } from "./session";
import { Announcer } from "./views/announcer";
import { Composer } from "./views/composer";
import { EmptyState } from "./views/empty_state";
import { LazySettings } from "./views/lazy_settings";
import { TurnList } from "./views/turn_list";

export function ChatView() {
  const [isSetting, setSetting] = useState(false);
  const { chat: wantedChat, turn: wantedTurn } = route.value;
  useEffect(() => {
    if (route.peek().view !== "chat") return;
    if (wantedChat === null) newChat();
    else void openChat(wantedChat, wantedTurn);
  }, [wantedChat, wantedTurn]);
  const turns = branch.value;
  const isEmpty = turns.length === 0;
  // An address that names a turn follows the branch that is shown.
  useEffect(() => {
    const { view, chat: id, turn } = route.peek();
    if (view !== "chat" || turn === null || chat.peek()?.id !== id || loading.peek() || turns.some((each) => each.id === turn)) return;
    go({ view, chat: id, turn: turns.at(-1)?.id ?? null }, true);
  }, [turns, wantedTurn]);
  return (
    <div class="chat">
      <header class="chat-head">
        <h1 dir="auto">{chat.value?.title || (wantedChat === null ? "New chat" : "Chat")}</h1>
        <SavingWord />
        <button type="button" class="plain" onClick={() => setSetting(true)}>
          <SettingsIcon />
          Settings
        </button>
      </header>
      {loading.value && isEmpty ? (
        <p class="quiet chat-loading" role="status">Loading the chat …</p>
      ) : isEmpty && failure.value?.doing !== "loading" ? (
        <EmptyState />
      ) : (
        <TurnList wanted={wantedTurn} />
      )}
      <div class="chat-foot">
        <Trouble onSettings={() => setSetting(true)} />
        <Composer />
      </div>
      <Announcer />
      {isSetting && <LazySettings onClose={() => setSetting(false)} />}
    </div>
  );
}

function SavingWord() {
  switch (saving.value) {
    case "saved":
      return null;
    case "saving":
      return <span class="quiet">Saving …</span>;
    case "failed":
      return (
        <span class="not-saved">
          <span>
            Not saved yet
            {saveFailure.value !== null && <span class="narrow-off">{`: ${failureWords(saveFailure.value).title.toLowerCase()}`}</span>}
          </span>
          <button type="button" class="small" onClick={retrySaving}>Save now</button>
        </span>
      );
  }
}

/** What went wrong, unless the turn that failed tells it itself. */
function Trouble({ onSettings }: { onSettings: () => void }) {
  const now = failure.value;
  if (now === null) return null;
  if (now.turn !== null && branch.value.some((turn) => turn.id === now.turn && turn.status === "failed")) return null;
  const { title, what, action } = failureWords(now.failure);
  return (
    <div class="trouble" role="alert">
      <strong>{title}</strong>
      <p>{what}</p>
      <div class="choices">
        {action !== "none" && <button type="button" class="small" onClick={() => void retry()}>Retry</button>}
        {action === "key" && <button type="button" class="small" onClick={() => (needsKey.value = true)}>Enter a key</button>}
        {action === "settings" && <button type="button" class="small" onClick={onSettings}>Settings</button>}
        <button type="button" class="small" onClick={dismissFailure}>Close</button>
      </div>
    </div>
  );
}
