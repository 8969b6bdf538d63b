import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Turn } from "../../src/api/chats";
import { serverInfo } from "../../src/api/server";
import type { Item } from "../../src/api/wire";
import { LiveAnswer } from "../../src/chat/answer";
import { leaf, running, settings, tree } from "../../src/chat/session";
import { EMPTY, treeOf } from "../../src/chat/tree";
import { editablePlaces } from "../../src/chat/views/edited";
import { TurnList } from "../../src/chat/views/turn_list";

const PAYLOAD = '<img src=x onerror="alert(1)"><script>alert(2)</script>';

const turn = (id: string, parent: string | null, role: Turn["role"], items: Item[], more: Partial<Turn> = {}): Turn => ({
  id, parent, role, items, status: "completed", created_at: 1, details: {}, ...more,
});
const said = (text: string): Item => ({ type: "message", role: "user", content: text });
const answered = (text: string): Item => ({ type: "message", role: "assistant", phase: "final_answer", content: [{ type: "output_text", text }] });

let root: HTMLElement;
const show = (...turns: Turn[]): void => {
  tree.value = treeOf(turns);
  leaf.value = turns.at(-1)?.id ?? null;
  act(() => render(<TurnList wanted={null} />, root));
};
const open = (accordion: HTMLDetailsElement): void =>
  void act(() => {
    accordion.open = true;
    accordion.dispatchEvent(new Event("toggle")); // a browser tells it a moment later
  });
const words = (): string => root.textContent ?? "";

beforeEach(() => {
  root = document.body.appendChild(document.createElement("div"));
});
afterEach(() => {
  act(() => render(null, root));
  root.remove();
  tree.value = EMPTY;
  leaf.value = null;
  running.value = null;
  settings.value = {};
  serverInfo.value = null;
});

describe("turns", () => {
  it("shows what was typed as it was typed", () => {
    show(turn("a", null, "user", [said(`line one\n  line two ${PAYLOAD}`)]));
    expect(root.querySelector(".typed")?.textContent).toBe(`line one\n  line two ${PAYLOAD}`);
  });

  it("makes nothing of what strangers write in names, arguments, results, warnings and errors", () => {
    const call: Item = { type: "mcp_call", name: PAYLOAD, server_label: PAYLOAD, arguments: `{"a": "${PAYLOAD.replaceAll('"', "'")}"}`, output: PAYLOAD, status: "completed" };
    const strange = { type: PAYLOAD } as unknown as Item;
    const details = { warnings: [PAYLOAD], model: PAYLOAD, error: { kind: "server", message: PAYLOAD, code: PAYLOAD } };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [call, strange], { status: "failed", details }));
    root.querySelectorAll("details").forEach(open);
    expect(root.querySelectorAll("img, script, iframe")).toHaveLength(0);
    expect(words().split("onerror").length).toBeGreaterThan(6);
  });

  it("shows nothing of a list of a server's tools", () => {
    const listed: Item = { type: "mcp_list_tools", server_label: "files", tools: [{ name: "read", description: "Reads a file." }] };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [listed, answered("yes")]));
    expect(words()).toContain("yes");
    expect(words()).not.toMatch(/Another item|mcp_list_tools|Reads a file/);
    expect(root.querySelector("details")).toBeNull();
  });

  it("has nothing inside of a closed accordion", () => {
    const reasoning: Item = { type: "reasoning", content: [{ type: "reasoning_text", text: "secret thought" }] };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [reasoning, answered("yes")], { details: { item_s: { "0": 3.2 } } }));
    expect(words()).toContain("Thought for 3.2 s");
    expect(words()).not.toContain("secret thought");
    const accordion = root.querySelector<HTMLDetailsElement>("details.of-analysis");
    if (accordion === null) throw new Error("no accordion");
    open(accordion);
    expect(words()).toContain("secret thought");
  });

  it("says that hidden reasoning is hidden, in a line that does not open", () => {
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [{ type: "reasoning", encrypted_content: "sealed" }, answered("yes")]));
    expect(words()).toContain("this server does not show reasoning");
    expect(root.querySelector("details.of-analysis")).toBeNull();
  });

  it("asks about a call at the end of the branch, and not about one that was left behind", () => {
    const request: Item = { type: "mcp_approval_request", id: "r1", name: "read", server_label: "files", arguments: "{}" };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [request]));
    expect([...root.querySelectorAll(".approval button")].map((button) => button.textContent)).toEqual([
      "Run once", "Always run in this chat", "Edit the arguments", "Answer by hand", "Refuse",
    ]);
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [request]), turn("c", "b", "user", [said("never mind")]));
    expect(root.querySelector(".approval")).toBeNull();
  });

  it("lets a person only answer a function of their own", () => {
    const call: Item = { type: "function_call", call_id: "c1", name: "f", arguments: "{}", status: "completed" };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [call]));
    expect([...root.querySelectorAll(".approval button")].map((button) => button.textContent)).toEqual(["Send the answer"]);
  });

  it("tells in words how an answer ended", () => {
    const ends: [Partial<Turn>, string][] = [
      [{ status: "cancelled" }, "Stopped"],
      [{ status: "incomplete", details: { incomplete: "max_output_tokens" } }, "token limit"],
      [{ status: "failed", details: { error: { kind: "engine", message: "it broke", code: "engine_died" } } }, "Failed: "],
    ];
    for (const [more, expected] of ends) {
      show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [answered("partly")], more));
      expect(words()).toContain(expected);
    }
  });
});

