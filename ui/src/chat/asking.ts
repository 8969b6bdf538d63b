/** Asks the model: for an answer, for another one, to go on, and again when all that it asked for is answered. */

import { batch } from "@preact/signals";
import type { Turn } from "../api/chats";
import { serverInfo } from "../api/server";
import type { ApprovalResponseItem, Effort, FunctionOutputItem, Item } from "../api/wire";
import { allowedAlready, approvalResponse, asksIn, callOutput, toolName, waitingIn, withAnswer, type Choice } from "./decisions";
import { isListing, isOnlyAnswers } from "./items";
import { forgetLeft, keepLeft } from "./left";
import { canContinue as isContinuable, DEFAULT_EFFORT, requestFor } from "./request";
import { startRun, type Ended, type Run } from "./run";
import { branch, changeSettings, chat, dismissFailure, fail, isBusy, keep, leaf, running, saver, settings, tree, waitingFor } from "./state";
import { childrenOf, parentOf, pathTo, put } from "./tree";
import { callsOf, isMadeCall, usedApproval, withMadeCall } from "./used_approvals";
import { newTurn, nowSeconds, toContinue } from "./versions";

/** The answers under way, by their chats; each chat has one at most. */
const runs = new Map<string, Run>();
/** Turns whose seals the server did not open, so that they are not sent in vain again. */
const unsealed = new Set<string>();
/** Approvals in a row that nobody was asked about. The person is asked again when a model does not come to an end. */
const MOST_AUTOMATIC = 50;
let automatic = 0;

export const runOf = (id: string | undefined): Run | undefined => (id === undefined ? undefined : runs.get(id));

/** Ask for an answer after a turn; `into` is a turn of the model's that is empty, or that is gone on with. */
export function answer(after: string | null, { effort, into }: { effort?: Effort | undefined; into?: Turn } = {}): void {
  const id = chat.value?.id;
  if (id === undefined || runs.has(id)) return;
  dismissFailure();
  // What it was asked with is kept with it: a continuation must have the same beginning, and people want to know.
  const used = into?.details.effort ?? effort ?? settings.value.effort ?? DEFAULT_EFFORT;
  let begun = into ?? newTurn(tree.value, after, { role: "assistant", items: [], status: "in_progress", details: { effort: used } });
  if (begun.items.length === 0) {
    const { items, item_s } = callsOf(tree.value, after === null ? undefined : tree.value.turns.get(after));
    begun = { ...begun, items, details: { ...begun.details, item_s } };
  }
  const continues = begun.items.length > 0;
  keep(id, { ...begun, status: "in_progress" });
  const asked = pathTo(tree.value, continues ? begun.id : after);
  const servers = serverInfo.value?.mcp_servers ?? [];
  const request = requestFor({ branch: asked, settings: settings.value, servers, effort: used, continues, unsealed });
  const run = startRun(id, begun, request, (turn) => saver.turn(id, turn));
  runs.set(id, run);
  running.value = run.live;
  void run.ended.then((ended) => finish(run, ended, asked, request.input));
}

function finish(run: Run, { turn, failure, sealsLeftOut }: Ended, asked: readonly Turn[], input: readonly Item[]): void {
  runs.delete(run.chat);
  if (sealsLeftOut) for (const each of asked) unsealed.add(each.id);
  const opened = chat.value;
  const isDeleted = opened?.id === run.chat && !tree.value.turns.has(turn.id);
  if (!isDeleted) saver.turn(run.chat, turn);
  if (opened?.id !== run.chat) return;
  batch(() => {
    if (!isDeleted) tree.value = put(tree.value, turn);
    running.value = null;
    chat.value = { ...opened, updated_at: nowSeconds() };
  });
  const used = failure === null || isDeleted ? null : usedApproval(failure, input);
  if (used !== null && askWithMadeCall(turn, used)) return;
  if (failure !== null) fail(failure, { doing: "answering", turn: turn.id, typed: "" }, () => again(turn));
  else if (leaf.value === turn.id) allow(turn);
}

/** The server refused an approval as used: send the call that came of it, too. False where that is not possible. */
function askWithMadeCall(turn: Turn, requestId: string): boolean {
  const changed = withMadeCall(tree.value, pathTo(tree.value, turn.id), requestId);
  if (changed === null || chat.value === null) return false;
  tree.value = put(tree.value, changed);
  saver.turn(chat.value.id, changed);
  answer(parentOf(tree.value, turn.id), { into: changed.id === turn.id ? changed : turn });
  return true;
}

/** Answers in the same turn where the model said nothing, otherwise in a turn beside it, so that what came is kept. */
function again(turn: Turn): void {
  const { effort } = turn.details;
  if (!turn.items.every((item) => isMadeCall(item) || isListing(item))) return void regenerate(turn.id, effort);
  answer(parentOf(tree.value, turn.id), { into: { ...turn, items: [], details: effort === undefined ? {} : { effort } } });
}

