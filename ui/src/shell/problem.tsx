/** What went wrong in a dialog of the shell, and what to do about it. */

import type { Failure } from "../api/client";
import { failureWords } from "../chat/failure_words";

export function Problem({ failure }: { failure: Failure | null }) {
  if (failure === null || failure.kind === "stopped") return null;
  const { title, what } = failureWords(failure);
  return (
    <div class="problem" role="alert">
      <strong>{title}</strong>
      <p>{what}</p>
    </div>
  );
}
