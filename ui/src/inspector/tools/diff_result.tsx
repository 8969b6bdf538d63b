/** What a comparison found: what is shared, where the prompts part, what was dropped, and message by message. */

import { useState } from "preact/hooks";
import type { DiffRow, InspectedMessage, PromptDiff } from "../../api/inspect";
import { countOf, counted, idsOf, number, percent } from "../trace";
import { around, blocksOf, cacheShare, droppedReasoning } from "./diff_rows";
import { diffTokens, excerpt } from "./token_diff";
import { ChangedTokens, Tokens, type TokenTable } from "./token_chip";

const PAGE = 50;

export function DiffResult({ diff }: { diff: PromptDiff }) {
  const [shown, setShown] = useState(PAGE);
  const table = { ...diff.before.token_table, ...diff.after.token_table };
  const dropped = droppedReasoning(diff);
  const blocks = blocksOf(diff.rows);
  const isSame = diff.before_token === null && diff.after_token === null;
  return (
    <div>
      <h2>What they share</h2>
      <p role="status">{summary(diff)}</p>
      <dl class="tool-facts">
        <div><dt>Shared beginning</dt><dd>{counted(diff.shared_prefix, "token")}</dd></div>
        <div><dt>Usable from the cache</dt><dd>{percent(cacheShare(diff))} of the second</dd></div>
        <div><dt>Only in the first</dt><dd>{counted(diff.dropped_tokens, "token")}</dd></div>
        <div><dt>Only in the second</dt><dd>{counted(diff.added_tokens, "token")}</dd></div>
      </dl>
      {isSame ? null : (
        <>
          <h2>{`First difference: token ${number(diff.shared_prefix)}`}</h2>
          <Parting label="Before" diff={diff} side="before" table={table} />
          <Parting label="After" diff={diff} side="after" table={table} />
        </>
      )}
      {dropped.length === 0 ? null : (
        <>
          <h2>Dropped reasoning</h2>
          <ul class="tool-list">
            {dropped.slice(0, PAGE).map(({ message, reason, tokens }) => (
              <li key={message.index}>
                <strong>{`Message ${message.index + 1}, ${counted(tokens, "token")}.`}</strong> {reason ?? "No reason is known."}
                <div class="quiet">{message.content.slice(0, 160)}</div>
              </li>
            ))}
          </ul>
          {dropped.length > PAGE ? <p class="quiet">{`and ${dropped.length - PAGE} more`}</p> : null}
        </>
      )}
      <h2>Message by message</h2>
      <ol class="tool-rows">
        {blocks.slice(0, shown).map((block, at) => (
          <li key={at}>
            {block.kind === "same" ? <Same rows={block.rows} diff={diff} /> : <Row row={block.row} diff={diff} table={table} />}
          </li>
        ))}
      </ol>
      {blocks.length > shown ? (
        <button type="button" onClick={() => setShown(shown + PAGE)}>{`Show more (${blocks.length - shown} left)`}</button>
      ) : null}
    </div>
  );
}

function summary(diff: PromptDiff): string {
  if (diff.before_token === null && diff.after_token === null) return "The two are identical, token for token.";
  if (diff.is_extension) return "The second continues where the first ends: all of the first can be reused.";
  return `They are identical for ${counted(diff.shared_prefix, "token")}, then they differ. What follows must be read again.`;
}

function Parting({ label, diff, side, table }: { label: string; diff: PromptDiff; side: "before" | "after"; table: TokenTable }) {
  const found = around(diff[side], diff.shared_prefix);
  const at = side === "before" ? diff.before_message : diff.after_message;
  const message = at === null ? undefined : diff[side].messages[at];
  const hasEnded = (side === "before" ? diff.before_token : diff.after_token) === null;
  return (
    <div class="tool-parting">
      <strong>{label}</strong>{" "}
      <span class="quiet">
        {message === undefined ? "" : `in message ${message.index + 1}: ${nameOf(message)}`}
        {hasEnded ? " (it has ended here)" : ""}
      </span>
      <Tokens ids={found.ids} table={table} withIds here={found.here} />
    </div>
  );
}

function Same({ rows, diff }: { rows: DiffRow[]; diff: PromptDiff }) {
  const [isOpen, setOpen] = useState(false);
  const messages = rows.flatMap(({ after }) => (after === null ? [] : (diff.after.messages[after] ?? [])));
  const tokens = messages.reduce((sum, message) => sum + countOf(message), 0);
  return (
    <details class="tool-fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{`= ${counted(rows.length, "message")} the same, ${counted(tokens, "token")}`}</summary>
      {isOpen ? (
        <ul class="tool-list">
          {messages.slice(0, 200).map((message) => (
            <li key={message.index}>
              {`${message.index + 1}. ${nameOf(message)}, ${counted(countOf(message), "token")}`}
              <div class="quiet">{message.content.slice(0, 160)}</div>
            </li>
          ))}
          {messages.length > 200 ? <li class="quiet">{`and ${messages.length - 200} more`}</li> : null}
        </ul>
      ) : null}
    </details>
  );
}

const WORDS = { changed: "≠ Changed", dropped: "− Dropped", added: "+ Added", same: "= Same" } as const;

function Row({ row, diff, table }: { row: DiffRow; diff: PromptDiff; table: TokenTable }) {
  const [isOpen, setOpen] = useState(row.kind === "changed");
  const before = row.before === null ? undefined : diff.before.messages[row.before];
  const after = row.after === null ? undefined : diff.after.messages[row.after];
  const message = after ?? before;
  if (message === undefined) return null;
  const place =
    before !== undefined && after !== undefined && before.index !== after.index
      ? `message ${before.index + 1} is now ${after.index + 1}`
      : `message ${message.index + 1}`;
  const tokens =
    before !== undefined && after !== undefined
      ? `${number(countOf(before))} → ${counted(countOf(after), "token")}`
      : counted(countOf(message), "token");
  return (
    <details class={`tool-fold is-${row.kind}`} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong>{WORDS[row.kind]}</strong> {`${place}: ${nameOf(message)}, ${tokens}`}
        {row.reason === null ? null : <span class="quiet"> {row.reason}</span>}
      </summary>
      {isOpen ? <Inside before={before} after={after} table={table} /> : null}
    </details>
  );
}

function Inside({ before, after, table }: { before: InspectedMessage | undefined; after: InspectedMessage | undefined; table: TokenTable }) {
  const left = before === undefined ? [] : idsOf(before);
  const right = after === undefined ? [] : idsOf(after);
  return <ChangedTokens pieces={excerpt(diffTokens(left, right), left, right, 6, 400)} table={table} />;
}

function nameOf({ role, name, channel, recipient }: InspectedMessage): string {
  return [role, name, channel, recipient === null ? null : `to ${recipient}`].filter((part) => part !== null).join(" · ");
}
