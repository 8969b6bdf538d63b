/** What the person said: the text as it was typed, and the files that came with it. Editing it makes a branch. */

import { useMemo, useState } from "preact/hooks";
import type { Turn } from "../../api/chats";
import { FileIcon } from "../../parts/icons";
import { typedIn } from "../answer";
import { bytesOf, inBytes } from "../attachments";
import { editTurn } from "../session";
import { Accordion } from "./accordion";
import { EditBox } from "./edit_box";
import { focusInTurn } from "./focus";
import { EDIT_MESSAGE, TurnRow } from "./turn_row";

export function UserTurn({ turn }: { turn: Turn }) {
  const [isEditing, setEditing] = useState(false);
  const { text, files } = useMemo(() => typedIn(turn), [turn]);
  return (
    <article class="turn from-user" id={turn.id} aria-label="You">
      <h2 class="hidden-visually">You said</h2>
      {isEditing ? (
        <EditBox label="Your message" texts={[text]} act="Resend" hint="Keeps the old version; switch with ‹ 1 of 2 ›."
          onCancel={() => {
            setEditing(false);
            focusInTurn(turn.id, EDIT_MESSAGE);
          }}
          onSave={([edited = ""]) => {
            setEditing(false);
            void editTurn(turn.id, edited);
          }} />
      ) : (
        <div class="said">
          {text !== "" && <div class="typed" dir="auto">{text}</div>}
          {files.length > 0 && (
            <ul class="files">
              {files.map((file, at) => (
                <li key={at}>
                  <Accordion class="file" summary={<FileName name={file.name} text={file.text} />}>
                    {() => <pre class="plain-text" tabIndex={0}>{file.text}</pre>}
                  </Accordion>
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
      {!isEditing && <TurnRow turn={turn} copyText={() => text} onEdit={() => setEditing(true)} />}
    </article>
  );
}

function FileName({ name, text }: { name: string; text: string }) {
  const size = useMemo(() => inBytes(bytesOf(text)), [text]);
  return (
    <>
      <FileIcon />
      <span class="file-name">{name}</span>
      <span class="quiet">{size}</span>
    </>
  );
}
