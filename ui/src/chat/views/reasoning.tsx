/** Reasoning: an accordion where the server shows it, and a line that says so where it does not. */

import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { serverInfo } from "../../api/server";
import { ThoughtIcon, ToolIcon } from "../../parts/icons";
import type { LiveItem } from "../answer";
import { errorText } from "../items";
import { Accordion } from "./accordion";
import { heldBackWords, thoughtWords } from "./words";

export function Reasoning({ item }: { item: LiveItem }) {
  // Only whether there is text matters here, so that a closed accordion does nothing when more comes.
  const isShown = useMemo(() => computed(() => item.text.value !== ""), [item]).value;
  const isRunning = item.state.value === "running";
  if (unmadeCall(item) !== null) return <UnmadeCall item={item} />;
  if (!isShown) {
    return (
      <p class="aside-line of-analysis">
        <ThoughtIcon />
        <span>
          <ThoughtLine item={item} />
          {!isRunning && serverInfo.value?.analysis !== "shown" && "; this server does not show reasoning"}
        </span>
      </p>
    );
  }
  return (
    <Accordion class="accordion of-analysis" summary={<Summary item={item} />}>
      {() => <ReasoningText item={item} />}
    </Accordion>
  );
}

function Summary({ item }: { item: LiveItem }) {
  return (
    <>
      <ThoughtIcon />
      <span class="accordion-title">
        <ThoughtLine item={item} />
      </span>
    </>
  );
}

/** The call that an item stands for which could not be made; null where it is reasoning. */
function unmadeCall(item: LiveItem): { name: string; arguments: string; error: string } | null {
  const raw = item.raw();
  return raw.type === "reasoning" ? (raw.harmonia_call ?? null) : null;
}

function UnmadeCall({ item }: { item: LiveItem }) {
  const call = unmadeCall(item);
  if (call === null) return null;
  const summary = (
    <>
      <ToolIcon />
      <span class="accordion-title">
        A call that was not made: <code>{call.name}</code>
      </span>
      <span class="accordion-state is-bad">not made</span>
    </>
  );
  return (
    <Accordion class="accordion of-tool" summary={summary}>
      {() => (
        <>
          <section class="call-part">
            <h3>Arguments, as the model wrote them</h3>
            <pre class="plain-text" tabIndex={0}>{call.arguments}</pre>
          </section>
          <section class="call-part">
            <h3>Why, in the words that the model got</h3>
            <p>{errorText(call.error)}</p>
          </section>
        </>
      )}
    </Accordion>
  );
}

function ThoughtLine({ item }: { item: LiveItem }) {
  const isRunning = item.state.value === "running";
  const raw = item.raw();
  if (raw.type === "reasoning" && raw.harmonia_channel !== undefined) return <span>{heldBackWords(raw.harmonia_channel)}</span>;
  const seconds = item.seconds.value;
  return (
    <span class={isRunning ? "is-running" : ""}>
      {thoughtWords({ isRunning, seconds, tokens: isRunning ? null : item.tokens.value })}
    </span>
  );
}

function ReasoningText({ item }: { item: LiveItem }) {
  return <div class="reasoning-text">{item.text.value}</div>;
}
