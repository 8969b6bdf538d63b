/** The bar at the top: where one is, which model answers, and what works everywhere. Narrow screens have pictures only. */

import type { ComponentChildren } from "preact";
import { serverInfo } from "../api/server";
import { chat } from "../chat/session";
import { AddIcon, HalfIcon, ListIcon, MoonIcon, SearchIcon, SunIcon } from "../parts/icons";
import { hashOf, route } from "../route";
import { isListOpen, overlay } from "./overlays";
import { startNewChat } from "./shortcuts";
import { nextTheme, theme } from "./theme";

const THEMES = { system: { word: "Auto", Icon: HalfIcon }, light: { word: "Light", Icon: SunIcon }, dark: { word: "Dark", Icon: MoonIcon } };

export function Bar() {
  const info = serverInfo.value;
  const { view } = route.value;
  const { word, Icon } = THEMES[theme.value];
  return (
    <header class="bar">
      <button type="button" class="plain list-button" title="Chats" aria-expanded={isListOpen.value} aria-controls="chats" onClick={() => (isListOpen.value = !isListOpen.value)}>
        <ListIcon />
        <Word>Chats</Word>
      </button>
      <strong class="name">Harmonia</strong>
      <nav aria-label="Views">
        {/* Back to the chat that is open, so that looking at the inspector loses nothing. */}
        <a href={hashOf({ view: "chat", chat: chat.value?.id ?? null, turn: null })} aria-current={view === "chat" ? "page" : undefined}>
          Chat
        </a>
        <a href="#/inspect" aria-current={view === "inspect" ? "page" : undefined}>
          Inspector
        </a>
      </nav>
      <p class="model quiet" title="The model, and the engine that runs it">
        {info === null ? "" : `${info.models[0] ?? "no model yet"} · ${info.engine ?? "no engine yet"}`}
      </p>
      <button type="button" class="plain" title="Search (Ctrl K)" onClick={() => (overlay.value = { name: "search" })}>
        <SearchIcon />
        <Word>Search</Word> <kbd>Ctrl K</kbd>
      </button>
      <button type="button" class="plain new-button" title="New chat" onClick={startNewChat}>
        <AddIcon />
        <Word>New chat</Word>
      </button>
      <button type="button" class="plain" title={`Theme: ${word}`} onClick={() => (theme.value = nextTheme())}>
        <Icon />
        <Word>{`Theme: ${word.toLowerCase()}`}</Word>
      </button>
      <button type="button" class="plain" aria-label="Shortcuts and help" title="Shortcuts and help" onClick={() => (overlay.value = { name: "help" })}>
        ?
      </button>
    </header>
  );
}

const Word = ({ children }: { children: ComponentChildren }) => <span class="bar-word">{children}</span>;
