import { afterEach, expect, it, vi } from "vitest";
import { apiKey, needsKey, setKey } from "../../src/api/client";

afterEach(() => {
  vi.unstubAllGlobals();
  setKey(null);
});

it("keeps the key in the tab, or in the browser, and in one of them only", () => {
  setKey("one");
  expect([sessionStorage.getItem("harmonia.key"), localStorage.getItem("harmonia.key")]).toEqual(["one", null]);
  setKey("two", true);
  expect([sessionStorage.getItem("harmonia.key"), localStorage.getItem("harmonia.key")]).toEqual([null, "two"]);
});

it("uses the key where storage is switched off", () => {
  vi.stubGlobal("sessionStorage", null);
  needsKey.value = true;
  setKey("three");
  expect([apiKey.value, needsKey.value]).toEqual(["three", false]);
});
