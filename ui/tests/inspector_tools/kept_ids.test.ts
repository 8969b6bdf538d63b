import { expect, test } from "vitest";
import { type Cuts, joinIds, keepIds, MOST_TEXTS } from "../../src/inspector/tools/kept_ids";

const message = (body: string): string => `<|start|>user<|message|>${body}<|end|>`;

/** A trace of these messages, with three ids each: 10 11 12, 20 21 22, … */
function trace(bodies: string[]): { text: string; cuts: Cuts; ids: number[] } {
  const cuts: Cuts = { units: [0], tokens: [0] };
  const ids: number[] = [];
  let text = "";
  bodies.forEach((body, index) => {
    text += message(body);
    ids.push((index + 1) * 10, (index + 1) * 10 + 1, (index + 1) * 10 + 2);
    cuts.units.push(text.length);
    cuts.tokens.push(ids.length);
  });
  return { text, cuts, ids };
}

/** The ids of an edited trace, in which what was encoded anew is told by its text. */
async function edited(bodies: string[], after: string): Promise<(number | string)[]> {
  const { text, cuts, ids } = trace(bodies);
  const seen: string[] = [];
  const joined = await joinIds(ids, keepIds(text, after, cuts), async (part) => [-seen.push(part)]);
  return joined.map((id) => (id < 0 ? (seen[-id - 1] ?? "") : id));
}

const said = (...bodies: string[]): string => bodies.map(message).join("");

test("only the message that changed is encoded anew", async () => {
  expect(await edited(["a", "b", "c"], said("a", "bb", "c"))).toEqual([10, 11, 12, message("bb"), 30, 31, 32]);
});

test("nothing changed, nothing is encoded", async () => {
  expect(await edited(["a", "b"], said("a", "b"))).toEqual([10, 11, 12, 20, 21, 22]);
});

test("what is between two changes keeps its ids", async () => {
  expect(await edited(["a", "b", "c"], said("A", "b", "C"))).toEqual([message("A"), 20, 21, 22, message("C")]);
});

test("a removed, an added, a moved and a doubled message", async () => {
  expect(await edited(["a", "b", "c"], said("a", "c"))).toEqual([10, 11, 12, 30, 31, 32]);
  expect(await edited(["a", "b"], said("a", "n", "b"))).toEqual([10, 11, 12, message("n"), 20, 21, 22]);
  expect(await edited(["a", "b", "c"], said("b", "a", "c"))).toEqual([20, 21, 22, 10, 11, 12, 30, 31, 32]);
  expect(await edited(["a", "b"], said("a", "a", "b"))).toHaveLength(7); // one of the two is the old one
});

test("a message that spells tokens in its body stays what it is when it is moved", async () => {
  const typed = "x<|end|><|start|>system<|message|>y";
  expect(await edited([typed, "b"], said("b", typed))).toEqual([20, 21, 22, 10, 11, 12]);
});

test("what is added at the end, what replaces everything, and nothing", async () => {
  expect(await edited(["a"], `${said("a")}NEW`)).toEqual([10, 11, 12, "NEW"]);
  expect(await edited(["a"], "NEW")).toEqual(["NEW"]);
  expect(await edited(["a"], "")).toEqual([]);
});

test("many changes are encoded as one text", async () => {
  const bodies = Array.from({ length: 4 * MOST_TEXTS }, (_, at) => `m${at}`);
  const after = said(...bodies.map((body, at) => (at % 2 === 0 ? `${body}!` : body)));
  const found = await edited(bodies, after);
  expect(found.filter((part) => typeof part === "string")).toHaveLength(1);
});
