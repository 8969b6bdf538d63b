/** What an edit did to the tokens, and which problems are new. */

import { counted, lastNotAbove, messagesStarting } from "../trace";
import { compareProblems, sayOutcome } from "./draft";
import { base, outcome } from "./edit_state";
import { excerpt } from "./token_diff";
import { ChangedTokens } from "./token_chip";

const MOST_PROBLEMS = 20;

export function EditOutcome({ isBusy }: { isBusy: boolean }) {
  const found = outcome.value;
  const from = base.value;
  if (from === null) return null;
  if (found === null) return <p class="quiet">{isBusy ? "Counting tokens …" : "Nothing was counted yet."}</p>;
  const table = { ...from.inspection.token_table, ...found.inspection.token_table };
  const { fresh, gone } = compareProblems(from.inspection.diagnostics, found.inspection.diagnostics);
  const where =
    found.first === null || found.inspection.messages.length === 0 ? null : lastNotAbove(messagesStarting(found.inspection), found.first);
  return (
    <section aria-label="What changed" aria-busy={isBusy}>
      <h2>What changed {isBusy ? <span class="quiet">(counting …)</span> : null}</h2>
      <p role="status">{sayOutcome(found) + (where === null ? "" : ` It is in message ${where + 1}.`)}</p>
      {found.first === null ? null : (
        <>
          <ChangedTokens pieces={excerpt(found.runs, found.before, found.after, 8, 400)} table={table} />
          <p class="quiet">
            <del class="tool-token is-removed">− removed</del> <ins class="tool-token is-added">+ added</ins>
          </p>
        </>
      )}
      <h2>Problems</h2>
      {fresh.length === 0 ? <p class="quiet">No new problems.</p> : <p>{counted(fresh.length, "new problem")}:</p>}
      <ul class="tool-list">
        {fresh.slice(0, MOST_PROBLEMS).map((problem, at) => (
          <li key={at}>
            <code>{problem.code}</code> {problem.message}
            {problem.at.message == null ? "" : ` (message ${problem.at.message + 1})`}
            {problem.repair === "" ? null : <div class="quiet">{`Repair: ${problem.repair}`}</div>}
          </li>
        ))}
      </ul>
      {fresh.length > MOST_PROBLEMS ? <p class="quiet">{`and ${fresh.length - MOST_PROBLEMS} more`}</p> : null}
      {gone > 0 ? <p class="quiet">{`${counted(gone, "problem")} of the original ${gone === 1 ? "is" : "are"} gone.`}</p> : null}
    </section>
  );
}
