/** Chats from files: chosen or dropped or pasted, listed, and imported when the person says so. */

import { useState } from "preact/hooks";
import { importChats, type ImportedChats } from "../api/chats";
import { failureOf } from "../api/client";
import { Dialog } from "../parts/dialog";
import { formatWords, READABLE } from "../parts/format_words";
import { sentence } from "../parts/sentence";
import { go, hashOf } from "../route";
import { loadChats } from "./chat_list";
import type { OverlayProps } from "./overlay_view";
import { tell } from "./overlays";

interface Source {
  name: string;
  size: number;
  read: () => Promise<string>;
}

type Outcome = { name: string; imported: ImportedChats } | { name: string; problem: string };

const MOST_BYTES = 8 * 1024 * 1024;

export function ImportDialog({ onClose }: OverlayProps) {
  const [chosen, setChosen] = useState<readonly Source[]>([]);
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const pasted: Source[] = text.trim() === "" ? [] : [{ name: "The pasted text", size: text.length, read: async () => text }];
  const sources = [...chosen, ...pasted];

  const choose = (files: FileList | null | undefined): void => {
    const added = [...(files ?? [])].map((file) => ({ name: file.name, size: file.size, read: () => file.text() }));
    setChosen([...chosen, ...added]);
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    choose(event.dataTransfer?.files);
  };
  const importAll = async (): Promise<void> => {
    setBusy(true);
    const done: Outcome[] = [];
    for (const source of sources) done.push(await takeOne(source));
    await loadChats();
    setBusy(false);
    const only = onlyChat(done);
    if (only !== null) {
      go({ view: "chat", chat: only.id, turn: null });
      tell(`Imported “${only.title}”.`);
      if (only.isWhole) return onClose();
    }
    // What was imported is not there to be imported once more; what was not, is.
    setOutcomes(done);
    setChosen(chosen.filter((_, at) => "problem" in (done[at] as Outcome)));
    if (pasted.length > 0 && !("problem" in (done.at(-1) as Outcome))) setText("");
  };
  return (
    <Dialog title="Import chats" onClose={onClose}>
      <div class="drop" onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
        <label class="field">
          Files
          <input type="file" multiple disabled={isBusy} onChange={(event) => {
              choose(event.currentTarget.files);
              event.currentTarget.value = ""; // so that the same file can be chosen again
            }} />
        </label>
        {chosen.length > 0 && (
          <ul class="chosen" aria-label="Chosen files">
            {chosen.map((source, at) => (
              <li key={at}>
                <bdi>{source.name}</bdi>{" "}
                <button type="button" class="small" aria-label={`Remove ${source.name}`} disabled={isBusy}
                  onClick={() => setChosen(chosen.filter((_, index) => index !== at))}>
                  Remove
                </button>
              </li>
            ))}
          </ul>
        )}
        <label class="field">
          Or paste it here
          <textarea rows={5} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <details>
          <summary>What can be read</summary>
          <ul>
            {READABLE.map((words) => (
              <li key={words}>{words}</li>
            ))}
          </ul>
        </details>
        <p class="buttons">
          <button type="button" class="main" disabled={isBusy || sources.length === 0} onClick={() => void importAll()}>
            Import
          </button>
        </p>
      </div>
      <div role="status">
        {isBusy && <p>Importing …</p>}
        {!isBusy && outcomes.map((outcome, at) => <OutcomeView key={at} outcome={outcome} onClose={onClose} />)}
      </div>
    </Dialog>
  );
}

/** The chat to open at once: the only one that there was. Where something of it was lost, the dialog stays to say so. */
function onlyChat(done: readonly Outcome[]): { id: string; title: string; isWhole: boolean } | null {
  const first = done[0];
  if (done.length !== 1 || first === undefined || "problem" in first) return null;
  const { chats, losses } = first.imported;
  const [chat] = chats;
  return chat === undefined || chats.length > 1 ? null : { id: chat.id, title: chat.title, isWhole: losses.length === 0 };
}

async function takeOne({ name, size, read }: Source): Promise<Outcome> {
  if (size > MOST_BYTES) return { name, problem: "It is larger than 8 MiB." };
  try {
    return { name, imported: await importChats(await read(), name) };
  } catch (error) {
    return { name, problem: sentence(failureOf(error).message) };
  }
}

function OutcomeView({ outcome, onClose }: { outcome: Outcome; onClose: () => void }) {
  if ("problem" in outcome) {
    return (
      <section class="problem">
        <strong>
          <bdi>{outcome.name}</bdi> was not imported
        </strong>
        <p>{outcome.problem}</p>
        <p>{`These can be read: ${READABLE.join(", ")}.`}</p>
      </section>
    );
  }
  const { chats, format, losses } = outcome.imported;
  return (
    <section class="imported">
      <strong>
        <bdi>{outcome.name}</bdi>
        {` is imported: ${chats.length === 1 ? "one chat" : `${chats.length} chats`}`}
      </strong>
      <p class="quiet">{`It was read as: ${formatWords(format)}.`}</p>
      <ul>
        {chats.map((chat) => (
          <li key={chat.id}>
            <a href={hashOf({ view: "chat", chat: chat.id, turn: null })} onClick={onClose}>
              <bdi>{chat.title}</bdi>
            </a>
          </li>
        ))}
      </ul>
      {losses.length > 0 && (
        <details open>
          <summary>{losses.length === 1 ? "One thing could not be imported" : `${losses.length} things could not be imported`}</summary>
          <ul>
            {losses.map((loss, at) => (
              <li key={at}>{loss}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}
