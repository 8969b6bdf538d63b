import { describe, expect, it } from "vitest";
import { findHits, idsIn, markedPieces, patternOf, spansIn, type SearchPlace } from "../../src/inspector/search";
import { rowsOf } from "../../src/inspector/trace";
import { inspectionOf, message } from "./traces";

const inspection = inspectionOf([message(0, { content: "A user (and a User) 🦜 user" }), message(1)]);
const find = (query: string, place: SearchPlace = "all") =>
  findHits(inspection, rowsOf(inspection), { query, place }).map((hit) => [hit.message, hit.part, hit.start]);

describe("search", () => {
  it("finds in headers and bodies, whatever the case", () => {
    expect(find("USER")).toEqual([
      [0, "header", 9],
      [0, "body", 2],
      [0, "body", 14],
      [0, "body", 23],
      [1, "header", 9],
    ]);
    expect(find("user", "bodies")).toHaveLength(3);
    expect(find("user", "headers")).toHaveLength(2);
  });

  it("takes every sign as it is", () => {
    expect(find("(and")).toEqual([[0, "body", 7]]);
    expect(find("<|start|>user", "headers")).toHaveLength(2);
    expect(find(".*")).toEqual([]);
    for (const sign of "\\^$.*+?()[]{}|/-") expect(spansIn(`a${sign}b`, patternOf({ query: sign, place: "all" }) as RegExp)).toEqual([[1, 2]]);
  });

  it("finds tokens by id, and by several in a row", () => {
    expect(find("1428", "ids")).toEqual([
      [0, "token", 1],
      [1, "token", 1],
    ]);
    expect(find("[1428, 200008]", "ids")).toHaveLength(2);
    expect(find("200008 1428", "ids")).toEqual([]);
    expect(idsIn("12a")).toEqual([]);
  });

  it("finds nothing for nothing", () => {
    expect(find("")).toEqual([]);
    expect(find("", "ids")).toEqual([]);
    expect(find("not there")).toEqual([]);
  });
});

describe("marks", () => {
  it("cut a text and lose nothing of it", () => {
    const pieces = markedPieces("one two one", [
      [0, 3],
      [8, 11],
    ]);
    expect(pieces.map((piece) => piece.text).join("")).toBe("one two one");
    expect(pieces.filter((piece) => piece.isMarked).map((piece) => piece.start)).toEqual([0, 8]);
  });

  it("go across the pieces of a longer text", () => {
    const spans: [number, number][] = [[7, 11]];
    expect(markedPieces("<|start|>", spans, 0).map((piece) => [piece.text, piece.isMarked])).toEqual([
      ["<|start", false],
      ["|>", true],
    ]);
    expect(markedPieces("user", spans, 9).map((piece) => [piece.text, piece.isMarked, piece.start])).toEqual([
      ["us", true, 9],
      ["er", false, 11],
    ]);
  });

  it("are bounded", () => {
    const spans = Array.from({ length: 2000 }, (_, at): [number, number] => [at, at + 1]);
    expect(markedPieces("a".repeat(2000), spans).length).toBeLessThan(1000);
  });
});
