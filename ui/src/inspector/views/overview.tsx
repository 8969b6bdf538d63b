/** The whole trace in numbers: totals, share of the context, what each channel cost, and the problems. */

import { serverInfo } from "../../api/server";
import { inspection, turnTrace } from "../state";
import { number, percent, toneOfChannel } from "../trace";
import { sentence } from "./problem_card";
import { ProblemList } from "./problem_list";
import { ToneBadge } from "./tone_badge";

export function Overview() {
  const found = inspection.value;
  if (found === null) return null;
  const context = serverInfo.value?.context_tokens ?? null;
  const turn = turnTrace.value;
  return (
    <div class="overview">
      <h2>Totals</h2>
      <dl class="totals">
        <Total name="Tokens" value={number(found.tokens)} />
        <Total name="Messages" value={number(found.messages.length)} />
        <Total name="Characters" value={number(found.characters)} />
        <Total name="Turns ended" value={number(found.turns.length)} />
        <Total name="Problems" value={number(found.diagnostics_total)} />
        {turn !== null && <Total name="Tokens of the prompt" value={number(turn.prompt_tokens)} />}
        {turn !== null && <Total name="Tokens of the answer" value={number(turn.tokens - turn.prompt_tokens)} />}
        {context !== null && <Total name="Of the context" value={percent(found.tokens / context)} />}
      </dl>
      {!found.counts_are_exact && <p class="quiet">The input has no token ids: these are the tokens that its text would be encoded to.</p>}
      {context !== null && (
        <>
          <div class="context-bar" aria-hidden="true">
            <span style={{ width: `${Math.min(100, (found.tokens / context) * 100)}%` }} />
          </div>
          <p class="quiet">{`${number(found.tokens)} of the ${number(context)} tokens of the model's context.${found.tokens > context ? " It does not fit." : ""}`}</p>
        </>
      )}
      <h2>Channels</h2>
      <div class="stack" aria-hidden="true">
        {found.channels.map((channel) => (
          <span key={channel.channel} class={`tone-${toneOfChannel(channel.channel)}`} style={{ flexGrow: String(channel.tokens) }} title={channel.channel}>
            <ToneBadge tone={toneOfChannel(channel.channel)} />
          </span>
        ))}
      </div>
      <div class="table" tabIndex={0} role="region" aria-label="Channels">
        <table>
          <thead>
            <tr>
              <th scope="col">Channel</th>
              {["Messages", "Tokens", "Header", "Body", "Stop", "Share"].map((word) => (
                <th scope="col" key={word}>
                  {word}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {found.channels.map((channel) => (
              <tr key={channel.channel}>
                <th scope="row">
                  <ToneBadge tone={toneOfChannel(channel.channel)} /> {channel.channel}
                </th>
                {[channel.messages, channel.tokens, channel.header, channel.body, channel.stop].map((count, at) => (
                  <td key={at}>{number(count)}</td>
                ))}
                <td>{percent(channel.share)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <h2>What the strict parser reports</h2>
      <StrictWords />
      <h2>Problems</h2>
      {found.diagnostics.length === 0 ? <p>None were found.</p> : <ProblemList />}
    </div>
  );
}

function StrictWords() {
  const strict = inspection.value?.strict ?? null;
  if (strict === null) return <p>It accepts all of it.</p>;
  return (
    <p>
      It stops at <code>{strict.code}</code>
      {strict.at.token != null && ` (token ${number(strict.at.token)})`}
      {strict.at.token == null && strict.at.character != null && ` (character ${number(strict.at.character)})`}
      {`: ${sentence(strict.message)}`}
    </p>
  );
}

const Total = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);
