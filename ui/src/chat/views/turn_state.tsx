/** What became of an answer that is not simply complete, in words, with what can be done. */

import type { Turn } from "../../api/chats";
import { Failure, type FailureKind, needsKey } from "../../api/client";
import { WarningIcon } from "../../parts/icons";
import { hashOf } from "../../route";
import { failureWords } from "../failure_words";
import { damageWords } from "../sampled";
import { canContinue, chat, continueAnswer, failure, regenerate, retry, running } from "../session";
import { incompleteWords } from "./words";

export function TurnState({ turn }: { turn: Turn }) {
  const { status, details } = turn;
  return (
    <>
      {details.warnings?.map((warning) => (
        <p key={warning} class="turn-state is-warning">
          <WarningIcon />
          <span>{`Warning: ${warning}`}</span>
        </p>
      ))}
      <Damage turn={turn} />
      {status === "cancelled" && <Ended turn={turn} words="Stopped. What arrived is kept." />}
      {status === "in_progress" && <Ended turn={turn} words="Not finished: the page was closed, the connection was lost, or another tab is still receiving it." />}
      {status === "incomplete" && <Ended turn={turn} words={incompleteWords(details.incomplete)} />}
      {status === "failed" && <Failed turn={turn} />}
    </>
  );
}

function Damage({ turn }: { turn: Turn }) {
  const words = damageWords(turn.details.sampled);
  if (words === null) return null;
  return (
    <p class="turn-state is-damage">
      <span>
        {words}
        {chat.value !== null && (
          <> <a href={hashOf({ view: "inspect", chat: chat.value.id, turn: turn.id })}>Inspect</a> shows where.</>
        )}
      </span>
    </p>
  );
}

function Ended({ turn, words }: { turn: Turn; words: string }) {
  return (
    <div class="turn-state">
      <span>{words}</span>
      <ContinueButton turn={turn} />
    </div>
  );
}

function ContinueButton({ turn }: { turn: Turn }) {
  if (!canContinue(turn)) return null;
  return (
    <button type="button" class="small" disabled={running.value !== null} onClick={() => void continueAnswer(turn.id)}>
      Continue
    </button>
  );
}

function Failed({ turn }: { turn: Turn }) {
  const error = turn.details.error;
  const kind = (error?.kind as FailureKind | undefined) ?? "server";
  const told = failureWords(new Failure(kind, error?.message ?? "The answer failed.", error?.code ?? null));
  const isNow = failure.value?.turn === turn.id;
  const again = (): void => void (isNow ? retry() : regenerate(turn.id));
  return (
    <div class="turn-state is-failed" role={isNow ? "alert" : undefined}>
      <WarningIcon />
      <div>
        <strong>{`Failed: ${told.title}`}</strong>
        <p>{told.what}</p>
        {error?.code && <p class="quiet">Code: <code>{error.code}</code></p>}
        <div class="choices">
          <button type="button" class="small" disabled={running.value !== null} onClick={again}>Retry</button>
          <ContinueButton turn={turn} />
          {told.action === "key" && (
            <button type="button" class="small" onClick={() => (needsKey.value = true)}>Enter a key</button>
          )}
        </div>
      </div>
    </div>
  );
}
