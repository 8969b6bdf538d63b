/** What went wrong, and what to do about it. */

import type { Failure } from "../../api/client";
import { route } from "../../route";
import { failure, inspectTurn } from "../state";
import { sentence } from "./problem_card";

export function FailureNote() {
  const found = failure.value;
  const { chat, turn } = route.value;
  if (found === null || found.kind === "stopped") return null;
  return (
    <div class="failure" role="alert">
      <p>
        <strong>{titleOf(found)}</strong> {sentence(found.message)}
        {found.param !== null && (
          <>
            {" "}
            (<code>{found.param}</code>)
          </>
        )}
      </p>
      <p class="quiet">{whatToDo(found)}</p>
      {chat !== null && turn !== null && found.status !== 404 && (
        <button type="button" onClick={() => void inspectTurn(chat, turn)}>
          Try again
        </button>
      )}
    </div>
  );
}

function titleOf(found: Failure): string {
  switch (found.kind) {
    case "gone":
      return "No answer.";
    case "key":
      return "The server needs an API key.";
    case "busy":
      return "The server is busy.";
    case "request":
      return found.status === 404 ? "Not found." : "The server cannot read this.";
    default:
      return "It failed.";
  }
}

function whatToDo(found: Failure): string {
  switch (found.kind) {
    case "gone":
      return "Check that the server runs, then inspect again. Your input is kept.";
    case "key":
      return "Enter a key, then inspect again.";
    case "busy":
      return "Wait a moment, then inspect again.";
    case "request":
      if (found.status === 404) return "The chat or the turn was deleted, or belongs to another key.";
      if (found.status === 413) return "Cut out the part that matters, or inspect one conversation at a time.";
      return "Choose its format instead of auto-detect, or correct the input.";
    default:
      return "The server's log has the details. Inspect again to retry.";
  }
}
