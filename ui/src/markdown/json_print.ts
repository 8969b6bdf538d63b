/**
 * JSON set out over lines, while it arrives. Pure.
 *
 * It works on the text, so everything stays as it was written: numbers of any length, repeated names, the order. Only
 * spaces between values change, and characters that turn the direction of writing are shown by their escapes, which mean
 * the same and cannot pretend to be other text.
 */

const DEPTH = 200;
const TURNING = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;

type Expected = "value" | "value or end" | "name" | "name or end" | "colon" | "comma or end" | "nothing";

export class JsonPrinter {
  /** What was expected is not what came: the text is not JSON. */
  isWrong = false;
  private expected: Expected = "value";
  private open: ("{" | "[")[] = [];
  private isInString = false;
  private isEscaped = false;
  private word = "";

  /** What the text adds to what is shown. */
  feed(text: string): string {
    let shown = "";
    for (let at = 0; at < text.length && !this.isWrong; at++) {
      const character = text[at] ?? "";
      if (this.isInString) {
        const end = this.endInString(text, at);
        shown += text.slice(at, end).replace(TURNING, escapeOf);
        at = end - 1;
      } else shown += this.step(character);
    }
    return shown;
  }

  /** Whether the text so far is one whole value. */
  isWhole(): boolean {
    if (this.isWrong || this.isInString) return false;
    if (this.word !== "") return this.open.length === 0 && isValue(this.word);
    return this.expected === "nothing";
  }

  /** Where the part of the text ends that belongs to the open string. */
  private endInString(text: string, from: number): number {
    for (let at = from; at < text.length; at++) {
      if (this.isEscaped) this.isEscaped = false;
      else if (text[at] === "\\") this.isEscaped = true;
      else if (text[at] === '"') {
        this.isInString = false;
        this.expected = this.expected === "name" || this.expected === "name or end" ? "colon" : this.afterValue();
        return at + 1;
      } else if ((text[at] ?? "") < " ") {
        this.isWrong = true;
        return at;
      }
    }
    return text.length;
  }

  private step(character: string): string {
    const isName = this.expected === "name" || this.expected === "name or end";
    const isValueNext = this.expected === "value" || this.expected === "value or end";
    if (/[-+.\w]/.test(character)) {
      if (this.word === "" && !isValueNext) return this.fail();
      const start = this.word === "" ? this.lead() : "";
      this.word += character;
      if (this.word.length > 5 && !/^-?\d/.test(this.word)) return this.fail();
      return start + character;
    }
    if (this.word !== "") {
      if (!isValue(this.word)) return this.fail();
      this.word = "";
      this.expected = this.afterValue();
      return this.step(character);
    }
    if (character === " " || character === "\n" || character === "\t" || character === "\r") return "";
    if (character === '"' && (isName || isValueNext)) {
      const start = this.lead();
      this.isInString = true;
      return start + character;
    }
    if ((character === "{" || character === "[") && isValueNext && this.open.length < DEPTH) {
      const start = this.lead();
      this.open.push(character);
      this.expected = character === "{" ? "name or end" : "value or end";
      return start + character;
    }
    if (character === "}" || character === "]") return this.end(character);
    if (character === ":" && this.expected === "colon") {
      this.expected = "value";
      return ": ";
    }
    if (character === "," && this.expected === "comma or end") {
      this.expected = this.open.at(-1) === "{" ? "name" : "value";
      return ",";
    }
    return this.fail();
  }

  private end(character: string): string {
    const isEmpty = this.expected === "name or end" || this.expected === "value or end";
    if (!isEmpty && this.expected !== "comma or end") return this.fail();
    if (this.open.pop() !== (character === "}" ? "{" : "[")) return this.fail();
    this.expected = this.afterValue();
    return isEmpty ? character : this.newLine() + character;
  }

  /** What stands in front of a name or a value: a new line, unless it follows its name or stands alone. */
  private lead(): string {
    const isMember = this.open.at(-1) === "{" && this.expected === "value";
    return isMember || this.open.length === 0 ? "" : this.newLine();
  }

  private newLine(): string {
    return `\n${"  ".repeat(this.open.length)}`;
  }

  private afterValue(): Expected {
    return this.open.length === 0 ? "nothing" : "comma or end";
  }

  private fail(): string {
    this.isWrong = true;
    return "";
  }
}

/** The JSON over lines; null where the text is none. */
export function prettyJson(text: string): string | null {
  const printer = new JsonPrinter();
  const shown = printer.feed(text);
  return printer.isWhole() ? shown : null;
}

function isValue(word: string): boolean {
  return /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)$/.test(word);
}

function escapeOf(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
