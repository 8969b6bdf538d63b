/** Where the focus goes when the part that had it is gone. */

/** To a button of a turn, by its label, once the turn is drawn again. */
export function focusInTurn(turn: string, label: string): void {
  requestAnimationFrame(() => {
    const buttons = document.getElementById(turn)?.querySelectorAll<HTMLElement>("button") ?? [];
    [...buttons].find((button) => button.getAttribute("aria-label") === label)?.focus();
  });
}

/**
 * Focuses the message field, unless something else has the focus, so that what is typed next goes there. On a touch
 * screen it focuses the conversation, so that no keyboard opens.
 */
export function keepFocus(): void {
  requestAnimationFrame(() => {
    if (document.activeElement !== null && document.activeElement !== document.body) return;
    const wanted = matchMedia("(pointer: fine)").matches ? "textarea[data-composer]" : ".turns";
    document.querySelector<HTMLElement>(wanted)?.focus({ preventScroll: true });
  });
}
