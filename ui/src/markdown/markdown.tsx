/**
 * What the model wrote, as rich text. It streams without flicker, and it can do nothing: no script, no request.
 *
 * The parts that read Markdown are loaded when the user first does something, or when the first text is shown, whichever
 * is earlier; until they are there the text is plain. Reference links, footnotes and HTML are not read: they are shown
 * as they were written.
 */

import "../style/markdown.css";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Annotation } from "../api/wire";
import type { MarkdownView } from "./markdown_view";

export { markdownWork } from "./work";

interface Props {
  text: string;
  /** Whether more text may follow. Until then it is only ever appended to. */
  isLive: boolean;
  annotations?: readonly Annotation[] | undefined;
  /** Whether links can be followed (they can); otherwise they are text with their address. */
  openLinks?: boolean | undefined;
}

let View: typeof MarkdownView | null = null;
let loading: Promise<void> | null = null;

// By itself: what stands right after `import()` does not hear of everything that fails to load.
const loadView = () => import("./markdown_view");

/** Load what reads Markdown. Where that fails, text stays plain, and the next text tries again. */
export function loadMarkdown(): Promise<void> {
  loading ??= loadView().then(
    (module) => void (View = module.MarkdownView),
    () => void (loading = null),
  );
  return loading;
}

for (const kind of ["keydown", "pointerdown"]) {
  addEventListener(kind, () => void loadMarkdown(), { once: true, capture: true, passive: true });
}

export function Markdown(props: Props) {
  const node = useRef<HTMLDivElement>(null);
  const view = useRef<MarkdownView | null>(null);
  const wanted = useRef(props);
  const frame = useRef(0);
  const isBroken = useRef(false);
  wanted.current = props;

  useLayoutEffect(() => {
    const show = () => {
      frame.current = 0;
      if (node.current === null) return;
      if (View === null || isBroken.current) {
        showPlain(node.current, wanted.current.text);
        return;
      }
      try {
        if (view.current === null) node.current.replaceChildren();
        view.current ??= new View(node.current);
        view.current.show(wanted.current);
      } catch (error) {
        // A text that we cannot read must not take the page with it.
        console.error("A text could not be shown as Markdown.", error);
        isBroken.current = true;
        node.current.replaceChildren();
        showPlain(node.current, wanted.current.text);
      }
    };
    if (View === null) void loadMarkdown().then(() => View && show());
    // At most one update for each frame, except for the first and the last, which are not to wait for one.
    if (props.isLive && view.current !== null) {
      if (frame.current === 0) frame.current = requestAnimationFrame(show);
      return;
    }
    cancelAnimationFrame(frame.current);
    show();
  }, [props.text, props.isLive, props.annotations, props.openLinks]);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);

  return <div class="markdown" ref={node} />;
}

function showPlain(node: HTMLElement, text: string): void {
  let plain = node.firstElementChild;
  if (plain === null) {
    plain = document.createElement("p");
    plain.className = "unread";
    node.append(plain);
  }
  plain.textContent = text;
}
