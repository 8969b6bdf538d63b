/** Where the focus goes when the part that had it is gone. */

/** To a button of a turn, by its label, once the turn is drawn anew. */
export function focusInTurn(turn: string, label: string): void {
  requestAnimationFrame(() => {
    const buttons = document.getElementById(turn)?.querySelectorAll<HTMLElement>("button") ?? [];
    [...buttons].find((button) => button.getAttribute("aria-label") === label)?.focus();
  });
}

/** To the conversation, unless something else has it: keys go on from there, and no touch keyboard jumps up. */
export function keepFocus(): void {
  requestAnimationFrame(() => {
    if (document.activeElement !== null && document.activeElement !== document.body) return;
    document.querySelector<HTMLElement>(".turns, textarea[data-composer]")?.focus({ preventScroll: true });
  });
}
