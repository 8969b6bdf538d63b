/** The form of one side: pasted or dropped, what is open, or a turn of a chat. */

import { useEffect, useState } from "preact/hooks";
import { failureOf } from "../../api/client";
import { listChats, type ListedChat } from "../../api/chats";
import { knownChat } from "../../chat/known";
import { timesOfTwins } from "../../shell/days";
import { inspection, turnTrace } from "../state";
import { answersOf, EMPTY, type Side, type TurnChoice } from "./diff_side";

const MOST_CHARACTERS = 8 * 1024 * 1024;

interface Props {
  id: string;
  legend: string;
  side: Side;
  set: (side: Side) => void;
}

export function DiffInput({ id, legend, side, set }: Props) {
  const [isOver, setOver] = useState(false);
  const [said, setSaid] = useState("");
  const read = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    if (file.size > MOST_CHARACTERS) return setSaid("The file is larger than 8 MiB. Choose a smaller one.");
    try {
      set({ from: "text", text: await file.text(), name: file.name });
      setSaid(`Read ${file.name}.`);
    } catch {
      setSaid(`${file.name} could not be read. It may be a folder, or it is gone.`);
    }
  };
  return (
    <fieldset
      class={`tool-input${isOver ? " is-over" : ""}`}
      onDragOver={(event) => (event.preventDefault(), setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const text = event.dataTransfer?.getData("text/plain") ?? "";
        const file = event.dataTransfer?.files[0];
        if (file !== undefined) void read(file);
        else if (text !== "") set({ from: "text", text, name: null });
      }}
    >
      <legend>{legend}</legend>
      <label class="tool-field">
        Take it from
        <select
          value={side.from}
          onChange={(event) => {
            const from = event.currentTarget.value;
            set(from === "current" ? { from, whole: false } : from === "turn" ? { from, chat: "", turn: "", whole: false } : EMPTY);
          }}
        >
          <option value="text">Text or a file</option>
          <option value="current" disabled={inspection.value === null}>The trace that is open</option>
          <option value="turn">A turn of a chat</option>
        </select>
      </label>
      {side.from === "text" ? (
        <>
          <label class="tool-field">
            Harmony text, token ids or a conversation
            <textarea rows={5} spellcheck={false} value={side.text}
              onInput={(event) => set({ from: "text", text: event.currentTarget.value, name: null })} />
          </label>
          <label class="tool-field">
            Or a file, which can also be dropped here
            <input type="file" id={`${id}-file`} onChange={(event) => void read(event.currentTarget.files?.[0])} />
          </label>
        </>
      ) : null}
      {side.from === "turn" ? <TurnChoices side={side} set={set} /> : null}
      {side.from === "turn" || (side.from === "current" && turnTrace.value !== null) ? (
        <label class="tool-field">
          What of it
          <select value={side.whole ? "whole" : "prompt"} onChange={(event) => set({ ...side, whole: event.currentTarget.value === "whole" })}>
            <option value="prompt">The prompt</option>
            <option value="whole">The prompt and the answer</option>
          </select>
        </label>
      ) : null}
      <p class="quiet" role="status">{said}</p>
    </fieldset>
  );
}

function TurnChoices({ side, set }: { side: Extract<Side, { from: "turn" }>; set: (side: Side) => void }) {
  const [chats, setChats] = useState<ListedChat[]>([]);
  const [turns, setTurns] = useState<TurnChoice[]>([]);
  const times = timesOfTwins(chats, Date.now() / 1000);
  const [said, setSaid] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    listChats({ limit: 50 }, stop.signal).then(
      ({ data }) => (setChats(data), setSaid(data.length === 0 ? "There are no chats yet." : "")),
      (error: unknown) => setSaid(failureOf(error).kind === "stopped" ? "" : `The chats could not be listed: ${failureOf(error).message}`),
    );
    return () => stop.abort();
  }, []);
  useEffect(() => {
    let isWanted = true;
    setTurns([]);
    if (side.chat === "") return;
    knownChat(side.chat).then(
      (chat) => {
        if (!isWanted) return;
        const answers = answersOf(chat);
        setTurns(answers);
        setSaid(answers.length === 0 ? "This chat has no answers yet." : "");
        if (side.turn === "" && answers.length > 0) set({ ...side, turn: answers.at(-1)?.turn ?? "" });
      },
      (error: unknown) => isWanted && setSaid(`The chat could not be read: ${failureOf(error).message}`),
    );
    return () => void (isWanted = false);
  }, [side.chat]);
  return (
    <>
      <label class="tool-field">
        Chat
        <select value={side.chat} onChange={(event) => set({ ...side, chat: event.currentTarget.value, turn: "" })}>
          <option value="">Choose a chat</option>
          {chats.map(({ id, title }) => (
            <option key={id} value={id}>{`${title || "Untitled"}${times.has(id) ? ` (${times.get(id)})` : ""}`}</option>
          ))}
        </select>
      </label>
      <label class="tool-field">
        Turn
        <select value={side.turn} disabled={turns.length === 0} onChange={(event) => set({ ...side, turn: event.currentTarget.value })}>
          {turns.map(({ turn, label }) => <option key={turn} value={turn}>{label}</option>)}
        </select>
      </label>
      <p class="quiet" role="status">{said}</p>
    </>
  );
}
