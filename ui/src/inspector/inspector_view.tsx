/**
 * The inspector: a trace is given at the top, and read in the tabs below.
 *
 * Keys, where no field has the focus: `n` and `p` go to the next and the previous problem, `/` to the search.
 */

import "../style/inspector.css";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Lazy } from "../parts/lazy";
import { route } from "../route";
import { failure, inspectTurn, inspection, isBusy, isInputOpen, stepProblem, tab } from "./state";
import { TABS, type Tab } from "./tabs";
import { FailureNote } from "./views/failure_note";
import { SEARCH_ID } from "./views/filter_bar";
import { InputForm } from "./views/input_form";
import { InputLine } from "./views/input_line";
import { Welcome } from "./views/welcome";

export function InspectorView() {
  const { chat, turn } = route.value;
  useEffect(() => {
    // Also where it is what was shown last: the turn may have gone on since.
    if (chat !== null && turn !== null) void inspectTurn(chat, turn);
  }, [chat, turn]);
  useLayoutEffect(() => {
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
  const isLoadingTurn = isBusy.value && inspection.value === null && turn !== null;
  return (
    <div class="inspector">
      <h1>Inspector</h1>
      {isLoadingTurn ? <p role="status">Reading the turn …</p> : isInputOpen.value || inspection.value === null ? <InputForm /> : <InputLine />}
      {failure.value !== null && <FailureNote />}
      {!isLoadingTurn && <Tabs />}
    </div>
  );
}

function Tabs() {
  const list = useRef<HTMLDivElement>(null);
  const isEmpty = inspection.value === null;
  const tabs = TABS.filter((one) => one.alone !== undefined || !isEmpty);
  const open = tabs.find((one) => one.id === tab.value) ?? (isEmpty ? undefined : tabs[0]);
  if (open === undefined) return <Welcome />;
  // As the pattern of tabs has it: one stop for the Tab key, and the arrows go from tab to tab.
  const onKeyDown = (event: KeyboardEvent): void => {
    // Where the signal is, not what was drawn last: a second key may come before the first one's tab is drawn.
    const at = Math.max(0, tabs.findIndex((one) => one.id === tab.peek()));
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    const next = to === undefined ? undefined : tabs[(to + tabs.length) % tabs.length];
    if (next === undefined) return;
    event.preventDefault();
    tab.value = next.id;
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Views of the trace" ref={list} onKeyDown={onKeyDown}>
        {tabs.map((one) => (
          <TabButton key={one.id} tab={one} isOpen={one === open} />
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id="tab-panel" aria-labelledby={`tab-${open.id}`}>
        <Lazy key={open.id} load={open.load} name={`the view “${open.label}”`} />
      </div>
    </>
  );
}

const TabButton = ({ tab: one, isOpen }: { tab: Tab; isOpen: boolean }) => (
  <button
    class="tab"
    role="tab"
    id={`tab-${one.id}`}
    aria-selected={isOpen}
    aria-controls={isOpen ? "tab-panel" : undefined}
    tabIndex={isOpen ? 0 : -1}
    onClick={() => (tab.value = one.id)}
  >
    {one.label}
  </button>
);

function onKeyDown(event: KeyboardEvent): void {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (target instanceof Element && target.closest("input, textarea, select, dialog, [contenteditable]") !== null) return;
  if (inspection.value === null) return;
  if (event.key === "n" || event.key === "p") {
    if (tab.value !== "tokens") tab.value = "messages";
    stepProblem(event.key === "n" ? 1 : -1);
  } else if (event.key === "/") {
    const box = document.getElementById(SEARCH_ID);
    if (box === null) return;
    event.preventDefault();
    box.focus();
  }
}
