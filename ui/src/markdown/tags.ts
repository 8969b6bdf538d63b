/** The HTML tags that are rendered, all without attributes: `<br>`, and these, which come in pairs. */

export const PAIRED_TAGS = "sub|sup|kbd";
