/** The edited trace to take along: as text, as ids, as a conversation. */

import { useState } from "preact/hooks";
import { copyText, download } from "../../parts/saving";
import { base, outcome } from "./edit_state";
import type { Outcome } from "./draft";
import { harmonyJson } from "./rendering";
import { findSpellings } from "./spellings";
import { fieldsOf } from "./splice";

type Format = "text" | "tokens" | "harmony-json";

const FORMATS: Record<Format, { label: string; file: string; type: string }> = {
  text: { label: "Text", file: "trace.harmony.txt", type: "text/plain" },
  tokens: { label: "Token ids", file: "trace.tokens.json", type: "application/json" },
  "harmony-json": { label: "Conversation (harmony-json)", file: "trace.harmony.json", type: "application/json" },
};

export function written(found: Outcome, format: Format): string {
  if (format === "text") return found.text;
  if (format === "tokens") return JSON.stringify(found.after);
  const messages = found.draft.kind === "conversation" ? found.draft.messages : found.inspection.messages.map(fieldsOf);
  return JSON.stringify(harmonyJson(messages), null, 2);
}

export function SaveResult() {
  const [format, setFormat] = useState<Format>("text");
  const [said, setSaid] = useState("");
  const found = outcome.value;
  if (found === null || base.value === null) return null;
  const bodies = found.draft.kind === "conversation" ? found.draft.messages : found.inspection.messages;
  const isAmbiguous = format === "text" && bodies.some(({ content }) => findSpellings(content, 1).length > 0);
  const { file, type } = FORMATS[format];
  const copy = async (): Promise<void> =>
    setSaid((await copyText(written(found, format))) ? "Copied." : "The browser does not allow this page to copy. Download it instead.");
  return (
    <section aria-label="Export">
      <h2>Export</h2>
      <div class="tool-bar">
        <label>
          <span class="hidden-visually">Format</span>
          <select value={format} onChange={(event) => (setFormat(event.currentTarget.value as Format), setSaid(""))}>
            {Object.entries(FORMATS).map(([id, { label }]) => (
              <option key={id} value={id}>{label}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => void copy()}>Copy</button>
        <button type="button" onClick={() => download(new Blob([written(found, format)], { type: `${type};charset=utf-8` }), file)}>Download</button>
        <span role="status" class="quiet">{said}</span>
      </div>
      {isAmbiguous ? (
        <p class="tool-note">A body spells a control token. Plain text cannot tell the two apart: export the ids or the conversation.</p>
      ) : null}
    </section>
  );
}
