import { expect, test } from "vitest";
import { Characters } from "../../src/inspector/tools/characters";

test("characters and units agree with a slow count", () => {
  const text = "a🦜é🦜🦜z";
  const slow = [...text];
  const characters = new Characters(text);
  expect(characters.length).toBe(slow.length);
  for (let at = 0; at <= slow.length; at += 1) {
    const unit = slow.slice(0, at).join("").length;
    expect(characters.unitOf(at)).toBe(unit);
    expect(characters.characterOf(unit)).toBe(at);
  }
  expect(characters.characterOf(2)).toBe(1); // in the middle of the parrot
  expect(characters.slice(1, 3)).toBe("🦜é");
});
