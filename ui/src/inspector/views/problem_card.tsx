/** A problem: what was found, what it means, what was done about it, and what the strict parser says. */

import type { Diagnostic } from "../../api/inspect";
import { WarningIcon } from "../../parts/icons";
import { inspection, select, selected } from "../state";

const STRICT: Record<string, string> = {
  raises: "It stops here, with this code.",
  reports: "It also reports this, and continues.",
};

export function ProblemCard({ at }: { at: number }) {
  const found = inspection.value;
  const diagnostic = found?.diagnostics[at];
  if (found === null || diagnostic === undefined) return null;
  const now = selected.value;
  const isCurrent = now?.kind === "diagnostic" && now.diagnostic === at;
  return (
    <div class={isCurrent ? "trace-fault current" : "trace-fault"} id={`problem-${at}`} tabIndex={-1} role="group" aria-label={`Problem ${at + 1}: ${diagnostic.code}`}>
      <p class="problem-title">
        <WarningIcon />
        <button class="plain problem-number" onClick={() => select({ kind: "diagnostic", diagnostic: at })}>
          {`Problem ${at + 1} of ${found.diagnostics.length}`}
        </button>
        <code>{diagnostic.code}</code>
        <span class="quiet">{placeWords(diagnostic)}</span>
      </p>
      <p>{sentence(diagnostic.message)}</p>
      {diagnostic.excerpt !== null && (
        <pre class="excerpt" tabIndex={0} aria-label="Where it is" ref={showMarker}>
          {diagnostic.excerpt["line"]}
          {"\n"}
          <b>{diagnostic.excerpt["marker"]}</b>
        </pre>
      )}
      <dl class="problem-facts">
        {diagnostic.explanation !== "" && (
          <>
            <dt>What it means</dt>
            <dd>{ticked(diagnostic.explanation)}</dd>
          </>
        )}
        <dt>Repair made</dt>
        <dd>{ticked(sentence(diagnostic.repair === "" ? "none" : diagnostic.repair))}</dd>
        <dt>Strict parser</dt>
        <dd>{STRICT[diagnostic.strict] ?? ticked(sentence(diagnostic.strict))}</dd>
        {diagnostic.hint !== null && (
          <>
            <dt>What to do</dt>
            <dd>{ticked(sentence(diagnostic.hint))}</dd>
          </>
        )}
      </dl>
    </div>
  );
}

/** The marker is what one looks for: where the line is too long for the screen, it is scrolled there. */
function showMarker(excerpt: HTMLElement | null): void {
  const marker = excerpt?.querySelector("b");
  if (excerpt === null || marker == null || excerpt.scrollWidth <= excerpt.clientWidth) return;
  excerpt.scrollLeft = marker.offsetWidth - excerpt.clientWidth * 0.7;
}

export function placeWords({ at }: Diagnostic): string {
  const words: string[] = [];
  if (at.token != null) words.push(`token ${at.token}`);
  if (at.character != null) words.push(`character ${at.character}`);
  if (at.path != null) words.push(at.path);
  return words.length === 0 ? "" : `at ${words.join(", ")}`;
}

/** The server's words begin in lower case; here they stand alone. */
export function sentence(text: string): string {
  return text === "" ? "" : text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** What stands between backticks is code. */
function ticked(text: string) {
  return text.split("`").map((piece, at) => (at % 2 === 1 ? <code key={at}>{piece}</code> : piece));
}
