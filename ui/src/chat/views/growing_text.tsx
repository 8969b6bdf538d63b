/** A text box that is as high as what is in it, up to what the style allows. */

import type { Ref, TextareaHTMLAttributes } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Props extends Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "onInput" | "value" | "ref"> {
  value: string;
  onInput: (value: string) => void;
  boxRef?: Ref<HTMLTextAreaElement>;
}

export function GrowingText({ value, onInput, boxRef, ...rest }: Props) {
  const own = useRef<HTMLTextAreaElement | null>(null);
  useLayoutEffect(() => {
    const box = own.current;
    // Where the browser does it by itself (field-sizing), measuring is for nothing.
    if (box === null || CSS.supports("field-sizing", "content")) return;
    box.style.height = "auto";
    box.style.height = `${box.scrollHeight + 2}px`;
  }, [value]);
  const keep = (box: HTMLTextAreaElement | null): void => {
    own.current = box;
    if (typeof boxRef === "function") boxRef(box);
    else if (boxRef) boxRef.current = box;
  };
  return (
    <textarea rows={1} {...rest} class={`growing ${rest.class ?? ""}`} ref={keep} value={value}
      onInput={(event) => onInput(event.currentTarget.value)} />
  );
}
