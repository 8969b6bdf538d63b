/** What an answer cost: tokens by channel, speed, the share of the context; in one line, and in full when it is opened. */

import type { ComponentChildren } from "preact";
import type { Turn, TurnDetails } from "../../api/chats";
import { serverInfo } from "../../api/server";
import { legsTo } from "../decisions";
import { branch } from "../session";
import { joinDetails } from "../usage";
import { channelWords, contextUse, inNumber, inPercent, inSeconds, inTokens, NEARLY_FULL, speedOf } from "./words";

const EDITED = "edited by you";

/** The short line, a button that opens `TurnFacts`. The row draws those below itself, so that the button does not move. */
export function FactsLine({ turn, isOpen, onToggle }: { turn: Turn; isOpen: boolean; onToggle: () => void }) {
  const details = detailsTo(turn);
  const usage = details.usage;
  const who = details.edited === true ? EDITED : details.model;
  if (usage === undefined) return who === undefined ? null : <span class="quiet facts-line">{who}</span>;
  const speed = speedOf(details);
  return (
    <button type="button" class="plain facts-line" aria-expanded={isOpen} onClick={onToggle}>
      <span>
        {details.edited === true && `${EDITED}, `}
        {inTokens(usage.output_tokens)}
        {speed !== null && <span class="narrow-off">{`, ${inNumber(speed)} tokens/s`}</span>}
      </span>
    </button>
  );
}

const detailsTo = (turn: Turn): TurnDetails => joinDetails([...legsTo(branch.value, turn.id).slice(0, -1), turn].map((leg) => leg.details));

export function TurnFacts({ turn }: { turn: Turn }) {
  const details = detailsTo(turn);
  const usage = details.usage;
  if (usage === undefined) return null;
  const speed = speedOf(details);
  const channels = channelWords(usage);
  const context = contextUse(usage, serverInfo.value?.context_tokens ?? null);
  const cached = usage.input_tokens_details?.cached_tokens ?? 0;
  return (
    <dl class="facts">
      <Fact name="Output">
        {inTokens(usage.output_tokens)}
        {channels !== null && ` (${channels})`}
      </Fact>
      <Fact name="Prompt">
        {inTokens(usage.input_tokens)}
        {cached > 0 && ` (${inNumber(cached)} from the cache)`}
      </Fact>
      {speed !== null && <Fact name="Speed">{`${inNumber(speed)} tokens/s`}</Fact>}
      {details.first_token_s !== undefined && (
        <Fact name="Time">
          {`first token ${inSeconds(details.first_token_s)}`}
          {details.total_s !== undefined && `, all ${inSeconds(details.total_s)}`}
        </Fact>
      )}
      <Fact name="Context">
        {context.share !== null && <meter min={0} max={1} high={NEARLY_FULL} value={context.share} aria-label="Share of the context" />}
        {context.of === null || context.share === null
          ? `${inTokens(context.used)} used`
          : `${inNumber(context.used)} of ${inTokens(context.of)}, ${inPercent(context.share)}`}
      </Fact>
      {details.model !== undefined && <Fact name="Model">{details.model}</Fact>}
      {details.effort !== undefined && <Fact name="Effort">{details.effort}</Fact>}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
