/** The server's messages begin in lower case and end without a stop; people read sentences. Pure. */
export function sentence(message: string): string {
  const text = message.trim();
  if (text === "") return "";
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}
