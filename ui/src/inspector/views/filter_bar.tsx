/** The bar above messages and tokens: search, filters, and the way from problem to problem. */

import type { ComponentChildren } from "preact";
import { BackIcon, ForwardIcon } from "../../parts/icons";
import { isComposing } from "../../parts/keys";
import { coverRef } from "../covered";
import { type Filters, NO_FILTERS, choicesOf, isFiltered } from "../filters";
import { MOST_HITS, type SearchPlace } from "../search";
import { filters, hitAt, hits, inspection, look, rows, search, selected, shown, stepHit, stepProblem } from "../state";
import { counted, messagesIn, number } from "../trace";

const PLACES: [SearchPlace, string][] = [
  ["all", "Text and headers"],
  ["bodies", "Text"],
  ["headers", "Headers"],
  ["ids", "Token ids"],
];

const WORDS: [keyof Filters, string, string][] = [
  ["role", "Role", "All roles"],
  ["channel", "Channel", "All channels"],
  ["tool", "Tool", "All tools"],
  ["problem", "Problem", "All messages"],
];

/** A choice between one role is none; but one tool tells its messages from the others, and so does one problem. */
const LEAST: Record<keyof Filters, number> = { role: 2, channel: 2, tool: 1, problem: 1 };

export const SEARCH_ID = "inspector-search";

export function FilterBar({ children }: { children?: ComponentChildren }) {
  const found = inspection.value;
  if (found === null) return null;
  const choices = choicesOf(found);
  const change = (name: keyof Filters, value: string): void => {
    // "" is a channel's value too: messages without one. Therefore "all" has a value of its own.
    filters.value = { ...filters.value, [name]: value === "*" ? null : value };
    hitAt.value = -1;
  };
  return (
    <div class="filter-bar" ref={coverRef}>
      <SearchBox />
      {WORDS.map(([name, word, all]) =>
        choices[name].length < LEAST[name] && filters.value[name] === null ? null : (
          <select key={name} aria-label={word} value={filters.value[name] ?? "*"} onChange={(event) => change(name, event.currentTarget.value)}>
            <option value="*">{all}</option>
            {name === "problem" && <option value="any">With a problem</option>}
            {choices[name].map(({ value, count }) => (
              <option key={value} value={value}>
                {`${value === "" ? "No channel" : value} (${number(count)})`}
              </option>
            ))}
          </select>
        ),
      )}
      {isFiltered(filters.value) && (
        <>
          <button onClick={() => (filters.value = NO_FILTERS)}>All</button>
          <span class="quiet" role="status">{`${number(messagesIn(shown.value))} of ${counted(messagesIn(rows.value), "message")} shown`}</span>
        </>
      )}
      <Problems />
      {children}
    </div>
  );
}

function SearchBox() {
  const { query, place } = search.value;
  const count = hits.value.length;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (isComposing(event)) return;
    if (event.key === "Enter") {
      event.preventDefault();
      stepHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && search.value.query !== "") {
      event.preventDefault();
      look({ query: "" });
    }
  };
  return (
    <div class="trace-search" role="search">
      <input
        id={SEARCH_ID}
        type="search"
        aria-label="Search"
        placeholder={place === "ids" ? "200006 173781" : "Search"}
        value={query}
        onInput={(event) => look({ query: event.currentTarget.value })}
        onKeyDown={onKeyDown}
      />
      <select aria-label="Search in" value={place} onChange={(event) => look({ place: event.currentTarget.value as SearchPlace })}>
        {PLACES.map(([value, word]) => (
          <option key={value} value={value}>
            {word}
          </option>
        ))}
      </select>
      {query !== "" && (
        <>
          <span class="quiet count" role="status">
            {count === 0 ? "Not found" : `${hitAt.value === -1 ? "" : `${number(hitAt.value + 1)} of `}${number(count)}${count === MOST_HITS ? " or more" : ""}`}
          </span>
          <button class="plain" aria-label="Previous hit" disabled={count === 0} onClick={() => stepHit(-1)}>
            <BackIcon />
          </button>
          <button class="plain" aria-label="Next hit" disabled={count === 0} onClick={() => stepHit(1)}>
            <ForwardIcon />
          </button>
        </>
      )}
    </div>
  );
}

function Problems() {
  const count = inspection.value?.diagnostics.length ?? 0;
  if (count === 0) return null;
  const now = selected.value;
  // The server tells the first thousand, and how many there are.
  const more = (inspection.value?.diagnostics_total ?? count) - count;
  return (
    <div class="problem-steps" role="group" aria-label="Problems">
      <button class="plain" aria-label="Previous problem" aria-keyshortcuts="p" onClick={() => stepProblem(-1)}>
        <BackIcon />
      </button>
      <span>{now?.kind === "diagnostic" ? `Problem ${number(now.diagnostic + 1)} of ${number(count)}` : counted(count, "problem")}{more > 0 && `, and ${number(more)} more`}</span>
      <button class="plain" aria-label="Next problem" aria-keyshortcuts="n" onClick={() => stepProblem(1)}>
        <ForwardIcon />
      </button>
    </div>
  );
}
