/** A button that shows a picture and has its word for those who do not see it, also as a tip. */

import type { ComponentChildren } from "preact";

interface Props {
  label: string;
  onClick: () => void;
  children: ComponentChildren;
  class?: string;
  disabled?: boolean;
  isExpanded?: boolean;
}

export function IconButton({ label, onClick, children, class: name = "", disabled = false, isExpanded }: Props) {
  return (
    <button type="button" class={`plain icon-button ${name}`} aria-label={label} title={label} disabled={disabled}
      aria-expanded={isExpanded} onClick={onClick}>
      {children}
    </button>
  );
}
