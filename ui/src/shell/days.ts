/** Times in words, for lists: which day, as people say it. */

export interface DayGroup<T> {
  name: string;
  items: T[];
}

/** What was changed in the same stretch of days together, in the order in which it came. `now` is in seconds. */
export function byDay<T extends { updated_at: number }>(items: readonly T[], now: number): DayGroup<T>[] {
  const groups: DayGroup<T>[] = [];
  for (const item of items) {
    const name = nameOf(item.updated_at, now);
    const last = groups.at(-1);
    if (last?.name === name) last.items.push(item);
    else groups.push({ name, items: [item] });
  }
  return groups;
}

function nameOf(time: number, now: number): string {
  const days = dayOf(now) - dayOf(time);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "The last seven days";
  if (days < 30) return "The last thirty days";
  return new Date(time * 1000).toLocaleDateString("en", { month: "long", year: "numeric" });
}

/** The number of the day in the reader's own time. */
function dayOf(time: number): number {
  const date = new Date(time * 1000);
  return Math.floor((date.getTime() - date.getTimezoneOffset() * 60_000) / 86_400_000);
}

/** By id, when chats that have the same title were changed: nothing else tells them apart in a list. */
export function timesOfTwins(items: readonly { id: string; title: string; updated_at: number }[], now: number): ReadonlyMap<string, string> {
  const counts = new Map<string, number>();
  for (const { title } of items) counts.set(title, (counts.get(title) ?? 0) + 1);
  return new Map(items.filter(({ title }) => (counts.get(title) ?? 0) > 1).map((item) => [item.id, timeOf(item.updated_at, now)]));
}

function timeOf(time: number, now: number): string {
  const date = new Date(time * 1000);
  const clock = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return dayOf(time) === dayOf(now) ? clock : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock}`;
}
