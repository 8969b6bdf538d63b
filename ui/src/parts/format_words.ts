/** What conversations come as, in people's words; by the names that the server has for them. Pure. */

export const FORMAT_WORDS = {
  "harmonia-chat": "Chat exported here",
  chat: "Chat Completions JSON",
  responses: "Responses JSON",
  "harmony-json": "Conversation as JSON or JSONL",
  markdown: "Markdown of a conversation",
  harmony: "Raw Harmony text",
  tokens: "Token ids",
} as const;

/** `chat, responses` is what a file with several conversations was read as. */
export function formatWords(format: string): string {
  const words: Record<string, string> = FORMAT_WORDS;
  return format.split(", ").map((name) => words[name] ?? name).join(", ");
}

export const READABLE: readonly string[] = Object.values(FORMAT_WORDS);
