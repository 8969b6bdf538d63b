/** Markdown as it would be read aloud: the words, without the signs that say how they look. Pure. */

/**
 * Not exact, and it need not be: a sign too many is read, a word is never left out but for those of code and pictures.
 * Linear in the text: no expression may scan a run of characters again from each position in it.
 */
export function plainWords(markdown: string): string {
  return markdown
    .replace(/^ {0,3}(```|~~~)[^\n]*\n[\s\S]*?(?:^ {0,3}\1[^\n]*$|$(?![\s\S]))/gm, " (code) ")
    .replace(/^[ :|]*-[ :-]*\|[ :|-]*$/gm, " ") // the line below the head of a table
    .replace(/^ {0,3}(?:[-*_] *){3,}$/gm, " ")
    .replace(/<br *\/?>/gi, " ")
    .replace(/<\/?(?:sub|sup|kbd)>/gi, "")
    .replace(/^ {0,3}#{1,6} +/gm, "")
    .replace(/^[ \t]*(?:> ?)+/gm, "")
    .replace(/^[ \t]*[-*+] +/gm, "")
    .replace(/!?\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)/g, "$1")
    .replace(/(?<!\\)(\*\*\*|\*\*|\*|~~|``|`)(?=\S)([^\n]{0,300}?[^\s\\])\1/g, "$2")
    .replace(/(?<!\w)(__|_)(?=\S)([^\n]{0,300}?[^\s\\])\1(?!\w)/g, "$2")
    .replace(/[ \t]+/g, " ")
    .replace(/ ?(?<!\\)\| ?/g, ", ")
    .replace(/(?:^|\n)(?:, )+|(?<!, )(?:, )+(?=\n|$)/g, "\n")
    .replace(/\\([\\`*_{}[\]()#+.!|>~-])/g, "$1")
    .replace(/\s+/g, " ")
    .trim();
}
