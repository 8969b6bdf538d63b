/** A text with what the search found in it marked. The hit that the reader is at is marked twice. */

import { type Hit, markedPieces, patternOf, spansIn } from "../search";
import { currentHit, search } from "../state";

interface Props {
  text: string;
  message: number;
  part: Hit["part"];
  /** Where the text is a piece of a longer one: that, and where the piece begins. */
  whole?: string;
  offset?: number;
}

export function Marked({ text, message, part, whole, offset = 0 }: Props) {
  const { place } = search.value;
  const isSearched = place === "all" || (place === "bodies" && part === "body") || (place === "headers" && part === "header");
  const pattern = isSearched ? patternOf(search.value) : null;
  if (pattern === null) return <>{text}</>;
  const hit = currentHit.value;
  const current = hit !== null && hit.message === message && hit.part === part ? hit : null;
  const isCurrent = (start: number): boolean => current !== null && current.start <= start && start < current.end;
  return (
    <>
      {markedPieces(text, spansIn(whole ?? text, pattern), offset).map((piece) =>
        piece.isMarked ? (
          <mark key={piece.start} class={isCurrent(piece.start) ? "current" : undefined}>
            {piece.text}
          </mark>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}
