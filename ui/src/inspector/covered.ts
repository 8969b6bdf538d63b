/** How much of the top of the view is covered by the bar that stays there. */

let bar: HTMLElement | null = null;

export const coverRef = (element: HTMLElement | null): void => void (bar = element);

export const coveredTop = (): number => (bar !== null && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0);
