/** Spellings of control tokens in typed text, and what they were encoded as. And a place to try a text. */

import "../../style/inspector_tools.css";
import { useMemo, useState } from "preact/hooks";
import type { Spelling } from "../../api/inspect";
import { visible } from "../spelled";
import { inspection, select, tab } from "../state";
import { counted } from "../trace";
import { Characters } from "./characters";
import { InjectionTrial } from "./injection_trial";
import { contextOf } from "./spelled_context";

const PAGE = 100;

export function InjectionTab() {
  return (
    <section class="tool" aria-label="Injection lens">
      <p>
        Text that a person, a tool or a web page wrote may spell a control token, such as <code>{"<|end|>"}</code>. Encoded as
        text it is harmless; encoded as a control token it ends messages and begins others, in anybody's name.
      </p>
      <Found />
      <InjectionTrial />
    </section>
  );
}

/** What a spelling became: a word, and a shape that goes with it. */
export function Became({ became }: { became: Spelling["became"] }) {
  return became === "text" ? (
    <span class="tool-became is-text">○ text, harmless</span>
  ) : (
    <span class="tool-became is-special">◆ control token</span>
  );
}

function Found() {
  const [shown, setShown] = useState(PAGE);
  const found = inspection.value;
  const text = found?.text;
  const characters = useMemo(() => (text === undefined ? null : new Characters(text)), [text]);
  if (found === null) return null;
  const spellings = found.spellings;
  if (spellings === undefined) return <p class="quiet">The server did not look for spellings in this trace.</p>;
  const specials = spellings.filter(({ became }) => became === "special").length;
  if (spellings.length === 0) {
    return found.spellings_note ? (
      <p class="tool-note">{`${found.spellings_note} Give token ids or a conversation to see.`}</p>
    ) : (
      <p>Nothing that was typed in this trace spells a control token.</p>
    );
  }
  return (
    <>
      <h2>In this trace</h2>
      <p role="status">
        {`${counted(spellings.length, "spelling")} in typed text: ${spellings.length - specials} stayed text, ` +
          `${specials} became ${specials === 1 ? "a control token" : "control tokens"}.`}
      </p>
      {found.spellings_note ? <p class="tool-note">{found.spellings_note}</p> : null}
      <div class="tool-scroll" tabIndex={0} role="region" aria-label="Spellings">
        <table class="tool-table">
          <thead>
            <tr>
              <th scope="col">Spelling</th>
              <th scope="col">Where</th>
              <th scope="col">Became</th>
              <th scope="col">Ids</th>
              <th scope="col">In context</th>
            </tr>
          </thead>
          <tbody>
            {spellings.slice(0, shown).map((spelling, at) => {
              const context = contextOf(characters, spelling);
              return (
                <tr key={at}>
                  <td><code>{spelling.text}</code></td>
                  <td>
                    <button type="button" class="plain tool-link" onClick={() => goTo(spelling.message)}>{`Message ${spelling.message + 1}`}</button>
                    <div class="quiet">{`${spelling.role}, ${spelling.where}`}</div>
                  </td>
                  <td><Became became={spelling.became} /></td>
                  <td><code>{spelling.ids.join(" ")}</code></td>
                  <td class="tool-context">
                    {context === null ? null : (
                      <code>{visible(context.before)}<mark>{context.text}</mark>{visible(context.after)}</code>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {spellings.length > shown ? (
        <button type="button" onClick={() => setShown(shown + PAGE)}>{`Show more (${spellings.length - shown} left)`}</button>
      ) : null}
    </>
  );
}

function goTo(message: number): void {
  tab.value = "messages";
  select({ kind: "message", message });
}
