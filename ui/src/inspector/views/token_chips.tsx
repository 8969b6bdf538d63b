/** Tokens of a block as chips: one for each token, and a frame around those that share a character. */

import { useMemo } from "preact/hooks";
import type { InspectedMessage } from "../../api/inspect";
import { type Group, type TokenTable, hexOf, visible } from "../spelled";
import { partAt } from "../trace";

export type Mode = "text" | "ids" | "both";

interface Props {
  /** Null for text outside of messages. */
  message: InspectedMessage | null;
  groups: readonly Group[];
  table: TokenTable;
  /** The position of the message's first token in the trace. */
  base: number;
  mode: Mode;
  /** The position of the token that the reader is at, where it is one of these. */
  cursor: number | null;
  /** Ids of elements begin with it. */
  scope: string;
  /** The first token of the answer, where it is one of these. */
  boundary: number | null;
}

function Chips({ message, groups, table, base, mode, cursor, scope, boundary }: Props) {
  return (
    <>
      {groups.map((group) => {
        const chips = group.ids.map((id, offset) => {
          const at = base + group.start + offset;
          const part = message === null ? "outside" : partAt(message, group.start + offset);
          const info = table[String(id)];
          const isSplit = group.ids.length > 1;
          const text = isSplit ? hexOf(info) : visible(group.text);
          const kinds = `token ${part}${group.isSpecial ? " special" : ""}${isSplit ? " bytes" : ""}`;
          return (
            <span
              class={at === cursor ? `${kinds} current` : kinds}
              role="option"
              id={`${scope}-${at}`}
              key={at}
              data-token={at}
              aria-selected={at === cursor}
            >
              {mode === "ids" ? id : mode === "text" ? text : <span class="token-text">{text}</span>}
              {mode === "both" && <span class="token-id">{id}</span>}
            </span>
          );
        });
        const isBegin = boundary !== null && base + group.start === boundary;
        const begin = isBegin && (
          <span class="boundary" aria-hidden="true" key="boundary">
            answer
          </span>
        );
        if (group.ids.length === 1) return isBegin ? [begin, ...chips] : chips;
        return (
          <span class="split" role="presentation" key={`s${group.start}`}>
            <span class="split-text" aria-hidden="true">
              {visible(group.text)}
            </span>
            {chips}
          </span>
        );
      })}
    </>
  );
}

/** The same chips stay the same elements, so that moving the cursor costs the blocks that it leaves and enters alone. */
export function TokenChips(props: Props) {
  const { message, groups, table, base, mode, cursor, scope, boundary } = props;
  return useMemo(() => <Chips {...props} />, [message, groups, table, base, mode, cursor, scope, boundary]);
}
