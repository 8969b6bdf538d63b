/** How the answers of this chat are asked for. It is loaded when it is first opened, and stored with the chat. */

import "../../style/settings.css";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Dialog } from "../../parts/dialog";
import { changeSettings, settings } from "../session";
import { EffortSelect } from "./effort_select";
import { type NumberField, readFunctions, readNumber } from "./settings_fields";
import { ToolSettings } from "./tool_settings";

export function SettingsDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Settings of this chat" class="settings" onClose={onClose}>
      <Told name="identity" title="System prompt (identity)" rows={2}
        placeholder="You are ChatGPT, a large language model trained by OpenAI."
        hint="The first words of the system message. If it is empty, the words above are used." />
      <Told name="instructions" title="Instructions" rows={4} placeholder="Be helpful and brief."
        hint="The model reads them as the developer's instructions, before every question of this chat." />
      <Sampling />
      <ToolSettings />
      <Functions />
    </Dialog>
  );
}

interface ToldProps {
  name: "identity" | "instructions";
  title: string;
  rows: number;
  placeholder: string;
  hint: string;
}

/** A text that the model is told before the chat. */
function Told({ name, title, rows, placeholder, hint }: ToldProps) {
  const id = useId();
  const [text, setText] = useState(settings.value[name] ?? "");
  const typed = useRef(text);
  typed.current = text;
  const keep = (): void => {
    const said = typed.current.trim() === "" ? undefined : typed.current;
    if (said !== settings.peek()[name]) void changeSettings({ [name]: said });
  };
  // The dialog may be closed while the box has the focus.
  useEffect(() => keep, []);
  return (
    <section>
      <label for={id}><h3>{title}</h3></label>
      <textarea id={id} rows={rows} value={text} placeholder={placeholder} aria-describedby={`${id}-hint`} onBlur={keep}
        onInput={(event) => setText(event.currentTarget.value)} />
      <p id={`${id}-hint`} class="quiet">{hint}</p>
    </section>
  );
}

function Sampling() {
  return (
    <section>
      <h3>Answers</h3>
      <div class="fields">
        <label>
          Effort
          <EffortSelect />
        </label>
        <NumberBox name="temperature" label="Temperature" hint="0 to 2" />
        <NumberBox name="top_p" label="Top p" hint="0 to 1" />
        <NumberBox name="max_output_tokens" label="Token limit" hint="no limit" />
      </div>
      <p class="quiet">Defaults: temperature 1, top p 1, no token limit.</p>
    </section>
  );
}

function NumberBox({ name, label, hint }: { name: NumberField; label: string; hint: string }) {
  const id = useId();
  const [text, setText] = useState(String(settings.value[name] ?? ""));
  const read = readNumber(name, text);
  const fault = "fault" in read ? read.fault : null;
  return (
    <label for={id}>
      {label}
      <input id={id} inputMode="decimal" value={text} placeholder={hint} aria-invalid={fault !== null}
        aria-describedby={fault === null ? undefined : `${id}-fault`}
        onInput={(event) => {
          setText(event.currentTarget.value);
          const now = readNumber(name, event.currentTarget.value);
          if (!("fault" in now)) void changeSettings({ [name]: now.value ?? undefined });
        }} />
      {fault !== null && <span id={`${id}-fault`} class="fault">{fault}</span>}
    </label>
  );
}

const EXAMPLE = `[
  {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
      "type": "object",
      "properties": { "city": { "type": "string" } },
      "required": ["city"]
    }
  }
]`;

function Functions() {
  const id = useId();
  const kept = settings.value.functions;
  const [text, setText] = useState(kept === undefined || kept.length === 0 ? "" : JSON.stringify(kept, null, 2));
  const read = readFunctions(text);
  const take = (typed: string): void => {
    setText(typed);
    const now = readFunctions(typed);
    if (!("fault" in now)) void changeSettings({ functions: now.functions.length === 0 ? undefined : now.functions });
  };
  return (
    <section>
      <label for={id}><h3>Functions of your own</h3></label>
      <textarea id={id} class="code" rows={text === "" ? 3 : 10} value={text} spellcheck={false}
        aria-invalid={"fault" in read} aria-describedby={`${id}-said`} onInput={(event) => take(event.currentTarget.value)} />
      <p id={`${id}-said`} class={"fault" in read ? "fault" : "quiet"}>
        {"fault" in read ? read.fault : read.functions.length === 0
          ? "A list of functions as JSON. The model may call them; you answer the calls by hand."
          : `Functions: ${read.functions.map((each) => each.name).join(", ")}. You answer their calls by hand.`}
      </p>
      {text === "" && <button type="button" class="small" onClick={() => take(EXAMPLE)}>Insert example</button>}
    </section>
  );
}
