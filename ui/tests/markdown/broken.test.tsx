import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, it, vi } from "vitest";
import { loadMarkdown, Markdown } from "../../src/markdown/markdown";
import { MarkdownView } from "../../src/markdown/markdown_view";

afterEach(() => {
  vi.restoreAllMocks();
});

it("a text that cannot be read as Markdown is shown as it is, and stays so", async () => {
  const told = vi.spyOn(console, "error").mockImplementation(() => undefined);
  vi.spyOn(MarkdownView.prototype, "show").mockImplementation(() => {
    throw new RangeError("too deep");
  });
  await loadMarkdown();
  const root = document.createElement("div");
  act(() => render(<Markdown text="**one" isLive />, root));
  expect(root.textContent).toBe("**one");
  act(() => render(<Markdown text="**one**" isLive={false} />, root));
  expect(root.textContent).toBe("**one**");
  expect(told).toHaveBeenCalledTimes(1);
});
