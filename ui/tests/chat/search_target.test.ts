import { describe, expect, it } from "vitest";
import { placesOf, rangesIn } from "../../src/chat/search_target";

describe("the words that a search led to", () => {
  it("are found together where they stand together, and one by one where they do not", () => {
    expect(placesOf("Chapter 1. Chapter 13.", "chapter 13")).toEqual([[11, 21]]);
    expect(placesOf("13 ways to end a chapter", "Chapter 13")).toEqual([[0, 2], [17, 24]]);
    expect(placesOf("nothing", "chapter")).toEqual([]);
    expect(placesOf("anything", " ")).toEqual([]);
  });

  it("do not overlap where one of them stands in another", () => {
    const node = document.createElement("p");
    node.innerHTML = "The <strong>chap</strong>ter of a chap.";
    expect(rangesIn(node, "chapter chap").map(String)).toEqual(["chapter", "chap"]);
  });

  it("may span several elements", () => {
    const node = document.createElement("p");
    node.innerHTML = "See <strong>Chap</strong>ter 13, and <em>Chapter 13</em>.";
    expect(rangesIn(node, "chapter 13").map(String)).toEqual(["Chapter 13", "Chapter 13"]);
  });
});
