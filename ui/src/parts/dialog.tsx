/** A modal dialog: the browser's own, so that focus stays in it, Escape closes it, and focus returns afterwards. */

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
}

export function Dialog({ title, onClose, children, class: extra = "" }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // At once: a key that follows is for the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  // A click beside it lands on the dialog itself, whose children fill it.
  const onClick = (event: MouseEvent) => event.target === dialog.current && isBeside(event) && onClose();
  return (
    <dialog ref={dialog} class={`dialog ${extra}`} aria-labelledby={heading} onClose={onClose} onClick={onClick}>
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" onClick={onClose}>
          Close
        </button>
      </header>
      {children}
    </dialog>
  );
}

function isBeside(event: MouseEvent): boolean {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  const { clientX: x, clientY: y } = event;
  return x < box.left || x > box.right || y < box.top || y > box.bottom;
}
