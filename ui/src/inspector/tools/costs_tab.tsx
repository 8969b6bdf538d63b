/** What the tools' schemas cost in tokens, and what leaving some out would save. */

import "../../style/inspector_tools.css";
import { useEffect, useState } from "preact/hooks";
import { serverInfo } from "../../api/server";
import { inspection } from "../state";
import { counted, number, percent } from "../trace";
import { costsOf, sumOf } from "./costs";

const PAGE = 200;

export function CostsTab() {
  const [out, setOut] = useState<ReadonlySet<string>>(new Set());
  const [shown, setShown] = useState(PAGE);
  const found = inspection.value;
  useEffect(() => setOut(new Set()), [found]);
  if (found === null) return null;
  if (found.schemas === undefined) return <p class="quiet">The server did not count schemas in this trace.</p>;
  if (found.schemas.length === 0) {
    return <p class="tool">This trace declares no tools. Tools are declared in the developer message, under “# Tools”.</p>;
  }
  const context = serverInfo.value?.context_tokens ?? null;
  const costs = costsOf(found.schemas, found.tokens, context);
  const total = sumOf(costs);
  const saved = sumOf(costs.filter(({ tool }) => out.has(tool)));
  const toggle = (tool: string): void => {
    const next = new Set(out);
    if (!next.delete(tool)) next.add(tool);
    setOut(next);
  };
  return (
    <section class="tool" aria-label="Tools' cost">
      <p>
        {`${counted(costs.length, "tool")} in ${counted(total, "token")}: ${percent(total / Math.max(1, found.tokens))} of this trace` +
          (context === null ? "." : `, ${percent(total / context)} of the context of ${number(context)} tokens.`)}{" "}
        They are read with every prompt.
      </p>
      <div class="tool-scroll" tabIndex={0} role="region" aria-label="Tools and their cost">
        <table class="tool-table">
          <thead>
            <tr>
              <th scope="col">Tool</th>
              <th scope="col" class="tool-right">Tokens</th>
              <th scope="col"><span class="hidden-visually">Bar</span></th>
              <th scope="col" class="tool-right">Of the trace</th>
              {context === null ? null : <th scope="col" class="tool-right">Of the context</th>}
              <th scope="col">Remove</th>
            </tr>
          </thead>
          <tbody>
            {costs.slice(0, shown).map((cost, at) => (
              <tr key={at} class={out.has(cost.tool) ? "is-out" : ""}>
                <th scope="row"><code>{cost.tool}</code></th>
                <td class="tool-right">{number(cost.tokens)}</td>
                <td class="tool-bar-cell"><div class="tool-bar-line" style={{ width: `${cost.ofLargest * 100}%` }} /></td>
                <td class="tool-right">{percent(cost.ofPrompt)}</td>
                {cost.ofContext === null ? null : <td class="tool-right">{percent(cost.ofContext)}</td>}
                <td>
                  <label class="tool-check">
                    <input type="checkbox" checked={out.has(cost.tool)} onChange={() => toggle(cost.tool)} />
                    <span class="hidden-visually">{`Remove ${cost.tool}`}</span>
                    <span aria-hidden="true">{`saves ${number(cost.tokens)}`}</span>
                  </label>
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">All</th>
              <td class="tool-right">{number(total)}</td>
              <td />
              <td class="tool-right">{percent(total / Math.max(1, found.tokens))}</td>
              {context === null ? null : <td class="tool-right">{percent(total / context)}</td>}
              <td />
            </tr>
          </tfoot>
        </table>
      </div>
      {costs.length > shown ? (
        <button type="button" onClick={() => setShown(shown + PAGE)}>{`Show more (${costs.length - shown} left)`}</button>
      ) : null}
      <p role="status">
        {out.size === 0
          ? "Tick tools to see what a prompt without them would save."
          : `Without ${counted(out.size, "tool")} the trace would have ${counted(found.tokens - saved, "token")}: ` +
            `${number(saved)} fewer, ${percent(saved / Math.max(1, found.tokens))}.`}
      </p>
    </section>
  );
}
