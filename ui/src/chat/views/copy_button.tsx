/** Copies a text, and says for a moment that it did, or that the browser does not let it. */

import { useEffect, useState } from "preact/hooks";
import { CheckIcon, CopyIcon, WarningIcon } from "../../parts/icons";
import { copyText } from "../../parts/saving";
import { IconButton } from "./icon_button";

interface Props {
  /** Asked when it is needed. */
  text: () => string;
  label?: string;
}

export function CopyButton({ text, label = "Copy" }: Props) {
  const [said, setSaid] = useState<"copied" | "failed" | null>(null);
  useEffect(() => {
    if (said === null) return;
    const timer = setTimeout(() => setSaid(null), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async (): Promise<void> => {
    setSaid((await copyText(text())) ? "copied" : "failed");
  };
  const word = said === "copied" ? "Copied" : said === "failed" ? "The browser does not allow this page to copy" : label;
  return (
    <IconButton label={word} onClick={() => void copy()}>
      {said === null ? <CopyIcon /> : said === "copied" ? <CheckIcon /> : <WarningIcon />}
    </IconButton>
  );
}
