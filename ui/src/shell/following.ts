/** A tab that is looked at again shows the chats as they are now: others may have changed them meanwhile. */

import { refreshChat } from "../chat/refresh";
import { chat } from "../chat/session";
import { loadChats } from "./chat_list";

let isAsking = false;

export async function followOthers(): Promise<void> {
  if (isAsking || document.visibilityState === "hidden") return;
  isAsking = true;
  try {
    const rows = await loadChats();
    await refreshChat(rows.find((each) => each.id === chat.value?.id));
  } catch {
    // The chat stays as it is, and what is wrong is told when something is done with it.
  } finally {
    isAsking = false;
  }
}

export function watchOthers(): () => void {
  const look = (): void => void followOthers();
  addEventListener("focus", look);
  document.addEventListener("visibilitychange", look);
  return () => {
    removeEventListener("focus", look);
    document.removeEventListener("visibilitychange", look);
  };
}