/** End the answer; what came is kept. */
export function stop(): void {
  runOf(chat.value?.id)?.stop();
}

/** End the answer of a chat, open or not. */
export function stopAnswer(id: string): void {
  runs.get(id)?.stop();
}

/** Resolves when the open chat's answer, if there is one, has ended. */
export async function settled(): Promise<void> {
  await runOf(chat.value?.id)?.ended;
}

/** Another answer beside this one, with the chat's settings of now or another effort. Of a user turn: another answer to it. */
export async function regenerate(turnId: string, effort?: Effort): Promise<void> {
  const turn = tree.value.turns.get(turnId);
  if (turn === undefined || isBusy()) return;
  asked();
  answer(turn.role === "user" ? turn.id : parentOf(tree.value, turn.id), { effort });
}

export const canContinue = (turn: Turn): boolean => running.value?.turn !== turn.id && isContinuable(turn);

/** Go on with an answer that was cut off. The turn changes in place: new text is joined to its last item. */
export async function continueAnswer(turnId: string): Promise<void> {
  const turn = tree.value.turns.get(turnId);
  if (turn === undefined || isBusy() || !isContinuable(turn)) return;
  asked();
  answer(parentOf(tree.value, turnId), { into: toContinue(turn) });
}

/** A person asked for something: what runs by itself may run again. */
export function asked(): void {
  automatic = 0;
}

// ── calls and approvals ──

/** Decide about a call that wants approval. The model is asked when all that wait are decided. */
export async function decide(requestId: string, choice: Choice): Promise<void> {
  const items = branch.value.flatMap((turn) => turn.items);
  const request = items.find((item) => item.type === "mcp_approval_request" && item.id === requestId);
  if (request?.type !== "mcp_approval_request" || isBusy()) return;
  asked();
  const given = [approvalResponse(requestId, choice)];
  if (choice.kind === "always") {
    void changeSettings({ always: [...new Set(settings.value.always).add(toolName(request))] });
    const { asking } = asksIn(branch.value);
    for (const item of asking === null ? [] : allowedAlready(asking, waitingFor.value, settings.value)) {
      if (item.id != null && item.id !== requestId) given.push(approvalResponse(item.id, { kind: "once" }));
    }
  }
  give(requestId, given);
}

/** Answer a call of a function that the person declared. */
export async function answerCall(callId: string, output: string): Promise<void> {
  if (isBusy()) return;
  asked();
  give(callId, [callOutput(callId, output)]);
}

function give(question: string, given: readonly (ApprovalResponseItem | FunctionOutputItem)[]): void {
  const id = chat.value?.id;
  const isAsked = (item: Item): boolean =>
    (item.type === "function_call" && item.call_id === question) || (item.type === "mcp_approval_request" && item.id === question);
  const asking = branch.value.findLast((turn) => turn.role === "assistant" && turn.items.some(isAsked));
  if (id === undefined || asking === undefined) return;
  // Answers that are not complete yet are changed; those that were sent stay, and another version is begun.
  const begun = childrenOf(tree.value, asking.id).find((turn) => turn.status === "in_progress" && isOnlyAnswers(turn));
  let items: Item[] = begun?.items ?? [];
  for (const each of given) items = withAnswer(items, each);
  const turn = begun === undefined ? newTurn(tree.value, asking.id, { role: "user", items, status: "in_progress" }) : { ...begun, items };
  const waiting = waitingIn([asking, turn]);
  const isWhole = waiting.approvals.length + waiting.calls.length === 0;
  keep(id, isWhole ? { ...turn, status: "completed" } : turn);
  if (isWhole) answer(turn.id);
}

/** Answer by itself what the person wants always approved. */
function allow(turn: Turn): void {
  const allowed = allowedAlready(turn, waitingFor.value, settings.value);
  const first = allowed[0]?.id;
  if (first == null || automatic + allowed.length > MOST_AUTOMATIC) return;
  automatic += allowed.length;
  give(first, allowed.flatMap((item) => (item.id == null ? [] : approvalResponse(item.id, { kind: "once" }))));
}

// A tab in the background may be ended without a word.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") for (const run of runs.values()) saver.turn(run.chat, run.live.turnNow());
});

// The server ends an answer when its reader leaves.
addEventListener("pagehide", () => {
  const last = [...runs.values()].map((run) => ({ chat: run.chat, turn: run.live.turnNow("cancelled") }));
  keepLeft(saver.leave(...last));
});
addEventListener("pageshow", (event) => {
  if (event.persisted) forgetLeft();
});
