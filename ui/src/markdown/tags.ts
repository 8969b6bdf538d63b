/** The HTML tags that Markdown is read with, all without attributes: `<br>`, and these, which come in pairs. */

export const PAIRED_TAGS = "sub|sup|kbd";
