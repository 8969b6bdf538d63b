/** The names of files that the person keeps. */

/** A title as the name of a file: letters of all scripts, no path, nothing invisible. */
export function safeName(title: string): string {
  const plain = title.replace(/[^\p{L}\p{N}\p{M} _-]+/gu, " ").replace(/\s+/g, " ").trim().slice(0, 80).trim();
  return plain || "chat";
}
