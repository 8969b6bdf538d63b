/**
 * Files that are attached to a message, as they are read here before they go along.
 *
 * 1. Only text goes along, because the models read text only; every other file is refused in words.
 * 2. A file is text if it is UTF-8 without control characters. The server takes the same for text.
 */

import type { AttachedFile } from "./session";

/** The server reads files up to four times this; a chat is saved turn by turn and should stay light. */
export const MOST_FILE_BYTES = 1024 * 1024;
export const MOST_FILES = 20;

export type ReadFile = { file: AttachedFile } | { refused: string };

/** A file for the message, or why it cannot go along. */
export async function readFile(file: File): Promise<ReadFile> {
  const name = file.name || "pasted.txt";
  if (file.size > MOST_FILE_BYTES) {
    return { refused: `${name} has ${inBytes(file.size)}. A file may have up to ${inBytes(MOST_FILE_BYTES)}.` };
  }
  let data: Uint8Array;
  try {
    data = new Uint8Array(await file.arrayBuffer());
  } catch {
    return { refused: `${name} could not be read. It may be a folder, or it is gone.` };
  }
  const text = textOf(data);
  return text === null ? { refused: `${name} is not a text file. The model reads text only.` } : { file: { name, text } };
}

/** All files that may go along, and why the others may not. `already` are those that the message has. */
export async function readFiles(files: readonly File[], already: number): Promise<{ files: AttachedFile[]; refused: string[] }> {
  const room = Math.max(MOST_FILES - already, 0);
  const read = await Promise.all(files.slice(0, room).map(readFile));
  const refused = read.flatMap((each) => ("refused" in each ? [each.refused] : []));
  if (files.length > room) refused.push(`A message may have up to ${MOST_FILES} files; ${files.length - room} were left out.`);
  return { files: read.flatMap((each) => ("file" in each ? [each.file] : [])), refused };
}

/** The text of a text file; null for everything else. */
export function textOf(data: Uint8Array): string | null {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return null;
  }
  // Tab, line feed, form feed and carriage return are text; other control characters are a sign of something else.
  return /[\u0000-\u0008\u000b\u000e-\u001f]/.test(text) ? null : text;
}

export function inBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  const [size, unit] = bytes < 1024 * 1024 ? [bytes / 1024, "kB"] : [bytes / 1024 / 1024, "MB"];
  return `${size < 10 ? Number(size.toFixed(1)) : Math.round(size)} ${unit}`;
}

/** How many bytes a text has on the wire, without encoding it. */
export function bytesOf(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
