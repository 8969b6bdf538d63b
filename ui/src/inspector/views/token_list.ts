/** The keys that walk tokens, and the token under the pointer. */

/** The token that an event happened on. */
export function tokenUnder(event: Event): number | null {
  const chip = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-token]") : null;
  return chip === null ? null : Number(chip.dataset["token"]);
}

/** Where a key leads from a token: a position, or null where the key is none of these. `last` is the last position. */
export function tokenAfterKey(event: KeyboardEvent, at: number, first: number, last: number, scope: string): number | null {
  const within = (to: number): number => Math.min(last, Math.max(first, to));
  if (event.ctrlKey && event.key !== "Home" && event.key !== "End") return null;
  if (event.metaKey || event.altKey) return null;
  switch (event.key) {
    case "ArrowRight":
      return within(at + 1);
    case "ArrowLeft":
      return within(at - 1);
    case "ArrowDown":
      return within(lineAway(at, 1, scope));
    case "ArrowUp":
      return within(lineAway(at, -1, scope));
    case "PageDown":
      return within(at + 100);
    case "PageUp":
      return within(at - 100);
    case "Home":
      return first;
    case "End":
      return last;
    default:
      return null;
  }
}

/** The token above or below: of those in the page, the first one on another line that reaches as far to the right. */
function lineAway(at: number, by: 1 | -1, scope: string): number {
  const chip = (token: number): HTMLElement | null => document.getElementById(`${scope}-${token}`);
  const here = chip(at)?.getBoundingClientRect();
  if (here === undefined) return at + by;
  const middle = here.left + here.width / 2;
  let line: number | null = null;
  let best = at;
  for (let token = at + by; Math.abs(token - at) < 400; token += by) {
    const there = chip(token)?.getBoundingClientRect();
    if (there === undefined) return best === at ? token : best;
    if (Math.abs(there.top - here.top) < here.height / 2) continue;
    line ??= there.top;
    if (Math.abs(there.top - line) > here.height / 2) return best;
    best = token;
    if (by === 1 ? there.right >= middle : there.left <= middle) return token;
  }
  return best === at ? at + by : best;
}
