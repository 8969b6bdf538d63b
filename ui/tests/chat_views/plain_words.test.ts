import { describe, expect, it } from "vitest";
import { plainWords } from "../../src/chat/views/plain_words";

describe("Markdown, read aloud", () => {
  it.each([
    ["Take the **Saturday** train.", "Take the Saturday train."],
    ["*one* _two_ ***three*** `four` ~~five~~", "one two three four five"],
    ["# A title\n\nText", "A title Text"],
    ["- one\n- two\n  * three", "one two three"],
    ["> said\n> so", "said so"],
    ["see [the page](https://example.org/a_b) now", "see the page now"],
    ["| | Paris |\n|---|---|\n| Saturday | 21 °C |\n", "Paris Saturday, 21 °C"],
    ["a | b\n--- | ---\n1 | 2", "a, b 1, 2"],
    ["before\n\n```python\nx = '**no**'\n```\n\nafter", "before (code) after"],
    ["cut off in\n```python\nx = 1", "cut off in (code)"],
    ["one\n\n---\n\ntwo", "one two"],
    ["2 * 3 * 4 and snake_case_name and 5 - 3", "2 * 3 * 4 and snake_case_name and 5 - 3"],
    ["\\*not bold\\*", "*not bold*"],
    ["one<br>two H<sub>2</sub>O <kbd>Ctrl</kbd>", "one two H2O Ctrl"],
    ["", ""],
  ])("%j", (markdown, words) => {
    expect(plainWords(markdown)).toBe(words);
  });
});
