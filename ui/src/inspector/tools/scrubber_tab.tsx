/** A stream token by token: what was read, where the parser is, and what it says. */

import "../../style/inspector_tools.css";
import { useEffect, useState } from "preact/hooks";
import { inspection } from "../state";
import { number } from "../trace";
import { Failed } from "./failed";
import { advance, SPEEDS } from "./playback";
import { byTokens, failure, fetchAround, isLoading, isPlaying, isText, jump, jumpToEvent, marks } from "./scrub_state";
import { moveTo, position, said, total, windows } from "./scrub_state";
import { EventsHere, EventsSoFar, StateDiagram, TokenWindow } from "./scrub_views";

const FRAME_MS = 40;
// Who wants less motion sees two changes a second, each a larger step.
const CALM_FRAME_MS = 500;

export function ScrubberTab() {
  const [speed, setSpeed] = useState<number>(10);
  const cache = windows.value;
  useEffect(() => void fetchAround(), [cache]);
  useEffect(() => (isPlaying.value ? play(speed) : undefined), [isPlaying.value, speed, cache]);
  useEffect(() => () => void (isPlaying.value = false), []);
  if (inspection.value === null || cache === null) {
    return <p class="quiet">The server did not send the tokens of this trace, so it cannot be replayed.</p>;
  }
  const unit = cache.unit === "tokens" ? "token" : "character";
  const at = position.value;
  const isEnd = total.value > 0 && at >= total.value;
  return (
    <section class="tool" aria-label="Replay" onKeyDown={onKey}>
      <div class="tool-bar">
        <button type="button" class="main" onClick={() => {
          if (!isPlaying.value && isEnd) moveTo(0);
          isPlaying.value = !isPlaying.value;
        }}>
          {isPlaying.value ? "Pause" : isEnd ? "Play again" : "Play"}
        </button>
        <button type="button" aria-disabled={at === 0} onClick={() => step(-1)}>{`Back one ${unit}`}</button>
        <button type="button" aria-disabled={isEnd} onClick={() => step(1)}>{`Forward one ${unit}`}</button>
        <label>
          Speed{" "}
          <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
            {SPEEDS.map((each) => <option key={each} value={each}>{`${number(each)} a second`}</option>)}
          </select>
        </label>
        {isText.value ? (
          <label>
            Read it by{" "}
            <select value={byTokens.value ? "tokens" : "characters"} onChange={(event) => (byTokens.value = event.currentTarget.value === "tokens")}>
              <option value="tokens">tokens</option>
              <option value="characters">characters</option>
            </select>
          </label>
        ) : null}
      </div>
      <label class="tool-field">
        <span>{`Read ${number(at)} of ${number(total.value)} ${unit}s`}</span>
        <input class="tool-slider" type="range" min={0} max={Math.max(1, total.value)} step={1} value={at}
          aria-valuetext={`${number(at)} of ${number(total.value)} ${unit}s`}
          onInput={(event) => {
            isPlaying.value = false;
            moveTo(event.currentTarget.valueAsNumber);
          }} />
      </label>
      <div class="tool-bar" role="group" aria-label="Jump">
        {(["message", "problem"] as const).map((kind) => {
          const none = (kind === "message" ? marks.value.messages : marks.value.problems).length === 0;
          return (
            <span class="tool-pair" key={kind}>
              <button type="button" disabled={none} onClick={() => jump(kind, -1)}>{`Previous ${kind}`}</button>
              <button type="button" disabled={none} onClick={() => jump(kind, 1)}>{`Next ${kind}`}</button>
            </span>
          );
        })}
        <span class="tool-pair">
          <button type="button" onClick={() => void jumpToEvent(-1)}>Previous event</button>
          <button type="button" onClick={() => void jumpToEvent(1)}>Next event</button>
        </span>
        <span role="status" class="quiet">{isLoading.value ? "Loading steps …" : said.value}</span>
      </div>
      <Failed failure={failure.value} retry={() => void fetchAround()} />
      <StateDiagram />
      <div class="tool-halves">
        <TokenWindow />
        <div>
          <EventsHere />
          <EventsSoFar />
        </div>
      </div>
    </section>
  );
}

function step(by: 1 | -1): void {
  isPlaying.value = false;
  moveTo(position.value + by);
}

function onKey(event: KeyboardEvent): void {
  const isInField = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
  if (isInField || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "ArrowRight") step(1);
  else if (event.key === "ArrowLeft") step(-1);
  else return;
  event.preventDefault();
}

/** Run until it is stopped; waits where steps are not here yet. */
function play(speed: number): () => void {
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let last = performance.now();
  let rest_s = 0;
  let isWaiting = false;
  const timer = setInterval(() => {
    const now = performance.now();
    const passed_s = (now - last) / 1000;
    last = now;
    if (isWaiting) return;
    const next = advance(rest_s, passed_s, speed);
    rest_s = next.rest_s;
    if (next.steps === 0) return;
    if (total.value > 0 && position.value >= total.value) return void (isPlaying.value = false);
    isWaiting = true;
    position.value = Math.min(total.value, position.value + next.steps);
    const isHere = windows.value?.step(Math.max(0, position.value - 1)) != null;
    // What is here is shown at once; what is fetched ahead must not hold it up.
    const coming = fetchAround();
    if (isHere) isWaiting = false;
    void coming.then(() => (isWaiting = false));
  }, isCalm ? CALM_FRAME_MS : FRAME_MS);
  return () => clearInterval(timer);
}
