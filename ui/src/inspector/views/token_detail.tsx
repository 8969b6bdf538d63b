/** What there is to say about one token: its position, its id, its bytes, its text, and where it stands. */

import { groupsOf } from "../blocks";
import { hexOf, visible } from "../spelled";
import { inspection, turnTrace } from "../state";
import { number, partAt, piecesOf } from "../trace";

export function TokenDetail({ at }: { at: number | null }) {
  const found = inspection.value;
  if (found === null || at === null) return <p class="token-detail quiet">Point at a token, or move with the arrow keys.</p>;
  const piece = piecesOf(found).findLast((one) => one.start <= at && at < one.start + one.count);
  const message = piece?.message == null ? null : (found.messages[piece.message] ?? null);
  const whole = piece === undefined ? undefined : (message ?? found.outside[piece.outside ?? -1]);
  if (piece === undefined || whole === undefined) return <p class="token-detail">{`Token ${number(at)}: not part of any message.`}</p>;
  const offset = at - piece.start;
  const group = groupsOf(whole, found.token_table ?? {}).find((one) => one.start <= offset && offset < one.start + one.ids.length);
  const where =
    message === null
      ? "text that is part of no message"
      : `${partAt(message, offset)} of message ${(piece.message ?? 0) + 1}, ${message.role}${message.channel === null ? "" : `, ${message.channel}`}`;
  const id = group?.ids[offset - group.start];
  const info = found.token_table?.[String(id)];
  return (
    <dl class="token-detail">
      <Fact name="Token" value={number(at)} />
      <Fact name="Id" value={String(id)} />
      <Fact name="Text" value={group === undefined ? "" : visible(group.text)} />
      {group !== undefined && group.ids.length > 1 && <Fact name="Shared by" value={`${group.ids.length} tokens, this is number ${offset - group.start + 1}`} />}
      <Fact name="Bytes" value={info?.bytes == null ? "none" : hexOf(info)} />
      <Fact name="Kind" value={group?.isSpecial ? "special token" : "text"} />
      {turnTrace.value?.prompt_tokens === at && <Fact name="First token" value="of the answer" />}
      <Fact name="In" value={where} />
    </dl>
  );
}

const Fact = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);
