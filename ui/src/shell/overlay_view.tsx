/** The open dialog of the shell. Each is loaded when it is first needed. */

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ListedChat } from "../api/chats";
import { overlay, tell, type Overlay } from "./overlays";

export interface OverlayProps {
  chat: Pick<ListedChat, "id" | "title">;
  onClose: () => void;
}

const LOADERS: Record<Overlay["name"], () => Promise<FunctionComponent<OverlayProps>>> = {
  search: () => import("./search_dialog").then((module) => module.SearchDialog),
  help: () => import("./help_dialog").then((module) => module.HelpDialog),
  import: () => import("./import_dialog").then((module) => module.ImportDialog),
  rename: () => import("./chat_dialogs").then((module) => module.RenameDialog),
  delete: () => import("./chat_dialogs").then((module) => module.DeleteDialog),
  export: () => import("./chat_dialogs").then((module) => module.ExportDialog),
};

const NO_CHAT = { id: "", title: "" };

export function OverlayView() {
  const open = overlay.value;
  const [loaded, setLoaded] = useState<{ of: Overlay; Shown: FunctionComponent<OverlayProps> } | null>(null);
  useEffect(() => {
    if (open === null) return;
    let isWanted = true;
    LOADERS[open.name]().then(
      (Shown) => isWanted && setLoaded({ of: open, Shown }),
      () => {
        if (!isWanted) return;
        tell("The server did not send that dialog. Reload the page when the server is back.", true);
        overlay.value = null;
      },
    );
    return () => void (isWanted = false);
  }, [open]);
  if (open === null || loaded === null || loaded.of !== open) return null;
  return <loaded.Shown chat={"chat" in open ? open.chat : NO_CHAT} onClose={() => (overlay.value = null)} />;
}
