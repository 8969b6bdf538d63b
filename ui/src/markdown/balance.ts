/**
 * Where a long paragraph may be cut so that no inline construct is torn: outside code, brackets, emphasis, tags and formulas.
 *
 * Looks at each character once. A piece is full when it has many characters or many marks: the inline parser looks for
 * the other end of each mark, so that marks cost more than letters. A full piece is cut at the next place where nothing
 * is open, and soon after that anywhere.
 */

import { PAIRED_TAGS } from "./tags";

export const CUT_FROM = 1500;
export const CUT_AT = 4000;
const MARKS_FROM = 120;
const MARKS_AT = 200;

const TAG = new RegExp(`^<(/?)(?:${PAIRED_TAGS})>$`, "i");
const LONGEST_TAG = "</sub>".length;

type Sign = "*" | "_" | "~" | "$";

export class Balance {
  private length = 0;
  private marks = 0;
  private previous = "";
  private codeRun = 0;
  private run = 0;
  private brackets = 0;
  private formulas = 0;
  /** The tag that is being written, from its `<` on, and how many are open. */
  private tag = "";
  private tags = 0;
  private isOdd: Record<Sign, boolean> = { "*": false, _: false, "~": false, $: false };
  /** `**` is open until the next `**`. */
  private isPairOpen: Record<Sign, boolean> = { "*": false, _: false, "~": false, $: false };

  /** Whether the text is to be cut after this character. */
  step(character: string): boolean {
    this.length++;
    const before = this.previous;
    this.previous = before === "\\" && character === "\\" ? "" : character;
    if (/[^\p{L}\p{N}\s.,;:?'"(){}-]/u.test(character)) this.marks++;
    if (this.length >= CUT_AT || this.marks >= MARKS_AT) return !isHighSurrogate(character);
    if (character === "`" && before !== "\\") {
      this.run++;
      return false;
    }
    if (this.run > 0) {
      if (this.codeRun === 0) this.codeRun = this.run;
      else if (this.codeRun === this.run) this.codeRun = 0;
      this.run = 0;
    }
    if (this.codeRun === 0) this.mark(character, before);
    return (this.length >= CUT_FROM || this.marks >= MARKS_FROM) && /\s/.test(character) && this.isEven();
  }

  private mark(character: string, before: string): void {
    if (before === "\\") {
      if (character === "(" || character === "[") this.formulas++;
      else if (character === ")" || character === "]") this.formulas = Math.max(0, this.formulas - 1);
    } else if (character === "[" || character === "【") this.brackets++;
    else if (character === "]" || character === "】") this.brackets = Math.max(0, this.brackets - 1);
    else if (character === "<") this.tag = "<";
    else if (this.tag !== "") this.letter(character);
    else if (character === "*" || character === "_" || character === "~" || character === "$") {
      this.isOdd[character] = !this.isOdd[character];
      if (before === character) this.isPairOpen[character] = !this.isPairOpen[character];
    }
  }

  private letter(character: string): void {
    this.tag += character;
    if (character === ">") {
      const tag = TAG.exec(this.tag);
      if (tag !== null) this.tags = Math.max(0, this.tags + (tag[1] === "" ? 1 : -1));
    }
    if (character === ">" || this.tag.length > LONGEST_TAG) this.tag = "";
  }

  private isEven(): boolean {
    if (this.codeRun > 0 || this.tags > 0 || this.brackets > 0 || this.formulas > 0) return false;
    return !Object.values(this.isOdd).includes(true) && !Object.values(this.isPairOpen).includes(true);
  }
}

function isHighSurrogate(character: string): boolean {
  const code = character.charCodeAt(0);
  return code >= 0xd800 && code < 0xdc00;
}
