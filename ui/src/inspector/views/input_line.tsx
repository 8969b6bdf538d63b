/** The input, folded to a line: what it was taken for, what was lost, and the way back to the form. */

import { useEffect, useRef } from "preact/hooks";
import { InspectIcon } from "../../parts/icons";
import { hashOf } from "../../route";
import { input, inspectInput, inspection, isInputOpen, origin, turnTrace } from "../state";
import { counted, tokensOf } from "../trace";

export function InputLine() {
  const section = useRef<HTMLElement>(null);
  // The form that had the focus is gone: a reader with the keyboard goes on from here.
  useEffect(() => {
    if (document.activeElement === null || document.activeElement === document.body) section.current?.focus({ preventScroll: true });
  }, []);
  const found = inspection.value;
  if (found === null) return null;
  const from = origin.value;
  const losses = found.conversion_losses ?? [];
  const left = turnTrace.value?.left_out ?? null;
  const faults = turnTrace.value?.faults ?? [];
  return (
    <section class="input-line" aria-label="Input" ref={section} tabIndex={-1}>
      <p>
        <InspectIcon />
        {from.kind === "turn" ? (
          <span>
            A turn of <a href={hashOf({ view: "chat", chat: from.chat, turn: from.turn })}>{from.title === "" ? "a chat" : from.title}</a>
          </span>
        ) : (
          <span>
            Read as <strong>{found.taken_for}</strong>
          </span>
        )}
        <span class="quiet">{`${tokensOf(found)}, ${counted(found.messages.length, "message")}, ${counted(found.diagnostics_total, "problem")}`}</span>
        <button id="change-input" onClick={() => (isInputOpen.value = true)}>
          {from.kind === "turn" ? "Inspect something else" : "Change"}
        </button>
      </p>
      {found.documents !== undefined && found.documents.count > 1 && <Documents documents={found.documents} />}
      {found.notes.map((note) => (
        <p class="input-note" key={note}>{`Note: ${note}`}</p>
      ))}
      {faults.length > 0 && <p class="input-note">{`Faults of the model's output: ${[...new Set(faults)].join(", ")}.`}</p>}
      {left !== null && (
        <p class="input-note">{`Left out: ${counted(left.messages, "message")} of reasoning with ${counted(left.tokens, "token")}, because this server does not show reasoning.`}</p>
      )}
      {losses.length > 0 && (
        <details>
          <summary>{`${counted(losses.length, "thing")} could not be converted`}</summary>
          <ul>
            {losses.map((loss) => (
              <li key={loss}>{loss}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Documents({ documents }: { documents: { count: number; at: number; titles: string[] } }) {
  const open = (at: number): void => void inspectInput({ ...input.value, document: at });
  return (
    <p class="documents">
      <label>
        Conversation{" "}
        <select value={documents.at} onChange={(event) => open(Number(event.currentTarget.value))}>
          {Array.from({ length: documents.count }, (_, at) => (
            <option key={at} value={at}>
              {`${at + 1} of ${documents.count}${documents.titles[at] ? `: ${documents.titles[at]}` : ""}`}
            </option>
          ))}
        </select>
      </label>
      <button disabled={documents.at === 0} onClick={() => open(documents.at - 1)}>
        Previous
      </button>
      <button disabled={documents.at + 1 >= documents.count} onClick={() => open(documents.at + 1)}>
        Next
      </button>
    </p>
  );
}
