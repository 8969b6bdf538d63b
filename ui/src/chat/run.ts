/**
 * One answer, from the request to the turn that it became. It never fails: a failure is part of what it gives.
 *
 * Stopping asks the server to end the response, so that its last event still brings the seals and the usage; if that
 * takes long, the connection is closed and what came is all there is.
 */

import type { Turn } from "../api/chats";
import { Failure, failureOf, send } from "../api/client";
import type { ResponseRequest } from "../api/wire";
import { LiveAnswer } from "./answer";
import { streamResponse } from "./events";
import { isBadSeal, SEALS_LEFT_OUT, withoutSeals } from "./request";

export interface Ended {
  turn: Turn;
  /** Null also where it was stopped: that is not a failure. */
  failure: Failure | null;
  /** The server could not open the seals of the branch, and answered without them. */
  sealsLeftOut: boolean;
}

export interface Run {
  readonly chat: string;
  readonly live: LiveAnswer;
  readonly ended: Promise<Ended>;
  stop(): void;
}

const STOP_MS = 1_500;
const TICK_MS = 1_000;
/** The longer an answer, the more a save costs: it is saved when it has grown by a tenth, or after half a minute. */
const SAVE_MS = 4_000;
const SAVE_ALWAYS_MS = 30_000;
const GROWN = 1.1;

export function startRun(chat: string, turn: Turn, request: ResponseRequest, save: (turn: Turn) => void): Run {
  const live = new LiveAnswer(turn);
  const abort = new AbortController();
  let isStopped = false;

  const saves = { at: Date.now(), tokens: 0 };
  const ticks = setInterval(() => {
    live.tick();
    const since = Date.now() - saves.at;
    const tokens = live.tokens.value.count;
    if (since < SAVE_MS || (tokens < saves.tokens * GROWN && since < SAVE_ALWAYS_MS) || live.items.value.length === 0) return;
    Object.assign(saves, { at: Date.now(), tokens });
    save(live.turnNow());
  }, TICK_MS);

  const follow = async (asked: ResponseRequest): Promise<Failure | null> => {
    try {
      for await (const event of streamResponse(asked, abort.signal)) live.feed(event);
      return null;
    } catch (error) {
      return failureOf(error);
    }
  };

  const whole = async (): Promise<Ended> => {
    let failure = await follow(request);
    let sealsLeftOut = false;
    if (failure !== null && isBadSeal(failure) && live.state.value === "waiting") {
      sealsLeftOut = true;
      failure = await follow(withoutSeals(request));
    }
    clearInterval(ticks);
    if (isStopped && failure !== null) failure = null;
    // Nobody here ended it: the server did, because it is ended itself.
    if (!isStopped && live.isCancelled) failure ??= new Failure("gone", "The server was stopped, and the answer with it.", "server_stopping");
    const error = failure === null ? null : { kind: failure.kind, message: failure.message, code: failure.code };
    const made = live.end(failure === null ? null : "failed", error);
    if (sealsLeftOut && failure === null) made.details.warnings = [...(made.details.warnings ?? []), SEALS_LEFT_OUT];
    return { turn: made, failure, sealsLeftOut: sealsLeftOut && failure === null };
  };

  const stop = (): void => {
    // Whoever stops twice does not want to wait.
    if (isStopped || live.responseId === null) {
      isStopped = true;
      return abort.abort();
    }
    isStopped = true;
    setTimeout(() => abort.abort(), STOP_MS);
    send(`v1/responses/${encodeURIComponent(live.responseId)}/cancel`, { method: "POST" }).catch(() => abort.abort());
  };

  return { chat, live, ended: whole(), stop };
}
