/** The quiet row under a turn: what can be done with it, and which of its versions is shown. */

import { useState } from "preact/hooks";
import type { Turn } from "../../api/chats";
import type { Effort } from "../../api/wire";
import { AgainIcon, BackIcon, DeleteIcon, EditIcon, ForwardIcon, InspectIcon, MoreIcon } from "../../parts/icons";
import { go, hashOf } from "../../route";
import { alternatives, chat, deleteTurn, regenerate, running, showBranch, tree } from "../session";
import { CopyButton } from "./copy_button";
import { EFFORTS } from "./effort_select";
import { focusInTurn, keepFocus } from "./focus";
import { IconButton } from "./icon_button";
import { lastSwitch } from "./stick";
import { FactsLine, TurnFacts } from "./turn_facts";

export const EDIT_ANSWER = "Edit the answer";
export const EDIT_MESSAGE = "Edit and resend";

interface Props {
  turn: Turn;
  copyText: () => string;
  onEdit: () => void;
}

type Open = "effort" | "delete" | "facts" | null;

export function TurnRow({ turn, copyText, onEdit }: Props) {
  const [open, setOpen] = useState<Open>(null);
  const isBusy = running.value !== null;
  const isAnswer = turn.role === "assistant";
  const again = (effort?: Effort): void => {
    setOpen(null);
    void regenerate(turn.id, effort);
  };
  const toggle = (part: Open): void => setOpen(open === part ? null : part);
  const keepTurn = (): void => {
    setOpen(null);
    focusInTurn(turn.id, "Delete");
  };
  return (
    <footer class="turn-row">
      <div class="turn-acts">
        <Walker turn={turn} />
        <CopyButton text={copyText} label={isAnswer ? "Copy the answer" : "Copy the message"} />
        <IconButton label={isAnswer ? EDIT_ANSWER : EDIT_MESSAGE} disabled={isBusy} onClick={onEdit}>
          <EditIcon />
        </IconButton>
        {isAnswer && (
          <>
            <IconButton label="Regenerate" disabled={isBusy} onClick={() => again()}>
              <AgainIcon />
            </IconButton>
            <IconButton class="narrow-icon" label="Regenerate with another effort" disabled={isBusy}
              isExpanded={open === "effort"} onClick={() => toggle("effort")}>
              <MoreIcon />
            </IconButton>
          </>
        )}
        {chat.value !== null && (
          <a class="icon-button" aria-label="Inspect" title="Inspect"
            href={hashOf({ view: "inspect", chat: chat.value.id, turn: turn.id })}>
            <InspectIcon />
          </a>
        )}
        <IconButton label="Delete" disabled={isBusy} isExpanded={open === "delete"} onClick={() => toggle("delete")}>
          <DeleteIcon />
        </IconButton>
        {isAnswer && <FactsLine turn={turn} isOpen={open === "facts"} onToggle={() => toggle("facts")} />}
      </div>
      {open === "facts" && <TurnFacts turn={turn} />}
      {open === "effort" && (
        <div class="turn-ask" role="group" aria-label="Regenerate with effort">
          <span>Regenerate with effort</span>
          {EFFORTS.map((effort) => (
            <button key={effort} type="button" class="small" onClick={() => again(effort)}>{effort}</button>
          ))}
        </div>
      )}
      {open === "delete" && (
        <div class="turn-ask" role="group" aria-label="Delete">
          <span>{isLast(turn) ? "Delete this?" : "Delete this and everything after it?"}</span>
          <button type="button" class="small danger" onClick={() => void deleteTurn(turn.id).then(keepFocus)}>Delete</button>
          <button type="button" class="small" onClick={keepTurn}>Keep</button>
        </div>
      )}
    </footer>
  );
}

const isLast = (turn: Turn): boolean => (tree.value.children.get(turn.id)?.length ?? 0) === 0;

/** `‹ 2 of 3 ›`, where a turn has other versions. */
export function Walker({ turn }: { turn: Turn }) {
  const { at, of, before, after } = alternatives(turn.id);
  if (of < 2) return null;
  const walk = (to: string | null) => (): void => {
    if (to === null) return;
    lastSwitch.to = to;
    showBranch(to);
    const id = chat.value?.id;
    if (id !== undefined) go({ view: "chat", chat: id, turn: to }, true);
  };
  return (
    <span class="walker" role="group" aria-label="Versions">
      <IconButton label="Previous version" disabled={before === null || running.value !== null} onClick={walk(before)}>
        <BackIcon />
      </IconButton>
      <span>{`${at} of ${of}`}</span>
      <IconButton label="Next version" disabled={after === null || running.value !== null} onClick={walk(after)}>
        <ForwardIcon />
      </IconButton>
    </span>
  );
}
