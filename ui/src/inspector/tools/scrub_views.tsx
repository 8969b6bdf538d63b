/** What a replay shows at its position. Everything here is bounded, however long the trace is. */

import type { ReplayEvent, ReplayStep } from "../../api/inspect";
import { inspection, select, tab } from "../state";
import { visible } from "../spelled";
import { number } from "../trace";
import { sayEvent, type Station, stationOf } from "./playback";
import { position, total, version, windows } from "./scrub_state";

const BEFORE = 80;
const BEHIND = 24;
const MOST_EVENTS = 100;

const STATIONS: { id: Station; label: string; means: string }[] = [
  { id: "start", label: "START", means: "between messages" },
  { id: "header", label: "HEADER", means: "who speaks, to whom, on which channel" },
  { id: "body", label: "BODY", means: "the text of a message" },
];
const EDGES = ["<|start|>", "<|message|>"];

function stepHere(): ReplayStep | null {
  void version.value; // look again when a window came
  return position.value === 0 ? null : (windows.value?.step(position.value - 1) ?? null);
}

/** Before the first step: a completion begins in a header, anything else between messages. */
function station(step: ReplayStep | null): Station | null {
  if (step !== null) return stationOf(step.state);
  if (position.value > 0) return null;
  const first = inspection.value?.messages[0];
  const text = inspection.value?.text;
  return first?.role === "assistant" && text !== undefined && !text.startsWith("<|start|>") ? "header" : "start";
}

export function StateDiagram() {
  const step = stepHere();
  const now = station(step);
  const header = [
    ["Message", step?.message == null ? null : String(step.message + 1)],
    ["Channel", step?.channel ?? null],
    ["Recipient", step?.recipient ?? null],
  ] as const;
  return (
    <section aria-label="The parser">
      <h2>The parser</h2>
      <ol class="tool-states">
        {STATIONS.map(({ id, label, means }, at) => (
          <li key={id} class={id === now ? "is-now" : ""} aria-current={id === now ? "step" : undefined}>
            <span class="tool-state">
              {id === now ? "▶ " : ""}
              {label}
              {id === now ? <small> (now)</small> : null}
              <small class="tool-means">{means}</small>
            </span>
            <span class="tool-edge" aria-hidden="true">
              {EDGES[at] === undefined ? "" : <><code>{EDGES[at]}</code> →</>}
            </span>
          </li>
        ))}
      </ol>
      <p class="quiet">
        <code>{"<|end|>"}</code>, <code>{"<|call|>"}</code> and <code>{"<|return|>"}</code> lead from BODY back to START.
        {now === null && step !== null ? ` The parser calls its state “${step.state}”.` : ""}
      </p>
      <dl class="tool-facts">
        {header.map(([label, value]) => (
          <div key={label}><dt>{label}</dt><dd>{value ?? <span class="quiet">{now === "body" ? "none" : "not known"}</span>}</dd></div>
        ))}
        <div>
          <dt>Held back</dt>
          <dd>{step === null || step.pending === "" ? <span class="quiet">nothing</span> : <code>{visible(step.pending.slice(-200))}</code>}</dd>
        </div>
      </dl>
    </section>
  );
}

export function TokenWindow() {
  void version.value;
  const cache = windows.value;
  const at = position.value;
  if (cache === null) return null;
  const steps: ReplayStep[] = [];
  for (let index = Math.max(0, at - BEFORE); index < Math.min(total.value, at + BEHIND); index += 1) {
    const step = cache.step(index);
    if (step !== null) steps.push(step);
  }
  const table = inspection.value?.token_table ?? {};
  return (
    <section aria-label="What was read">
      <h2>What was read</h2>
      <div class="tool-tokens tool-read" tabIndex={0} role="group" aria-label="Tokens">
        {(steps[0]?.at ?? 0) > 0 ? <span class="tool-gap">{`… ${number(steps[0]?.at ?? 0)} before`}</span> : null}
        {steps.map((step) => {
          const info = step.id === null ? undefined : table[step.id];
          const kind = info?.special === true ? " is-special" : "";
          const where = step.at === at - 1 ? " is-here" : step.at >= at ? " is-ahead" : "";
          const shown = info?.text != null && info.text.includes("\ufffd") && info.bytes !== null ? `0x${info.bytes}` : visible(step.text);
          return (
            <span key={step.at} class={`tool-token${kind}${where}`} title={step.id === null ? undefined : `token ${step.id}`}>
              {shown === "" && step.id !== null ? `#${step.id}` : shown}
            </span>
          );
        })}
      </div>
      <p class="quiet">The framed one was read last. Those with a dotted line are still to come.</p>
    </section>
  );
}

export function EventsHere() {
  const step = stepHere();
  const closing = total.value > 0 && position.value >= total.value ? (windows.value?.closing ?? []) : [];
  const events = [...(step?.events ?? [])];
  return (
    <section aria-label="Events of this step">
      <h2>{position.value === 0 ? "Nothing was read yet" : `Step ${number(position.value)} emitted`}</h2>
      {events.length === 0 ? <p class="quiet">No event.</p> : <EventList events={events} />}
      {closing.length === 0 ? null : (
        <>
          <h3>Closing the parser emitted</h3>
          <EventList events={closing.slice(0, MOST_EVENTS)} />
        </>
      )}
    </section>
  );
}

function EventList({ events }: { events: readonly ReplayEvent[] }) {
  return (
    <ul class="tool-list">
      {events.map((event, at) => (
        <li key={at}><strong>{event.type}</strong> <code>{sayEvent(event, 400)}</code></li>
      ))}
    </ul>
  );
}

export function EventsSoFar() {
  void version.value;
  const found = position.value === 0 ? [] : (windows.value?.eventsUntil(position.value - 1, MOST_EVENTS) ?? []);
  const message = messageHere();
  return (
    <section aria-label="Events so far">
      <h2>Events so far, newest first</h2>
      <div class="tool-events" tabIndex={0} role="region" aria-label="Events so far, newest first">
        {found.length === 0 ? <p class="quiet">None.</p> : null}
        <ol class="tool-list">
          {found.map(({ at, event }, index) => (
            <li key={`${at}.${found.length - index}`}>
              <span class="quiet">{`${number(at + 1)} `}</span>
              <strong>{event.type}</strong> <code>{sayEvent(event, 80)}</code>
            </li>
          ))}
        </ol>
        {found.length === MOST_EVENTS ? <p class="quiet">Earlier ones are not shown.</p> : null}
      </div>
      {message === null ? null : (
        <button type="button" class="plain tool-link" onClick={() => show(message)}>{`Show message ${message + 1} in the list`}</button>
      )}
    </section>
  );
}

/** The message that is open, or the one that ended last. */
function messageHere(): number | null {
  for (let at = position.value - 1; at >= Math.max(0, position.value - BEFORE); at -= 1) {
    const message = windows.value?.step(at)?.message;
    if (message != null) return message;
  }
  return null;
}

function show(message: number): void {
  tab.value = "messages";
  select({ kind: "message", message });
}
