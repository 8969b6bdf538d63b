/** A token as the tools show it: its text with blanks made visible, its id, and by its shape whether it is a control token. */

import type { TokenInfo } from "../../api/inspect";
import { visible } from "../spelled";
import { counted } from "../trace";
import type { Marked, Piece } from "./token_diff";

export type TokenTable = Readonly<Record<string, TokenInfo>>;

/** What to show of a token that may be a part of a character. */
export function shownText(info: TokenInfo | undefined, id: number | null): string {
  if (info === undefined) return id === null ? "" : `#${id}`;
  if (info.text !== null && !info.text.includes("\ufffd")) return visible(info.text);
  return info.bytes === null ? `#${id}` : `0x${info.bytes}`;
}

interface Props {
  id: number;
  info: TokenInfo | undefined;
  mark?: "same" | "removed" | "added" | "here";
  withId?: boolean;
}

export function TokenChip({ id, info, mark = "same", withId = false }: Props) {
  const Element = mark === "removed" ? "del" : mark === "added" ? "ins" : "span";
  const kind = info?.special === true ? " is-special" : "";
  return (
    <Element class={`tool-token${kind} is-${mark}`} title={`token ${id}${kind === "" ? "" : ", a control token"}`}>
      {mark === "removed" ? <span class="tool-sign">−</span> : mark === "added" ? <span class="tool-sign">+</span> : null}
      {shownText(info, id)}
      {withId ? <small>{id}</small> : null}
    </Element>
  );
}

/** A list that is high enough to scroll can be scrolled by keyboard too. */
const reachable = (tokens: number) => (tokens > 60 ? ({ tabIndex: 0, role: "group", "aria-label": "Tokens" } as const) : {});

interface TokensProps {
  ids: readonly number[];
  table: TokenTable;
  withIds?: boolean;
  /** Which of them is pointed at. */
  here?: number;
}

export function Tokens({ ids, table, withIds = false, here = -1 }: TokensProps) {
  return (
    <div class="tool-tokens" {...reachable(ids.length)}>
      {ids.map((id, at) => (
        <TokenChip key={at} id={id} info={table[id]} withId={withIds} mark={at === here ? "here" : "same"} />
      ))}
    </div>
  );
}

/** What changed between two lists of tokens, with a little around it. */
export function ChangedTokens({ pieces, table }: { pieces: readonly Piece[]; table: TokenTable }) {
  const shown = pieces.reduce((sum, piece) => sum + (piece.kind === "gap" ? 1 : piece.tokens.length), 0);
  return (
    <div class="tool-tokens" {...reachable(shown)}>
      {pieces.map((piece, at) =>
        piece.kind === "gap" ? (
          <span key={at} class="tool-gap">{sayGap(piece.of, piece.tokens)}</span>
        ) : (
          piece.tokens.map((token: Marked, index) => (
            <TokenChip key={`${at}.${index}`} id={token.id} info={table[token.id]} mark={token.kind} />
          ))
        ),
      )}
    </div>
  );
}

const sayGap = (of: Marked["kind"], tokens: number): string =>
  of === "same" ? `… ${counted(tokens, "token")} …` : `… ${counted(tokens, "token")} more ${of} …`;
