/** Edit a trace and see its tokens change: the text as a whole, or message by message. */

import "../../style/inspector_tools.css";
import { useEffect } from "preact/hooks";
import { inspectInput, tab } from "../state";
import { EditMessages } from "./edit_messages";
import { EditOutcome } from "./edit_outcome";
import { base, byMessage, change, failure, history, isBusy, outcome, stepBack, stepForth, tryNow } from "./edit_state";
import type { Base } from "./draft";
import { Failed } from "./failed";
import { SaveResult } from "./save_result";
import { findSpellings } from "./spellings";

export function EditTab() {
  const from = base.value;
  useEffect(() => {
    if (base.value !== null && outcome.value === null) tryNow();
  }, [from]);
  if (from === null) {
    return <p class="quiet">The server did not send the text of this trace, so it cannot be edited. Open it again.</p>;
  }
  const { present, past, future } = history.value;
  const isText = present.kind === "text";
  return (
    <section class="tool" aria-label="Edit" onKeyDown={onKey}>
      <div class="tool-bar">
        <button type="button" aria-disabled={past.length === 0} onClick={stepBack}>Undo</button>
        <button type="button" aria-disabled={future.length === 0} onClick={stepForth}>Redo</button>
        <button type="button" aria-disabled={past.length === 0} onClick={() => past.length > 0 && change(from.start)}>
          Start over
        </button>
        {isText ? (
          <fieldset class="tool-choice">
            <legend class="hidden-visually">What to edit</legend>
            <label>
              <input type="radio" name="edit-by" checked={byMessage.value} onChange={() => (byMessage.value = true)} />
              Messages
            </label>
            <label>
              <input type="radio" name="edit-by" checked={!byMessage.value} onChange={() => (byMessage.value = false)} />
              Raw text
            </label>
          </fieldset>
        ) : null}
        <span class="tool-rest" />
        <button type="button" aria-disabled={outcome.value === null} onClick={openResult}>Inspect the result</button>
      </div>
      {from.cuts === null ? null : (
        <p class="quiet">
          {from.inspection.input === "tokens" ? "This trace is made of token ids. " : ""}
          Messages that you leave alone keep their token ids; what you edit is encoded again, and may get other tokens than a
          model would have sampled.
        </p>
      )}
      {isText ? null : (
        <p class="tool-note">
          <strong>Edited as a conversation.</strong> Whatever is typed stays text. Headers and stops are written the usual way,
          and text outside messages is left out.
          {from.start.kind === "text" ? "" : " The trace itself has lost its control tokens, so there is no raw text to edit."}
        </p>
      )}
      <div class="tool-halves">
        <div>
          {isText && !byMessage.value && hasTypedSpelling(from) ? (
            <p class="tool-note">
              A body of this trace spells a control token. If you edit its message here, the spelling becomes a real one. Edit it
              under “Messages” to keep it as text.
            </p>
          ) : null}
          {isText && !byMessage.value ? (
            <label class="tool-field">
              Raw text, with control tokens spelled out
              <textarea
                class="tool-raw"
                rows={18}
                spellcheck={false}
                value={present.text}
                onInput={(event) => change({ kind: "text", text: event.currentTarget.value }, "raw")}
              />
            </label>
          ) : (
            <EditMessages />
          )}
        </div>
        <div class="tool-side">
          <Failed failure={failure.value} retry={() => tryNow()} />
          <EditOutcome isBusy={isBusy.value} />
          <SaveResult />
        </div>
      </div>
    </section>
  );
}

const hasTypedSpelling = (from: Base): boolean =>
  from.cuts !== null && from.inspection.messages.some(({ content }) => findSpellings(content, 1).length > 0);

function onKey(event: KeyboardEvent): void {
  // A text field has an undo of its own.
  const isInField = event.target instanceof HTMLElement && event.target.matches("textarea, input");
  if (isInField || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
  event.preventDefault();
  if (event.shiftKey) stepForth();
  else stepBack();
}

function openResult(): void {
  const found = outcome.value;
  const from = base.value;
  if (found === null || from === null) return;
  const isText = found.draft.kind === "text" && from.cuts === null;
  void inspectInput(isText ? { text: found.text, as: "text", ...from.options } : { tokens: found.after, ...from.options }).then(
    (isShown) => isShown && (tab.value = "messages"),
  );
}
