import { describe, expect, it } from "vitest";
import { bytesOf, inBytes, MOST_FILE_BYTES, MOST_FILES, readFile, readFiles, textOf } from "../../src/chat/attachments";

const file = (name: string, content: BlobPart): File => new File([content], name);

describe("readFile", () => {
  it("reads a text file", async () => {
    expect(await readFile(file("notes.txt", "Grüße 🦜\n"))).toEqual({ file: { name: "notes.txt", text: "Grüße 🦜\n" } });
  });

  it("refuses what is no text, by name", async () => {
    const read = await readFile(file("cat.png", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])));
    expect(read).toHaveProperty("refused");
    expect("refused" in read && read.refused).toContain("cat.png");
  });

  it("refuses a file that is too large, with both sizes", async () => {
    const read = await readFile(file("big.txt", "a".repeat(MOST_FILE_BYTES + 1)));
    expect("refused" in read && read.refused).toContain("1 MB");
  });

  it("gives a file without a name one", async () => {
    expect(await readFile(file("", "x"))).toEqual({ file: { name: "pasted.txt", text: "x" } });
  });
});

describe("readFiles", () => {
  it("takes what there is room for, and says how many were left out", async () => {
    const given = [file("a.txt", "a"), file("b.bin", new Uint8Array([0])), file("c.txt", "c")];
    const { files, refused } = await readFiles(given, MOST_FILES - 2);
    expect(files.map((each) => each.name)).toEqual(["a.txt"]);
    expect(refused).toHaveLength(2);
  });
});

describe("textOf", () => {
  it("takes tabs, lines and form feeds for text, and no other control character", () => {
    const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
    expect(textOf(encode("a\tb\r\nc\f"))).toBe("a\tb\r\nc\f");
    expect(textOf(encode("a\u0000b"))).toBeNull();
    expect(textOf(encode("a\u001bb"))).toBeNull();
    expect(textOf(new Uint8Array([0xc3, 0x28]))).toBeNull();
  });
});

describe("sizes", () => {
  it("counts the bytes of a text as UTF-8 has them", () => {
    for (const text of ["", "abc", "Grüße", "漢字", "🦜a"]) expect(bytesOf(text)).toBe(new TextEncoder().encode(text).length);
  });

  it("says them in words", () => {
    expect([0, 1, 1023, 1024, 1536, 20_480, 1024 * 1024].map(inBytes)).toEqual(["0 bytes", "1 byte", "1023 bytes", "1 kB", "1.5 kB", "20 kB", "1 MB"]);
  });
});
