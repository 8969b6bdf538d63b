/** A part that is closed until somebody opens it. What is inside is not made before that, and is thrown away afterwards. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

interface Props {
  /** The words of its style; `accordion` is the usual look. */
  class: string;
  summary: ComponentChildren;
  /** Called while it is open only. */
  children: () => ComponentChildren;
}

export function Accordion({ class: name, summary, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class={name} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && <div class="accordion-body">{children()}</div>}
    </details>
  );
}
