/** Renaming, deleting and exporting a chat. */

import { useState } from "preact/hooks";
import { exportChat, type ExportFormat } from "../api/chats";
import { failureOf, type Failure } from "../api/client";
import { chat as openedChat, leaf, untilSaved } from "../chat/session";
import { Dialog } from "../parts/dialog";
import { download } from "../parts/saving";
import { deleteListed, renameListed } from "./chat_list";
import { safeName } from "./downloads";
import type { OverlayProps } from "./overlay_view";
import { tell } from "./overlays";
import { Problem } from "./problem";

/** Does it, and says what went wrong where it did. */
function useWork(): { isBusy: boolean; failure: Failure | null; work: (act: () => Promise<void>) => Promise<void> } {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const work = async (act: () => Promise<void>) => {
    setBusy(true);
    setFailure(null);
    try {
      await act();
    } catch (error) {
      setFailure(failureOf(error));
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, failure, work };
}

export function RenameDialog({ chat, onClose }: OverlayProps) {
  const [title, setTitle] = useState(chat.title);
  const { isBusy, failure, work } = useWork();
  const onSubmit = (event: Event) => {
    event.preventDefault();
    void work(async () => {
      await renameListed(chat.id, title.trim());
      onClose();
    });
  };
  return (
    <Dialog title="Rename the chat" onClose={onClose}>
      <form onSubmit={onSubmit}>
        <label class="field">
          Title
          <input value={title} maxLength={200} required autofocus onInput={(event) => setTitle(event.currentTarget.value)} />
        </label>
        <Problem failure={failure} />
        <p class="buttons">
          <button class="main" disabled={isBusy || title.trim() === ""}>
            Rename
          </button>
        </p>
      </form>
    </Dialog>
  );
}

export function DeleteDialog({ chat, onClose }: OverlayProps) {
  const { isBusy, failure, work } = useWork();
  const remove = () =>
    work(async () => {
      await deleteListed(chat.id);
      onClose();
      tell("The chat was deleted.");
    });
  return (
    <Dialog title="Delete the chat?" onClose={onClose}>
      <p>
        “<bdi>{chat.title}</bdi>” and all its branches will be gone from the server’s disk. This cannot be taken back.
      </p>
      <Problem failure={failure} />
      <p class="buttons">
        <button type="button" class="danger" disabled={isBusy} onClick={() => void remove()}>
          Delete
        </button>
        <button type="button" autofocus onClick={onClose}>
          Keep it
        </button>
      </p>
    </Dialog>
  );
}

const FORMATS: readonly { format: ExportFormat; name: string; what: string; ending: string }[] = [
  { format: "markdown", name: "Markdown", what: "The branch that is shown, for people to read.", ending: "md" },
  { format: "json", name: "JSON", what: "Everything, all branches included. It can be imported again.", ending: "json" },
  { format: "harmony", name: "Raw Harmony", what: "The branch as the model saw it, special tokens spelled out.", ending: "txt" },
  { format: "tokens", name: "Token ids", what: "The same as a JSON list of ids.", ending: "tokens.json" },
];

export function ExportDialog({ chat, onClose }: OverlayProps) {
  const { isBusy, failure, work } = useWork();
  const shownLeaf = openedChat.value?.id === chat.id ? leaf.value : null;
  const save = (format: ExportFormat, ending: string) =>
    work(async () => {
      await untilSaved(); // the server writes the file, from what it has
      download(await exportChat(chat.id, format, shownLeaf), `${safeName(chat.title)}.${ending}`);
    });
  return (
    <Dialog title="Export the chat" onClose={onClose}>
      <ul class="formats">
        {FORMATS.map(({ format, name, what, ending }) => (
          <li key={format}>
            <button type="button" disabled={isBusy} onClick={() => void save(format, ending)}>
              {name}
            </button>
            <span class="quiet">{what}</span>
          </li>
        ))}
      </ul>
      <Problem failure={failure} />
    </Dialog>
  );
}
