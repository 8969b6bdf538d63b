/** All problems in a list, each a way to its place. */

import { inspection, select, selected, tab } from "../state";
import { number } from "../trace";
import { placeWords } from "./problem_card";

/** More are walked with the buttons; the filter of problems shows them by their code. */
const MOST = 200;

export function ProblemList() {
  const found = inspection.value;
  if (found === null || found.diagnostics.length === 0) return null;
  const now = selected.value;
  const more = found.diagnostics_total - Math.min(MOST, found.diagnostics.length);
  return (
    <>
      <ol class="problem-list">
        {found.diagnostics.slice(0, MOST).map((diagnostic, at) => (
          <li key={at}>
            <button
              class="plain"
              aria-current={now?.kind === "diagnostic" && now.diagnostic === at ? "true" : undefined}
              onClick={() => {
                tab.value = "messages";
                select({ kind: "diagnostic", diagnostic: at });
              }}
            >
              <code>{diagnostic.code}</code>
              <span>{diagnostic.message}</span>
              <span class="quiet">{placeWords(diagnostic)}</span>
            </button>
          </li>
        ))}
      </ol>
      {more > 0 && <p class="quiet">{`${number(more)} more.`}</p>}
    </>
  );
}
