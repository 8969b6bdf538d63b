/** The chats, by day. Each can be opened, renamed, exported and deleted. */

import { useEffect } from "preact/hooks";
import type { ListedChat } from "../api/chats";
import { apiKey, needsKey } from "../api/client";
import { chat as openedChat, leaf } from "../chat/session";
import { Menu } from "../parts/menu";
import { copyText } from "../parts/saving";
import { sentence } from "../parts/sentence";
import { hashOf, route } from "../route";
import { chats, hasMore, isLoading, listFailure, loadChats, loadMoreChats } from "./chat_list";
import { byDay, timesOfTwins } from "./days";
import { watchOthers } from "./following";
import { isListOpen, overlay, tell } from "./overlays";
import { startNewChat } from "./shortcuts";

export function Sidebar() {
  const key = apiKey.value;
  useEffect(() => void loadChats(), [key]);
  useEffect(watchOthers, []);
  const now = Date.now() / 1000;
  const groups = byDay(chats.value, now);
  const times = timesOfTwins(chats.value, now);
  return (
    <aside id="chats" class="sidebar" aria-label="Chats" data-open={isListOpen.value}>
      <div class="row">
        <button type="button" class="main" onClick={startNewChat}>
          New chat
        </button>
        <button type="button" onClick={() => (overlay.value = { name: "import" })}>
          Import
        </button>
      </div>
      {listFailure.value !== null && !(listFailure.value.kind === "key" && needsKey.value) && (
        <p class="problem" role="alert">
          {`The chats could not be loaded. ${sentence(listFailure.value.message)} `}
          <button type="button" onClick={() => void loadChats()}>
            Try again
          </button>
        </p>
      )}
      {groups.length === 0 && !isLoading.value && listFailure.value === null && <p class="quiet">Chats are kept on the server. There are none yet.</p>}
      {groups.map((group) => (
        <section key={group.name}>
          <h2>{group.name}</h2>
          <ul>
            {group.items.map((chat) => (
              <ChatRow key={chat.id} chat={chat} time={times.get(chat.id)} />
            ))}
          </ul>
        </section>
      ))}
      {hasMore.value && (
        <button type="button" class="plain" disabled={isLoading.value} onClick={() => void loadMoreChats()}>
          Older chats
        </button>
      )}
    </aside>
  );
}

/** Copies the address of a chat; for the open chat, that of the branch that is shown. */
async function copyLink(id: string): Promise<void> {
  const turn = openedChat.value?.id === id ? leaf.value : null;
  const isCopied = await copyText(new URL(hashOf({ view: "chat", chat: id, turn }), location.href).href);
  tell(isCopied ? "The link was copied." : "The browser does not allow this page to copy.", !isCopied);
}

function ChatRow({ chat, time }: { chat: ListedChat; time: string | undefined }) {
  const isOpen = route.value.chat === chat.id;
  const open = (name: "rename" | "export" | "delete") => () => (overlay.value = { name, chat });
  return (
    <li class="chat-row" data-open={isOpen}>
      <a href={hashOf({ view: "chat", chat: chat.id, turn: null })} aria-current={isOpen ? "page" : undefined} title={chat.title} onClick={() => (isListOpen.value = false)}>
        <bdi>{chat.title}</bdi>
        {time !== undefined && <span class="quiet chat-time">{time}</span>}
      </a>
      <Menu
        label={`Actions for ${chat.title}`}
        actions={[
          { name: "Copy link", act: () => void copyLink(chat.id) },
          { name: "Rename", act: open("rename") },
          { name: "Export", act: open("export") },
          { name: "Delete", isDangerous: true, act: open("delete") },
        ]}
      >
        <span aria-hidden="true">⋯</span>
      </Menu>
    </li>
  );
}
