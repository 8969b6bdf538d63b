/** Why is this prompt not the other one? Two inputs, and what of the first is still there in the second. */

import "../../style/inspector_tools.css";
import { signal } from "@preact/signals";
import { diffPrompts, inspect, type Inspection, type InspectInput, type PromptDiff } from "../../api/inspect";
import { Failure } from "../../api/client";
import { input, inspection, origin } from "../state";
import { DiffInput } from "./diff_input";
import { DiffResult } from "./diff_result";
import { answerBefore, EMPTY, isGiven, NothingToCompare, type Side, sideInput } from "./diff_side";
import { Failed } from "./failed";
import { useTask } from "./task";

// They outlive the tab: who looks at another one finds them again.
const before = signal<Side>(EMPTY);
const after = signal<Side>(EMPTY);
const result = signal<PromptDiff | null>(null);

export function DiffTab() {
  const task = useTask<PromptDiff>();
  const from = origin.value;
  const isReady = isGiven(before.value) && isGiven(after.value);
  const compare = (): void => {
    if (isReady) task.run(compareSides);
  };
  const compareWithPrevious = (): void => {
    if (from.kind !== "turn") return;
    task.run(async (stop) => {
      const turn = await answerBefore(from.chat, from.turn);
      if (turn === null) throw new Failure("request", "This is the first answer of its chat; there is no prompt before it.");
      before.value = { from: "turn", chat: from.chat, turn, whole: true };
      after.value = { from: "current", whole: false };
      return compareSides(stop);
    });
  };
  return (
    <section class="tool" aria-label="Compare two prompts">
      <form onSubmit={(event) => (event.preventDefault(), compare())}>
        <div class="tool-halves">
          <DiffInput id="diff-before" legend="Before" side={before.value} set={(side) => (before.value = side)} />
          <DiffInput id="diff-after" legend="After" side={after.value} set={(side) => (after.value = side)} />
        </div>
        <div class="tool-bar">
          <button type="submit" class="main" disabled={!isReady || task.isBusy}>Compare</button>
          <button type="button" disabled={!isReady} onClick={() => ([before.value, after.value] = [after.value, before.value])}>
            Swap the sides
          </button>
          {from.kind === "turn" ? (
            <button type="button" onClick={compareWithPrevious}>Compare this turn with the one before</button>
          ) : null}
          {task.isBusy ? <button type="button" onClick={task.stop}>Stop</button> : null}
          <span role="status" class="quiet">{task.isBusy ? "Comparing …" : ""}</span>
        </div>
      </form>
      <Failed failure={task.failure} />
      {result.value === null ? (
        <p class="quiet">
          A model can reuse its work only for tokens that are the same from the beginning. Compare two prompts to see where they
          part, and why.
        </p>
      ) : (
        <DiffResult key={keyOf(result.value)} diff={result.value} />
      )}
    </section>
  );
}

async function compareSides(stop: AbortSignal): Promise<PromptDiff> {
  const open = { inspection: inspection.value, origin: origin.value, input: input.value };
  const loadTurn = async (chat: string, turn: string): Promise<Inspection> =>
    (await (await import("../turn")).traceOf(chat, turn, stop)).trace;
  try {
    const sides = [await sideInput(before.value, open, loadTurn), await sideInput(after.value, open, loadTurn)] as const;
    return (result.value = await withIds(await diffPrompts(...sides, stop), sides, stop));
  } catch (error) {
    throw error instanceof NothingToCompare ? new Failure("request", error.message) : error;
  }
}

let keys = 0;
const keyed = new WeakMap<PromptDiff, number>();
/** A new result is a new view: what was unfolded in the old one means nothing in it. */
function keyOf(diff: PromptDiff): number {
  const key = keyed.get(diff) ?? (keys += 1);
  keyed.set(diff, key);
  return key;
}

/** The comparison with the ids of both sides, which the marks inside messages need. */
async function withIds(diff: PromptDiff, sides: readonly [InspectInput, InspectInput], stop: AbortSignal): Promise<PromptDiff> {
  const full = async (found: Inspection, given: InspectInput): Promise<Inspection> =>
    found.token_table !== undefined && found.messages.every((message) => message.ids !== undefined)
      ? found
      : inspect(given, ["ids", "token_table"], stop);
  const [before, after] = await Promise.all([full(diff.before, sides[0]), full(diff.after, sides[1])]);
  return { ...diff, before, after };
}
