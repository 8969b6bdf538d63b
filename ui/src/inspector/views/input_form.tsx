/** Where a trace is given: pasted, dropped, opened from a file, or an example; and what the reader knows about it. */

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { InputKind } from "../../api/inspect";
import { FileIcon } from "../../parts/icons";
import { EXAMPLES } from "../examples";
import { type Draft, KINDS, LONGEST_FIELD, MOST_BYTES, draftOf, readDraft } from "../input";
import { closeInspection, input, inspectInput, inspection, isBusy, isInputOpen } from "../state";
import { counted } from "../trace";

export function InputForm() {
  const edited = useSignal<Draft>(draftOf(input.value));
  const draft = edited.value;
  const [error, setError] = useState<string | null>(null);
  const [isOver, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const file = useRef<HTMLInputElement>(null);
  // Before anybody can type: what was typed first would be lost, and the focus would come too late.
  useLayoutEffect(() => void (edited.value = draftOf(input.value)), [input.value]);
  useLayoutEffect(() => {
    if (inspection.value !== null) area.current?.focus();
  }, []);

  const change = (changed: Partial<Draft>): void => {
    edited.value = { ...edited.value, ...changed };
    setError(null);
  };
  const send = (given: Draft): void => {
    const read = readDraft(given);
    if ("error" in read) {
      setError(read.error);
      area.current?.focus();
      return;
    }
    setError(null);
    void inspectInput(read.input);
  };
  const openFile = async (chosen: File | null | undefined): Promise<void> => {
    if (chosen == null) return;
    if (chosen.size > MOST_BYTES) return setError(`${chosen.name} is larger than 8 MiB. Cut out the part that matters.`);
    try {
      const given = { ...edited.value, text: await chosen.text(), as: "auto" as InputKind };
      edited.value = given;
      send(given);
    } catch {
      setError(`${chosen.name} could not be read.`);
    }
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    const dropped = event.dataTransfer?.files[0];
    if (dropped !== undefined) void openFile(dropped);
    else change({ text: event.dataTransfer?.getData("text/plain") ?? "" });
  };

  return (
    <form
      class={isOver ? "input-form over" : "input-form"}
      aria-label="What to inspect"
      onSubmit={(event) => {
        event.preventDefault();
        send(edited.value);
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <TraceField draft={draft} area={area} hasError={error !== null} change={change} send={() => send(edited.value)} />
      {error !== null && (
        <p class="form-error" id="trace-error" role="alert">
          {error}
        </p>
      )}
      <div class="input-options">
        <label>
          What it is{" "}
          <select value={draft.as} onChange={(event) => change({ as: event.currentTarget.value as InputKind })}>
            {KINDS.map(([value, word]) => (
              <option key={value} value={value}>
                {word}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={draft.isCompletion} onChange={(event) => change({ isCompletion: event.currentTarget.checked })} />
          <span>
            A completion: it starts after <code>{"<|start|>assistant"}</code>
          </span>
        </label>
        <label>
          <input type="checkbox" checked={draft.isStopSwallowed} onChange={(event) => change({ isStopSwallowed: event.currentTarget.checked })} />
          The engine removed the stop token
        </label>
        <details>
          <summary>{draft.tools.trim() === "" ? "Tools" : "Tools (given)"}</summary>
          <label for="trace-tools">Names separated by commas, or their definitions as JSON</label>
          <textarea id="trace-tools" rows={3} spellcheck={false} value={draft.tools} onInput={(event) => change({ tools: event.currentTarget.value })} />
        </details>
      </div>
      <div class="input-buttons">
        <button class="main" type="submit" disabled={isBusy.value}>
          {isBusy.value ? "Inspecting …" : "Inspect"}
        </button>
        <button type="button" onClick={() => file.current?.click()}>
          <FileIcon /> Open a file
        </button>
        <input ref={file} class="hidden-visually" type="file" tabIndex={-1} aria-label="File to inspect" onChange={(event) => {
            void openFile(event.currentTarget.files?.[0]);
            event.currentTarget.value = "";
          }} />
        {inspection.value !== null && (
          <>
            <ExampleChoice />
            <button type="button" onClick={() => (isInputOpen.value = false)}>
              Back to the trace
            </button>
            <button type="button" class="plain" onClick={() => {
                closeInspection();
                input.value = { text: "" };
              }}>
              Clear
            </button>
          </>
        )}
      </div>
    </form>
  );
}

const ExampleChoice = () => (
  <select
    aria-label="Example"
    value=""
    onChange={(event) => {
      const example = EXAMPLES[Number(event.currentTarget.value)];
      event.currentTarget.value = "";
      if (example !== undefined) void inspectInput(example.input);
    }}
  >
    <option value="">Try an example …</option>
    {EXAMPLES.map((example, at) => (
      <option key={example.name} value={at}>
        {example.name}
      </option>
    ))}
  </select>
);

interface FieldProps {
  draft: Draft;
  area: RefObject<HTMLTextAreaElement | null>;
  hasError: boolean;
  change: (changed: Partial<Draft>) => void;
  send: () => void;
}

/** The text itself, to be written in; or its beginning, where it is too long for that. */
function TraceField({ draft, area, hasError, change, send }: FieldProps) {
  if (draft.text.length > LONGEST_FIELD) {
    return (
      <div class="long-text">
        <p>
          <strong>{`A text of ${counted(draft.text.length, "character")}.`}</strong> It is too long to be edited here; this is its beginning.{" "}
          <button type="button" onClick={() => change({ text: "" })}>
            Remove
          </button>
        </p>
        <pre class="body-text">{draft.text.slice(0, 500)}</pre>
      </div>
    );
  }
  const onPaste = (event: ClipboardEvent): void => {
    const pasted = event.clipboardData?.getData("text/plain") ?? "";
    const field = area.current;
    if (field === null || pasted.length + field.value.length <= LONGEST_FIELD) return;
    event.preventDefault();
    change({ text: field.value.slice(0, field.selectionStart) + pasted + field.value.slice(field.selectionEnd) });
  };
  return (
    <>
      <label for="trace">Trace</label>
      <textarea
        id="trace"
        ref={area}
        rows={8}
        spellcheck={false}
        autocomplete="off"
        placeholder="Paste Harmony text, token ids, stripped text, a conversation as JSON or JSONL, a saved stream … or drop a file here."
        value={draft.text}
        aria-describedby={hasError ? "trace-error" : undefined}
        onInput={(event) => change({ text: event.currentTarget.value })}
        onPaste={onPaste}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            send();
          }
        }}
      />
    </>
  );
}
