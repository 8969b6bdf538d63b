/** A button that opens a short list of actions. Arrow keys walk it, Escape and a click elsewhere close it. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Action {
  name: string;
  /** For those that cannot be taken back. */
  isDangerous?: boolean;
  act: () => void;
}

interface Props {
  label: string;
  children: ComponentChildren;
  actions: readonly Action[];
}

export function Menu({ label, children, actions }: Props) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  // At once: a key that follows is for the menu.
  useLayoutEffect(() => {
    if (!isOpen) return;
    root.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const onDown = (event: PointerEvent) => root.current?.contains(event.target as Node) || setOpen(false);
    document.addEventListener("pointerdown", onDown);
    return () => document.removeEventListener("pointerdown", onDown);
  }, [isOpen]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const items = [...(root.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) items.at(to % items.length)?.focus();
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") return setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown}>
      <button ref={button} type="button" class="plain" aria-label={label} aria-haspopup="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {children}
      </button>
      {isOpen && (
        <div role="menu" aria-label={label}>
          {actions.map(({ name, isDangerous, act }) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={isDangerous ? "plain danger" : "plain"}
              onClick={() => {
                close();
                act();
              }}
            >
              {name}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
