/** The page: a bar, the list of chats, and the view that the address names. The inspector is loaded when it is needed. */

import "../style/shell.css";
import { useEffect } from "preact/hooks";
import { apiKey } from "../api/client";
import { loadServerInfo } from "../api/server";
import { ChatView } from "../chat/chat_view";
import { Lazy } from "../parts/lazy";
import { route } from "../route";
import { Bar } from "./bar";
import { KeyDialog } from "./key_dialog";
import { NoticeView } from "./notice_view";
import { OverlayView } from "./overlay_view";
import { followTitle } from "./page_title";
import { listenForShortcuts } from "./shortcuts";
import { Sidebar } from "./sidebar";

const inspectorView = () => import("../inspector/inspector_view").then((module) => module.InspectorView);

export function App() {
  const key = apiKey.value;
  // What goes wrong here goes wrong again, and is told, where the answer is needed.
  useEffect(() => void loadServerInfo().catch(() => undefined), [key]);
  useEffect(listenForShortcuts, []);
  useEffect(followTitle, []);
  return (
    <div class="page" data-view={route.value.view}>
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to the content
      </a>
      <Bar />
      <Sidebar />
      <main id="main" tabIndex={-1}>
        {route.value.view === "inspect" ? <Lazy load={inspectorView} name="the inspector" /> : <ChatView />}
      </main>
      <NoticeView />
      <OverlayView />
      <KeyDialog />
    </div>
  );
}

// The hash is the page's address, so that the link must not change it.
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
