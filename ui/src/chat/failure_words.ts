/** What a failure means, in words for the person, and what to do about it. Pure. */

import type { Failure } from "../api/client";
import { sentence } from "../parts/sentence";

/** What the page can offer: ask again, ask for a key, leave something out, or nothing. */
export type FailureAction = "retry" | "key" | "shorten" | "settings" | "none";

export interface FailureWords {
  title: string;
  what: string;
  action: FailureAction;
}

/** A code of the page's own: another tab went on with the chat. */
export const CHANGED_ELSEWHERE = "changed_elsewhere";

const REQUEST = "The server rejected the request";

export function failureWords(failure: Failure): FailureWords {
  const said = sentence(failure.message);
  switch (failure.kind) {
    case "gone":
      if (failure.code === "server_stopping") {
        return {
          title: "The server was stopped",
          what: "The answer is not complete; what arrived is kept. When the server runs again, retry or continue.",
          action: "retry",
        };
      }
      return {
        title: "The server does not answer",
        what: "The connection was lost, or the server was stopped. What arrived is kept. Check that it runs, then try again.",
        action: "retry",
      };
    case "key":
      return {
        title: "The API key is missing or wrong",
        what: "This server needs a valid key. Enter it; nothing you typed is lost.",
        action: "key",
      };
    case "engine":
      if (failure.code === "engine_died") {
        return {
          title: "The engine stopped in the middle",
          what: "The model's engine stopped before the answer was complete. What arrived is kept: continue it, or try again.",
          action: "retry",
        };
      }
      return {
        title: "The model's engine does not answer",
        what: `${said} The server is running, but its engine is not. Check the engine, then try again.`,
        action: "retry",
      };
    case "context":
      return {
        title: "The conversation is too long for the model",
        what: "It no longer fits into the context. Shorten or delete messages, or start a new chat.",
        action: "shorten",
      };
    case "busy":
      return { title: "The server is busy", what: "It is handling too many requests. Wait a moment, then try again.", action: "retry" };
    case "stopped":
      return { title: "Stopped", what: "The answer was stopped. What arrived is kept.", action: "retry" };
    case "request":
      return requestWords(failure, said);
    case "server":
      return { title: "The server failed", what: `${said} You can try again.`.trim(), action: "retry" };
  }
}

function requestWords(failure: Failure, said: string): FailureWords {
  switch (failure.code) {
    case CHANGED_ELSEWHERE:
      return { title: "This chat was changed elsewhere", what: "What is new is shown above. Your message is not sent yet: read, then send it.", action: "none" };
    case "model_not_found":
      return { title: "The model is not available", what: `${said} Reload the page to see which models there are.`, action: "retry" };
    case "not_found":
      return { title: "Not found", what: "It was deleted, or belongs to another key.", action: "none" };
    case "request_too_large":
      return { title: "This is too large", what: `${said} Leave out a file, or shorten the message.`, action: "shorten" };
    case "mcp_server_unreachable":
      return { title: "A tool server does not answer", what: `${said} Switch it off in the settings, or try again.`, action: "settings" };
    case "invalid_encrypted_content":
      return {
        title: REQUEST,
        what: `${said} Approvals expire, and need the key that asked for them. Regenerate the answer.`,
        action: "none",
      };
    case "approval_used":
      return {
        title: "This call was already approved or refused",
        what: "Each approval or refusal can be used only once. Regenerate the answer that asked for it: the model may make the call again.",
        action: "none",
      };
    default:
      return {
        title: REQUEST,
        what: failure.param === null ? said : `${said} (at ${failure.param})`,
        action: "settings",
      };
  }
}