describe("an answer that was damaged", () => {
  it("says so in a line, with the codes", () => {
    const details = { sampled: [{ faults: ["stream.text_outside", PAYLOAD], first_item: 0, items: 1 }] };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [answered("x")], { details }));
    expect(root.querySelector(".is-damage")?.textContent).toContain("damaged in 2 places and was mended: stream.text_outside, ");
    expect(root.querySelectorAll("img, script")).toHaveLength(0);
  });

  it("shows a call that was not made, with why, and keeps it out of what can be rewritten", () => {
    const call = { name: `functions.${PAYLOAD}`, arguments: '{"city": "Par', error: '{"error": "there is no such tool", "code": "tool.unknown"}' };
    const item: Item = { type: "reasoning", content: [{ type: "reasoning_text", text: "A call" }], harmonia_call: call };
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [item, answered("x")]));
    root.querySelectorAll<HTMLDetailsElement>("details.of-tool").forEach(open);
    expect(words()).toContain("A call that was not made: functions.");
    expect(words()).toContain("there is no such tool");
    expect(words()).toContain('{"city": "Par');
    expect(root.querySelectorAll("img, script")).toHaveLength(0);
    expect(editablePlaces([item]).length).toBe(0);
  });

  it("tells text that was held back from a thought", () => {
    const held = (channel: string | null): Item => ({ type: "reasoning", content: [{ type: "reasoning_text", text: "t" }], harmonia_channel: channel });
    show(turn("a", null, "user", [said("q")]), turn("b", "a", "assistant", [held(null), held("notes")]));
    expect(words()).toContain("Text on no channel, held back");
    expect(words()).toContain("Text on the channel notes, held back");
    expect(words()).not.toContain("Thought");
  });
});

describe("an answer that is streamed", () => {
  it("changes nothing in the other turns, and does nothing in a closed accordion", () => {
    const begun = turn("d", "c", "assistant", [], { status: "in_progress" });
    const draws: (() => void)[] = [];
    const live = new LiveAnswer(begun, { clock: () => 0, frames: (draw) => void draws.push(draw) });
    const draw = (): void => void act(() => draws.splice(0).forEach((each) => each()));
    running.value = live;
    show(turn("a", null, "user", [said("one")]), turn("b", "a", "assistant", [answered("two")]), turn("c", "b", "user", [said("three")]), begun);
    live.feed({ type: "response.output_item.added", output_index: 0, item: { type: "reasoning", status: "in_progress" } });
    live.feed({ type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "x" });
    draw();
    const changes: MutationRecord[] = [];
    const watcher = new MutationObserver(() => undefined);
    watcher.observe(root, { childList: true, characterData: true, attributes: true, subtree: true });
    for (let at = 0; at < 100; at += 1) {
      live.feed({ type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "and more " });
      draw();
      changes.push(...watcher.takeRecords());
    }
    const own = root.querySelector("#d");
    expect(changes.every((change) => own?.contains(change.target))).toBe(true);
    // The count of tokens, and nothing that grows.
    expect(changes.length).toBeLessThanOrEqual(300);
    watcher.disconnect();
  });
});
