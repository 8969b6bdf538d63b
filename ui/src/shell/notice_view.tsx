/** What was just done, told once and for a while. */

import { useEffect } from "preact/hooks";
import { notice } from "./overlays";

const SHOWN_MS = 6000;

export function NoticeView() {
  const told = notice.value;
  useEffect(() => {
    if (told === null) return;
    const wait = setTimeout(() => notice.value === told && (notice.value = null), SHOWN_MS);
    return () => clearTimeout(wait);
  }, [told]);
  // Both are always there: what is put into a live region that is new itself is not read by all readers.
  return (
    <>
      <div class="notice" role="status">
        {told !== null && !told.isError && <p>{told.text}</p>}
      </div>
      <div class="notice" role="alert">
        {told !== null && told.isError && <p>{told.text}</p>}
      </div>
    </>
  );
}
