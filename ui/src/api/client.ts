/**
 * Requests to the server that this page came from, and what went wrong with them in words.
 *
 * 1. Addresses are relative to the page, so that a proxy may serve it under a path.
 * 2. Every failure is a `Failure`: what happened, what to do about it, and the server's own words and code.
 */

import { signal } from "@preact/signals";
import { sentence } from "../parts/sentence";

/** Whose fault it was, as far as the page can tell. */
export type FailureKind =
  | "gone" // the server does not answer
  | "key" // it wants an API key, or another one
  | "engine" // the model's server does not answer, or failed
  | "context" // the conversation does not fit into the model's context
  | "busy"
  | "request" // what was asked is wrong
  | "stopped" // the user stopped it
  | "server"; // a bug of the server's

export class Failure extends Error {
  constructor(
    readonly kind: FailureKind,
    /** What happened, in the server's words where it said something. */
    message: string,
    readonly code: string | null = null,
    /** Where in the request, as the server names it: `input[3].encrypted_content`. */
    readonly param: string | null = null,
    readonly status: number | null = null,
  ) {
    super(message);
    this.name = "Failure";
  }
}

const KEY_NAME = "harmonia.key";

/** The API key, where the server wants one. It is kept for this tab unless the user wants it remembered. */
export const apiKey = signal<string | null>(readKey());
/** Whether the server refused the last request for want of a (right) key; the shell asks for one then. */
export const needsKey = signal(false);

export function setKey(key: string | null, remember = false): void {
  try {
    for (const kept of [sessionStorage, localStorage]) kept.removeItem(KEY_NAME);
    if (key !== null) (remember ? localStorage : sessionStorage).setItem(KEY_NAME, key);
  } catch {
    // Storage is switched off: it holds until the page is left.
  }
  apiKey.value = key;
  needsKey.value = false;
}

function readKey(): string | null {
  try {
    return sessionStorage.getItem(KEY_NAME) ?? localStorage.getItem(KEY_NAME);
  } catch {
    return null; // storage is switched off
  }
}

export interface Ask {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
  /** Let the request outlive the page, for what is saved while it closes. */
  keepalive?: boolean;
}

/** The address of a path of the API, such as `v1/models`. */
export function addressOf(path: string): string {
  const base = new URL(document.baseURI);
  base.hash = base.search = "";
  return new URL(path, base).href;
}

/** The answer to a request, whatever it is; every failure is a `Failure`. */
export async function send(path: string, ask: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  if (ask.body !== undefined) headers["content-type"] = "application/json";
  if (apiKey.value !== null) headers["authorization"] = `Bearer ${apiKey.value}`;
  let response: Response;
  try {
    response = await fetch(addressOf(path), {
      method: ask.method ?? (ask.body === undefined ? "GET" : "POST"),
      headers,
      credentials: "omit",
      ...(ask.body === undefined ? {} : { body: JSON.stringify(ask.body) }),
      ...(ask.signal === undefined ? {} : { signal: ask.signal }),
      ...(ask.keepalive === undefined ? {} : { keepalive: ask.keepalive }),
    });
  } catch (error) {
    throw failureOf(error);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The JSON of an answer. */
export async function ask<T>(path: string, asked: Ask = {}): Promise<T> {
  const response = await send(path, asked);
  try {
    return (await response.json()) as T;
  } catch (error) {
    throw failureOf(error);
  }
}

/** A failure of the network, or of reading, as a `Failure`. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof DOMException && error.name === "AbortError") return new Failure("stopped", "It was stopped.");
  return new Failure("gone", "The server does not answer.");
}

/** The failure that an error object of the API tells of, as it stands in answers and in events. */
export function failureFrom(error: ErrorBody | null | undefined, status: number | null = null): Failure {
  const code = error?.code ?? null;
  const message = sentence(error?.message ?? (status === null ? "Something went wrong." : `The server answered ${status}.`));
  return new Failure(kindOf(code, status), message, code, error?.param ?? null, status);
}

export interface ErrorBody {
  message?: string | null;
  type?: string | null;
  code?: string | null;
  param?: string | null;
}

async function refusal(response: Response): Promise<Failure> {
  let body: { error?: ErrorBody } = {};
  try {
    body = (await response.json()) as { error?: ErrorBody };
  } catch {
    // It was no answer of ours: a proxy's, perhaps.
  }
  const failure = failureFrom(body.error, response.status);
  if (failure.kind === "key") needsKey.value = true;
  return failure;
}

function kindOf(code: string | null, status: number | null): FailureKind {
  if (status === 401 || code === "invalid_api_key") return "key";
  if (code === "context_length_exceeded") return "context";
  if (status === 429 || code === "rate_limit_exceeded") return "busy";
  if (code === "server_stopping") return "gone";
  if (code === "store_unavailable") return "server";
  // Behind the start of a stream there is only the code.
  if (code !== null && /^engine[._]/.test(code)) return "engine";
  if (status === 502 || status === 503 || status === 504) return "engine";
  if (status !== null && status >= 400 && status < 500) return "request";
  return "server";
}
