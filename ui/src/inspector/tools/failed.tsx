/** What went wrong with a request of a tool, and what to do. */

import type { Failure, FailureKind } from "../../api/client";

const WHAT_TO_DO: Record<FailureKind, string> = {
  gone: "Is it running? Try again when it is.",
  key: "Enter the right API key.",
  engine: "Try again when the engine is back.",
  context: "Make it shorter.",
  busy: "Wait a moment, then try again.",
  request: "Change the input, then try again.",
  stopped: "",
  server: "Try again; the server's log has the details.",
};

export function Failed({ failure, retry }: { failure: Failure | null; retry?: () => void }) {
  if (failure === null || failure.kind === "stopped") return null;
  return (
    <div class="tool-failed" role="alert">
      <strong>That did not work.</strong> {failure.message} {WHAT_TO_DO[failure.kind]}
      {failure.code === null ? null : (
        <>
          {" "}
          <code>{failure.code}</code>
        </>
      )}
      {retry === undefined ? null : <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}
