/** A message: who says it, where, and to whom; its header and its body apart; its tokens and its problems. */

import type { InspectedMessage } from "../../api/inspect";
import { isOpened, toggle } from "../opened";
import { type Hit } from "../search";
import { spellingOf } from "../spelled";
import { currentHit, inspection, messageOf, places, problems, select, selected, starts, tab } from "../state";
import { counted, countOf, number, toneOf } from "../trace";
import { isPrinting } from "../use_window";
import { Marked } from "./marked";
import { MessageTokens } from "./message_tokens";
import { ProblemCard } from "./problem_card";
import { ToneBadge } from "./tone_badge";

/** What the server flags, in other words where its own could be misunderstood: reasoning may well be shown here. */
const FLAG_WORDS: Record<string, string> = { hidden: "not for the user", shown: "for the user" };

/** A body that is longer is folded; this much of it is shown. */
const FOLDED_LENGTH = 1200;
const FOLDED_LINES = 20;

export function MessageCard({ at }: { at: number }) {
  const message = inspection.value?.messages[at];
  if (message === undefined) return null;
  const tone = toneOf(message);
  const now = selected.value;
  const isCurrent = now !== null && now.kind !== "diagnostic" && messageOf(now) === at;
  const found = problems.value.get(`m${at}`) ?? [];
  const ofHeader = found.filter((problem) => places.value[problem]?.part === "header");
  const ofBody = found.filter((problem) => places.value[problem]?.part === "body");
  return (
    <article class={`message tone-${tone}${isCurrent ? " current" : ""}`} aria-labelledby={`message-${at}`}>
      <header class="message-top">
        <ToneBadge tone={tone} />
        <h3 id={`message-${at}`} tabIndex={-1}>
          <span class="message-number">{at + 1}</span>
          <span>{message.role}</span>
          {message.channel !== null && <span class="channel">{message.channel}</span>}
          {message.recipient !== null && <span class="recipient">{`to ${message.recipient}`}</span>}
        </h3>
        {[...message.flags, ...(message.forged ? ["forged"] : [])].map((flag) => (
          <span class="flag" key={flag}>
            {FLAG_WORDS[flag] ?? flag}
          </span>
        ))}
        <span class="message-counts quiet">{countWords(message)}</span>
        <button class="plain" aria-expanded={isOpened(`tokens-${at}`)} onClick={() => toggle(`tokens-${at}`)}>
          Tokens
        </button>
      </header>
      <HeaderPart message={message} at={at} />
      {ofHeader.map((problem) => (
        <ProblemCard key={problem} at={problem} />
      ))}
      <Body message={message} at={at} />
      {message.skipped.length > 0 && (
        <p class="skipped">
          <span class="quiet">Skipped, not part of the text: </span>
          {message.skipped.map((piece, index) => (
            <code key={index}>{piece}</code>
          ))}
        </p>
      )}
      {ofBody.map((problem) => (
        <ProblemCard key={problem} at={problem} />
      ))}
      {isOpened(`tokens-${at}`) && <MessageTokens at={at} />}
    </article>
  );
}

const FIELDS: [keyof InspectedMessage & ("role" | "name" | "channel" | "recipient" | "content_type"), string][] = [
  ["role", "Role"],
  ["name", "Name"],
  ["channel", "Channel"],
  ["recipient", "Recipient"],
  ["content_type", "Content type"],
];

function HeaderPart({ message, at }: { message: InspectedMessage; at: number }) {
  const pieces = spellingOf(message.ids?.header ?? [], inspection.value?.token_table ?? {});
  const whole = pieces.map((piece) => piece.text).join("");
  let offset = 0;
  return (
    <div class="message-header">
      <span class="part-name">Header</span>
      <div>
        <dl class="header-fields">
          {FIELDS.map(([name, word]) => {
            const value = message[name];
            return value === null ? null : (
              <div key={name}>
                <dt>{word}</dt>
                <dd>{value}</dd>
              </div>
            );
          })}
          {message.trust !== "certain" && (
            <div>
              <dt>Trust</dt>
              <dd>{message.trust}</dd>
            </div>
          )}
        </dl>
        {pieces.length === 0 ? (
          <span class="quiet">There is no header in the input.</span>
        ) : (
          <code class="spelling">
            {pieces.map((piece, index) => {
              const start = offset;
              offset += piece.text.length;
              const text = <Marked text={piece.text} whole={whole} message={at} part="header" offset={start} />;
              return piece.isSpecial ? (
                <span class="special" key={index}>
                  {text}
                </span>
              ) : (
                <span key={index}>{text}</span>
              );
            })}
          </code>
        )}
      </div>
    </div>
  );
}

function Body({ message, at }: { message: InspectedMessage; at: number }) {
  const text = message.content;
  const fold = foldAt(text);
  const hit = currentHit.value;
  const isOpen = fold === null || isPrinting.value || isOpened(`body-${at}`) || isBeyond(hit, at, fold);
  return (
    <div class="message-body">
      <span class="part-name">Body</span>
      <div>
        {text === "" ? (
          <span class="quiet">Empty.</span>
        ) : (
          <div class="body-text">
            <Marked text={isOpen ? text : text.slice(0, fold)} message={at} part="body" />
            {!isOpen && " …"}
          </div>
        )}
        {fold !== null && (
          <button class="fold" aria-expanded={isOpen} onClick={() => toggle(`body-${at}`)}>
            {isOpen ? "Show less" : `Show all ${counted(text.length, "character")}`}
          </button>
        )}
      </div>
      <span class="stop">
        {message.stop === null ? (
          <span class="quiet">not ended</span>
        ) : (
          <>
            <span class="hidden-visually">Ended by </span>
            <code class="special">{`<|${message.stop}|>`}</code>
          </>
        )}
      </span>
    </div>
  );
}

const isBeyond = (hit: Hit | null, at: number, fold: number): boolean =>
  hit !== null && hit.message === at && hit.part === "body" && hit.end > fold;

/** Where a body is folded; null where it is short. */
export function foldAt(text: string): number | null {
  let line = -1;
  for (let count = 0; count < FOLDED_LINES; count++) {
    line = text.indexOf("\n", line + 1);
    if (line === -1 || line > FOLDED_LENGTH) break;
  }
  const end = line === -1 || line > FOLDED_LENGTH ? FOLDED_LENGTH : line;
  // A little more is not worth a button.
  if (text.length <= end + 200) return null;
  // Half of a pair is not a character.
  return /[\uD800-\uDBFF]/.test(text.charAt(end - 1)) ? end - 1 : end;
}

function countWords(message: InspectedMessage): string {
  const { header, body, stop } = message.tokens;
  return `${counted(countOf(message), "token")}: ${number(header)} header, ${number(body)} body, ${number(stop)} stop`;
}

/** Open the token view at a message. */
export function openTokens(at: number): void {
  tab.value = "tokens";
  select({ kind: "token", token: starts.value[at] ?? 0 });
}
