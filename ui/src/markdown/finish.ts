/**
 * What is done to blocks once they are finished: colours for code, type for formulas.
 *
 * Both parts are loaded when they are first needed, and the work waits until the page has nothing better to do. Where a
 * part cannot be loaded, the source stays: it can be read too.
 */

/** Code beyond this is shown without colours. */
const CODE_SIZE = 30_000;

const waiting: (() => Promise<void>)[] = [];
let isRunning = false;

/** Colour the code, which is the text of the node. */
export function finishCode(node: HTMLElement, code: string, language: string): void {
  if (language === "" || code.length > CODE_SIZE) return;
  later(async () => {
    const { highlighted } = await import("./highlight");
    const fragment = node.isConnected ? highlighted(code, language.toLowerCase()) : null;
    if (fragment !== null && fragment.textContent === code) node.replaceChildren(fragment);
  });
}

/** Set the formula, whose source is the text of the node. */
export function finishFormula(node: HTMLElement, tex: string, isDisplay: boolean): void {
  later(async () => {
    const { typeset } = await import("./typeset");
    if (!node.isConnected) return;
    if (!typeset(tex, node, isDisplay)) node.classList.add("math-source");
    else node.classList.add("math-set");
  });
}

function later(task: () => Promise<void>): void {
  waiting.push(task);
  if (!isRunning) void run();
}

async function run(): Promise<void> {
  isRunning = true;
  for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
    await new Promise((resolve) => setTimeout(resolve));
    try {
      await task();
    } catch {
      // The source stays.
    }
  }
  isRunning = false;
}
