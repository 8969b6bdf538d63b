/** All tokens of the trace, message by message. Only the blocks in sight are in the page. */

import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Block, blocksOf, tokenOfHit } from "../blocks";
import { coveredTop } from "../covered";
import { arrive, currentHit, inspection, jumps, messageOf, select, selected, shown, starts, turnTrace } from "../state";
import { lastNotAbove, number, tokensOf, toneOf } from "../trace";
import { isPrinting, useWindow } from "../use_window";
import { FilterBar } from "./filter_bar";
import { ModeChoice, mode } from "./mode_choice";
import { ToneBadge } from "./tone_badge";
import { TokenChips } from "./token_chips";
import { TokenDetail } from "./token_detail";
import { tokenAfterKey, tokenUnder } from "./token_list";

const SCOPE = "token";
const blocks = computed(() => (inspection.value === null ? [] : blocksOf(inspection.value, shown.value)));
const keys = computed(() => blocks.value.map((block) => block.key));
const blockStarts = computed(() => blocks.value.map((block) => block.start));
const hovered = signal<number | null>(null);

/** The token that the reader is at: one that was selected, or the first of the message that was. */
const cursor = computed<number | null>(() => {
  const now = selected.value;
  if (now === null) return null;
  if (now.kind === "token") return now.token;
  if (now.kind === "diagnostic") {
    const token = inspection.value?.diagnostics[now.diagnostic]?.at.token;
    if (token != null) return token;
  }
  const message = messageOf(now);
  const hit = currentHit.value;
  const found = inspection.value;
  const whole = message === null ? undefined : found?.messages[message];
  if (hit !== null && whole !== undefined && message !== null && hit.message === message) {
    return (starts.value[message] ?? 0) + tokenOfHit(whole, found?.token_table ?? {}, hit);
  }
  return message === null ? null : (starts.value[Math.min(message, starts.value.length - 1)] ?? null);
});

export function TokensView() {
  const list = useWindow(keys.value, (row) => estimate(blocks.value[row]), coveredTop);
  const last = blocks.value.at(-1);
  useEffect(() => {
    const token = cursor.value;
    if (token === null || blocks.value.length === 0) return;
    arrive();
    const row = lastNotAbove(blockStarts.value, token);
    const chip = document.getElementById(`${SCOPE}-${token}`);
    if (chip !== null) reveal(chip);
    else list.goTo(row, () => reveal(document.getElementById(`${SCOPE}-${token}`)));
  }, [jumps.value]);
  if (inspection.value === null) return null;
  const onKeyDown = (event: KeyboardEvent): void => {
    const first = blocks.value[0]?.start ?? 0;
    const end = last === undefined ? 0 : last.start + last.count - 1;
    const to = tokenAfterKey(event, cursor.value ?? first - 1, first, end, SCOPE);
    if (to === null) return;
    event.preventDefault();
    hovered.value = null;
    select({ kind: "token", token: to });
  };
  return (
    <div class="tokens-view">
      <FilterBar>
        <ModeChoice name="mode" />
      </FilterBar>
      <p class="quiet">
        {`${tokensOf(inspection.value)}. Special tokens have a double frame, tokens of headers a line below; a frame around several tokens is one character whose bytes they share. · is a space, ↵ a line's end.`}
      </p>
      <div
        ref={list.listRef}
        class={`tokens token-list mode-${mode.value}${isPrinting.value ? "" : " windowed"}`}
        style={list.listStyle}
        role="listbox"
        tabIndex={0}
        aria-label="Tokens"
        aria-activedescendant={cursor.value === null ? undefined : `${SCOPE}-${cursor.value}`}
        onKeyDown={onKeyDown}
        onClick={(event) => {
          const token = tokenUnder(event);
          if (token !== null) select({ kind: "token", token });
        }}
        onPointerMove={(event) => (hovered.value = tokenUnder(event))}
        onPointerLeave={() => (hovered.value = null)}
      >
        {list.rows.map((row) => {
          const block = blocks.value[row];
          if (block === undefined) return null;
          return (
            <div
              key={block.key}
              ref={list.rowRef(row)}
              class="block"
              style={list.rowStyle(row)}
              role="group"
              aria-label={labelOf(block)}
              data-row={row}
              data-key={block.key}
            >
              <BlockTokens block={block} />
            </div>
          );
        })}
      </div>
      <HoveredDetail />
    </div>
  );
}

function BlockTokens({ block }: { block: Block }) {
  const found = inspection.value;
  if (found === null) return null;
  const message = block.message === null ? null : (found.messages[block.message] ?? null);
  const tone = message === null ? "unknown" : toneOf(message);
  const at = cursor.value;
  const here = at !== null && at >= block.start && at < block.start + block.count ? at : null;
  const end = turnTrace.value?.prompt_tokens ?? null;
  const name = message === null ? "Outside" : `${(block.message ?? 0) + 1} ${message.role}${message.channel === null ? "" : ` · ${message.channel}`}`;
  return (
    <div class={`block-tokens tone-${tone}`}>
      <span class="block-name" aria-hidden="true">
        {block.isFirst && message !== null && <ToneBadge tone={tone} />}
        {block.isFirst ? name : ""}
        <span class="block-start">{number(block.start)}</span>
      </span>
      <TokenChips
        message={message}
        groups={block.groups}
        table={found.token_table ?? {}}
        base={block.base}
        mode={mode.value}
        cursor={here}
        scope={SCOPE}
        boundary={end !== null && end >= block.start && end < block.start + block.count ? end : null}
      />
    </div>
  );
}

const HoveredDetail = () => <TokenDetail at={hovered.value ?? cursor.value} />;

function labelOf(block: Block): string {
  const of = block.message === null ? "Outside of messages" : `Message ${block.message + 1}`;
  return `${of}, tokens ${block.start} to ${block.start + block.count - 1}`;
}

/** A guess, until it was measured: a chip is some forty pixels wide. */
function estimate(block: Block | undefined): number {
  const perLine = Math.max(4, Math.floor(Math.min(innerWidth, 1100) / 52));
  return 40 + Math.ceil((block?.groups.length ?? 1) / perLine) * 30;
}

/** Into sight, clear of the bars above and below. */
function reveal(chip: HTMLElement | null): void {
  chip?.scrollIntoView({ block: "nearest", inline: "nearest" });
}
