/** Small traces to begin with. Each is broken in a way that models break them. */

import type { InspectInput } from "../api/inspect";

export interface Example {
  name: string;
  about: string;
  input: InspectInput;
}

const QUESTION = "<|start|>user<|message|>Will it rain in Zürich today? 🦜<|end|>";

export const EXAMPLES: Example[] = [
  {
    name: "Whole conversation with a call",
    about: "Reasoning, a preamble, a tool and an answer",
    input: {
      text:
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n\nReasoning: low\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>" +
        QUESTION +
        "<|start|>assistant<|channel|>analysis<|message|>The forecast is a tool's work.<|end|>" +
        "<|start|>assistant<|channel|>commentary<|message|>Let me look at the forecast.<|end|>" +
        '<|start|>assistant<|channel|>commentary to=functions.forecast <|constrain|>json<|message|>{"city": "Zürich"}<|call|>' +
        '<|start|>functions.forecast to=assistant<|channel|>commentary<|message|>{"rain_mm": 4}<|end|>' +
        "<|start|>assistant<|channel|>final<|message|>Yes: take an umbrella.<|return|>",
    },
  },
  {
    name: "Recipient twice, and stray text",
    about: "A header that contradicts itself",
    input: {
      text:
        QUESTION +
        '<|start|>assistant to=functions.forecast<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Zürich"}<|call|>commentary' +
        "<|start|>assistant<|channel|>final<|message|>Yes.<|end|><|return|>",
      tools: ["functions.forecast", "functions.weather"],
    },
  },
  {
    name: "Completion without its message token",
    about: "Reasoning stranded in a header",
    input: {
      text: "<|channel|>analysis The user asks about rain. I know nothing of today.<|end|><|start|><|start|>assistant<|channel|>finalx<|message|>I cannot tell.",
      role: "assistant",
    },
  },
  {
    name: "Special tokens stripped by a server",
    about: "Channels found again in plain text",
    input: {
      text: "analysisThe user greets. I greet back.assistantfinalHello! What can I do for you?",
      role: "assistant",
    },
  },
  {
    name: "Token ids with a character split in three",
    about: "Bytes of an emoji in several tokens",
    input: { tokens: [200006, 1428, 200008, 12194, 9552, 99, 250, 1354, 200007, 200006, 173781, 200005, 17196, 200008, 13225, 200002] },
  },
];
