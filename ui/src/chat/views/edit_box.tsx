/** Boxes in the place of a turn's texts, to rewrite them. Ctrl-Enter saves, Escape leaves everything as it was. */

import { useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { isComposing } from "../../parts/keys";
import { running } from "../session";
import { GrowingText } from "./growing_text";

interface Props {
  label: string;
  texts: readonly string[];
  labels?: readonly string[];
  /** Which of the texts one came to change. */
  focusAt?: number;
  act: string;
  hint: string;
  onSave: (texts: readonly string[]) => void;
  onCancel: () => void;
}

export function EditBox({ label, texts, labels, focusAt = 0, act, hint, onSave, onCancel }: Props) {
  const edited = useSignal(texts);
  const form = useRef<HTMLFormElement>(null);
  const id = useId();
  useLayoutEffect(() => form.current?.querySelectorAll("textarea")[focusAt]?.focus(), []);
  // While an answer runs nothing can be asked; what was written waits here.
  const cannotSave = (): boolean => running.value !== null || edited.value.every((text) => text.trim() === "");
  const onKeyDown = (event: KeyboardEvent): void => {
    if (isComposing(event)) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      onCancel();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !cannotSave()) {
      event.preventDefault();
      onSave(edited.value);
    }
  };
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    if (!cannotSave()) onSave(edited.value);
  };
  return (
    <form class="edit-box" ref={form} onKeyDown={onKeyDown} onSubmit={onSubmit}>
      {edited.value.map((text, at) => (
        <div key={at}>
          <label for={`${id}-${at}`} class={labels === undefined ? "hidden-visually" : "quiet"}>
            {labels?.[at] ?? label}
          </label>
          <GrowingText id={`${id}-${at}`} dir="auto" value={text} onInput={(value) => (edited.value = edited.value.with(at, value))} />
        </div>
      ))}
      <div class="choices">
        <button type="submit" class="main" disabled={cannotSave()}>{act}</button>
        <button type="button" onClick={onCancel}>Cancel</button>
        <span class="quiet">{hint}</span>
      </div>
    </form>
  );
}
