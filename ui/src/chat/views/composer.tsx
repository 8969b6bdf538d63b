/**
 * Where the next message is written.
 *
 * 1. Enter sends, Shift-Enter begins a line; while an input method composes, Enter belongs to it.
 * 2. What is typed stays until it is in the chat: errors and reloads lose nothing.
 */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { AttachIcon, CloseIcon, FileIcon, SendIcon, StopIcon } from "../../parts/icons";
import { isComposing } from "../../parts/keys";
import { route } from "../../route";
import { bytesOf, inBytes, MOST_FILE_BYTES, readFiles } from "../attachments";
import { draftFiles, keepDraft, keepFiles, readDraft } from "../draft";
import { chat, creating, draft, running, sendMessage, stop, waitingFor } from "../session";
import { EffortSelect } from "./effort_select";
import { GrowingText } from "./growing_text";
import { IconButton } from "./icon_button";
import { isTooLong, PromptCount, TooLong, usePromptSize } from "./prompt_count";

export function Composer() {
  const [refused, setRefused] = useState<readonly string[]>([]);
  const [isOver, setOver] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const chatId = chat.value?.id ?? null;
  const isRunning = running.value !== null;
  const waits = waitingFor.value.approvals.length + waitingFor.value.calls.length > 0;
  // What was typed belongs to the chat that the address names: a new one has no other name yet.
  const draftOf = route.value.chat;
  const files = draftFiles(draftOf);
  const isEmpty = draft.value.trim() === "" && files.length === 0;
  const size = usePromptSize(files);
  const isFull = isTooLong(size);
  useLayoutEffect(() => void (draft.value = readDraft(draftOf)), [draftOf]); // before anybody can type

  // A touch keyboard that jumps up hides what one came to read.
  useLayoutEffect(() => {
    if (matchMedia("(pointer: fine)").matches && !document.querySelector("dialog[open]")) box.current?.focus();
  }, [chatId]);

  const add = async (given: readonly File[]): Promise<void> => {
    if (given.length === 0) return;
    const read = await readFiles(given, files.length);
    keepFiles(draftOf, [...draftFiles(draftOf), ...read.files]);
    setRefused(read.refused);
  };
  const send = async (): Promise<void> => {
    if (isEmpty || isFull || isRunning || creating.value) return;
    const along = files;
    keepFiles(draftOf, []);
    setRefused([]);
    const text = draft.value;
    if (await sendMessage(text, along)) {
      for (const kept of [null, draftOf, chat.value?.id ?? null]) keepDraft(kept, "");
    } else keepFiles(draftOf, along); // it did not reach the chat: the text is in the box again
  };
  const type = (text: string): void => {
    draft.value = text;
    keepDraft(draftOf, text);
  };
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    void send();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (isComposing(event)) return;
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void send();
  };
  const onPaste = (event: ClipboardEvent): void => {
    const given = [...(event.clipboardData?.files ?? [])];
    if (given.length === 0) return;
    event.preventDefault();
    void add(given);
  };
  const onDrop = (event: DragEvent): void => {
    setOver(false);
    const given = [...(event.dataTransfer?.files ?? [])];
    if (given.length === 0) return;
    event.preventDefault();
    void add(given);
  };
  const onDragOver = (event: DragEvent): void => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  const hint = isOver ? "Drop text files here" : waits ? "Decide above, or write something else" : "Write a message";
  return (
    <form class={`composer ${isOver ? "is-over" : ""}`} aria-label="Your message" onSubmit={onSubmit}
      onDragOver={onDragOver} onDragLeave={() => setOver(false)} onDrop={onDrop}>
      {refused.length > 0 && (
        <div class="refused" role="alert">
          <ul>{refused.map((words) => <li key={words}>{words}</li>)}</ul>
          <IconButton label="Close" onClick={() => setRefused([])}><CloseIcon /></IconButton>
        </div>
      )}
      {files.length > 0 && (
        <ul class="files" aria-label="Attached files">
          {files.map((file, at) => (
            <li key={at} class="chip">
              <FileIcon />
              <span class="file-name">{file.name}</span>
              <span class="quiet">{inBytes(bytesOf(file.text))}</span>
              <IconButton label={`Remove ${file.name}`} onClick={() => keepFiles(draftOf, files.filter((_, other) => other !== at))}>
                <CloseIcon />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      <GrowingText boxRef={box} data-composer="" dir="auto" aria-label="Message" placeholder={hint} enterkeyhint="send"
        value={draft.value} readOnly={creating.value} onInput={type} onKeyDown={onKeyDown} onPaste={onPaste} />
      <TooLong size={size} />
      <div class="composer-row">
        <AttachButton onFiles={(given) => void add(given)} />
        <label class="effort">
          <span class="quiet">Effort</span>
          <EffortSelect />
        </label>
        <PromptCount size={size} />
        {isRunning ? (
          <button type="button" class="main round" onClick={stop} aria-keyshortcuts="Escape" title="Stop (Escape)">
            <StopIcon />
            Stop
          </button>
        ) : (
          <button type="submit" class="main round" disabled={isEmpty || isFull} title={isFull ? "The message does not fit into the context" : "Send (Enter)"}>
            <SendIcon />
            Send
          </button>
        )}
      </div>
    </form>
  );
}

function AttachButton({ onFiles }: { onFiles: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton label={`Attach text files, up to ${inBytes(MOST_FILE_BYTES)} each`} onClick={() => input.current?.click()}>
        <AttachIcon />
      </IconButton>
      <input ref={input} type="file" multiple hidden aria-label="Text files"
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = ""; // so that the same file can be chosen again
        }} />
    </>
  );
}
