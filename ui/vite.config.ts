import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Keep the older spellings of KaTeX's fonts out of the bundle: every browser that can show the page reads woff2. */
const woff2Only: Plugin = {
  name: "woff2-only",
  enforce: "pre",
  transform(css, id) {
    if (!/katex[^/]*\.css/.test(id)) return null;
    return { code: css.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\("[a-z]+"\)/g, ""), map: null };
  },
};

/** A test that replaces a module needs modules of its own. */
const MOCKING = "tests/markdown/markdown_view.test.ts";

export default defineConfig({
  // Relative, so that the page also works behind a proxy that serves it under a path.
  base: "./",
  plugins: [woff2Only],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/harmonia/serve/page",
    emptyOutDir: true,
    assetsDir: "page",
    target: "es2022",
    // Fonts and icons stay files: the page's policy has no `data:`.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8765" } },
  test: {
    environment: "happy-dom",
    projects: [
      // One document for all files of a worker, not one for each: a quarter of the time.
      { extends: true, test: { name: "page", include: ["tests/**/*.test.{ts,tsx}"], exclude: [MOCKING], isolate: false } },
      { extends: true, test: { name: "mocks a module", include: [MOCKING] } },
    ],
  },
});
