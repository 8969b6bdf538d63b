/** Keys that belong to somebody else. */

/** Whether an input method takes the key. Some browsers end composing before they tell of it; its code is 229 then. */
export const isComposing = (event: KeyboardEvent): boolean => event.isComposing || event.keyCode === 229;
