import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

/** The colours of a style sheet by name: light and dark. */
function coloursOf(file: string): Map<string, [string, string]> {
  const css = readFileSync(join(dirname(fileURLToPath(import.meta.url)), "../../src/style", file), "utf8");
  return new Map([...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name = "", light = "", dark = ""]) => [name, [light, dark]]));
}

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

const base = coloursOf("base.css");
const code = [...coloursOf("markdown.css"), ["danger", base.get("danger") ?? ["", ""]] as const];

test.each(code)("--%s can be read on the ground of code", (_name, colours) => {
  const ground = base.get("sunk") ?? ["", ""];
  expect(contrast(colours[0], ground[0])).toBeGreaterThanOrEqual(4.5);
  expect(contrast(colours[1], ground[1])).toBeGreaterThanOrEqual(4.5);
});

test("there are colours", () => expect(code.length).toBeGreaterThan(5));
