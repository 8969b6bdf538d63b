/** JSON over lines, as it was written; text that is not JSON is shown as it is. While it arrives it is only appended to. */

import "../style/markdown.css";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { JsonPrinter, prettyJson } from "./json_print";

interface Props {
  text: string;
  /** Whether more text may follow. Until then it is only ever appended to. */
  isLive: boolean;
  /** What it is, for those who cannot see where it stands. */
  label?: string | undefined;
}

export function JsonText({ text, isLive, label = "JSON" }: Props) {
  const node = useRef<HTMLElement>(null);
  const view = useRef<JsonView | null>(null);
  const wanted = useRef({ text, isLive });
  const frame = useRef(0);
  wanted.current = { text, isLive };

  useLayoutEffect(() => {
    const show = () => {
      frame.current = 0;
      if (node.current === null) return;
      view.current ??= new JsonView(node.current);
      view.current.show(wanted.current.text, wanted.current.isLive);
    };
    if (isLive && view.current !== null) {
      if (frame.current === 0) frame.current = requestAnimationFrame(show);
      return;
    }
    cancelAnimationFrame(frame.current);
    show();
  }, [text, isLive]);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);

  return (
    <pre class="json-text" tabIndex={0} role="group" aria-label={label} dir="ltr">
      <code ref={node} />
    </pre>
  );
}

class JsonView {
  /** None where what is shown was not fed to one. */
  private printer: JsonPrinter | null = null;
  private readonly text = document.createTextNode("");
  private fed = "";

  constructor(node: HTMLElement) {
    node.append(this.text);
  }

  show(text: string, isLive: boolean): void {
    if (!isLive) {
      const shown = prettyJson(text) ?? text;
      if (this.text.data !== shown) this.text.data = shown;
      this.printer = null;
      return;
    }
    if (this.printer === null || !this.isMore(text)) {
      this.printer = new JsonPrinter();
      this.text.data = "";
      this.fed = "";
    }
    const wasWrong = this.printer.isWrong;
    const more = text.slice(this.fed.length);
    this.fed = text;
    const shown = wasWrong ? more : this.printer.feed(more);
    if (this.printer.isWrong && !wasWrong) this.text.data = text;
    else this.text.appendData(shown);
  }

  private isMore(text: string): boolean {
    const { length } = this.fed;
    return text.length >= length && text.startsWith(this.fed.slice(-64), Math.max(0, length - 64));
  }
}
