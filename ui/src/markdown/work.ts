/** How much work was done for Markdown, counted in characters, so that a test can see that it stays proportional. */
export const markdownWork = {
  value: {
    /** Characters of lines that were looked at to find out which block they belong to. */
    scannedCharacters: 0,
    /** Characters given to the inline parser, each time they were given. */
    parsedCharacters: 0,
    /** Characters appended to code blocks as they are. */
    appendedCharacters: 0,
    /** Blocks and pieces of blocks that were rendered, each time. */
    renderedPieces: 0,
  },
};
