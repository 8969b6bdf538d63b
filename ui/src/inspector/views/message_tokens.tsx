/** The tokens of one message, in its card. Of a long one the beginning; the token view has all. */

import { useSignal } from "@preact/signals";
import { TOKENS_PER_BLOCK, groupsOf } from "../blocks";
import { inspection, starts, turnTrace } from "../state";
import { counted, countOf } from "../trace";
import { openTokens } from "./message_card";
import { ModeChoice, mode } from "./mode_choice";
import { TokenChips } from "./token_chips";
import { TokenDetail } from "./token_detail";
import { tokenAfterKey, tokenUnder } from "./token_list";

const MOST = TOKENS_PER_BLOCK * 4;

export function MessageTokens({ at }: { at: number }) {
  const cursor = useSignal<number | null>(null);
  const hovered = useSignal<number | null>(null);
  const found = inspection.value;
  const message = found?.messages[at];
  if (found === null || message === undefined) return null;
  const table = found.token_table ?? {};
  const base = starts.value[at] ?? 0;
  const groups = groupsOf(message, table).slice(0, MOST);
  const end = groups.at(-1);
  const last = base + (end === undefined ? 0 : end.start + end.ids.length - 1);
  const scope = `token-of-${at}`;
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = tokenAfterKey(event, cursor.value ?? base - 1, base, last, scope);
    if (to === null) return;
    event.preventDefault();
    hovered.value = null;
    cursor.value = to;
    document.getElementById(`${scope}-${to}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div class="message-tokens">
      <div class="token-tools">
        <ModeChoice name={`mode-of-${at}`} />
        <button onClick={() => openTokens(at)}>{groups.length === MOST ? `Token view, with all ${counted(countOf(message), "token")}` : "Token view"}</button>
      </div>
      <div
        class={`tokens mode-${mode.value}`}
        role="listbox"
        tabIndex={0}
        aria-label={`Tokens of message ${at + 1}`}
        aria-activedescendant={cursor.value === null ? undefined : `${scope}-${cursor.value}`}
        onKeyDown={onKeyDown}
        onClick={(event) => (cursor.value = tokenUnder(event) ?? cursor.value)}
        onPointerMove={(event) => (hovered.value = tokenUnder(event))}
        onPointerLeave={() => (hovered.value = null)}
      >
        <TokenChips message={message} groups={groups} table={table} base={base} mode={mode.value} cursor={cursor.value} scope={scope} boundary={turnTrace.value?.prompt_tokens ?? null} />
      </div>
      <Detail hovered={hovered} cursor={cursor.value} />
    </div>
  );
}

function Detail({ hovered, cursor }: { hovered: { value: number | null }; cursor: number | null }) {
  return <TokenDetail at={hovered.value ?? cursor} />;
}
