/** A search in all chats. The server reads only so much at once, so that it is asked until enough is found or all is read. */

import { listChats, type ListedChat } from "../api/chats";

/** More are not looked for: nobody walks them, and another word finds less. */
export const MOST_FOUND = 30;

/** `tell` hears of all that was found so far, and whether that is all there will be. An empty query finds the newest chats. */
export async function searchChats(query: string, signal: AbortSignal, tell: (found: readonly ListedChat[], isWhole: boolean) => void): Promise<void> {
  const words = query.trim();
  let found: ListedChat[] = [];
  let after: string | undefined;
  for (;;) {
    const limit = MOST_FOUND - found.length;
    const page = await listChats({ limit, ...(words === "" ? {} : { query: words }), ...(after === undefined ? {} : { after }) }, signal);
    found = [...found, ...page.data];
    const isWhole = words === "" || found.length >= MOST_FOUND || !page.has_more || page.next === undefined || page.next === after;
    tell(found, isWhole);
    if (isWhole) return;
    after = page.next;
  }
}
