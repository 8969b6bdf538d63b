import { afterEach, describe, expect, it } from "vitest";
import { go } from "../../src/route";
import { isListOpen, overlay } from "../../src/shell/overlays";
import { pageTitle } from "../../src/shell/page_title";
import { listenForShortcuts } from "../../src/shell/shortcuts";

const leave = listenForShortcuts();
const press = (key: string, more: KeyboardEventInit = {}): void => void dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, ...more }));

afterEach(() => {
  overlay.value = null;
  isListOpen.value = false;
});

describe("keys", () => {
  it("open the search and the help", () => {
    press("k", { ctrlKey: true });
    expect(overlay.value).toEqual({ name: "search" });
    press("?");
    expect(overlay.value).toEqual({ name: "help" });
  });

  it("of an input method are its own", () => {
    press("?", { isComposing: true });
    press("?", { keyCode: 229 });
    expect(overlay.value).toBeNull();
  });

  it("close the list of chats where it covers the page", () => {
    isListOpen.value = true;
    press("Escape");
    expect(isListOpen.value).toBe(false);
  });

  it("are left alone when the page is", () => {
    leave();
    press("?");
    expect(overlay.value).toBeNull();
  });
});

it("the list of chats closes when another view is gone to", () => {
  isListOpen.value = true;
  go({ view: "inspect", chat: null, turn: null });
  expect(isListOpen.value).toBe(false);
});

it("the page's title is what is open", () => {
  expect(pageTitle("chat", null)).toBe("Harmonia");
  expect(pageTitle("chat", "Rain in Paris")).toBe("Rain in Paris · Harmonia");
  expect(pageTitle("inspect", "Rain in Paris")).toBe("Inspector · Harmonia");
});
