// One question after the other with one or two tools, through OpenAI's Agents SDK: over either API, whole and streamed.
// Reads the cases from the file that is named, and prints for each run which tools were called, and with what.
import { readFile } from "node:fs/promises";
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";

const { tools, cases } = JSON.parse(await readFile(process.argv[2], "utf8"));

function describe(name, called) {
  const { description, properties } = tools[name];
  return tool({
    name,
    description,
    strict: true,
    parameters: { type: "object", properties, required: Object.keys(properties), additionalProperties: false },
    execute: async (given) => {
      called.push([name, given]);
      return "done";
    },
  });
}

const ran = [];
for (const useResponses of [true, false]) {
  const modelProvider = new OpenAIProvider({ baseURL: process.env.BASE_URL, apiKey: "none", useResponses });
  const runner = new Runner({ modelProvider, model: "gpt-oss-20b", tracingDisabled: true });
  for (const stream of [false, true]) {
    for (const { question, tools: offered } of cases) {
      const calls = [];
      const agent = new Agent({
        name: "Helper",
        instructions: "Use a tool.",
        tools: offered.map((name) => describe(name, calls)),
        toolUseBehavior: "stop_on_first_tool",
      });
      const result = await runner.run(agent, question, { stream });
      if (stream) {
        for await (const event of result) void event;
        await result.completed;
      }
      const reasoned = result.newItems.some((item) => item.type === "reasoning_item");
      ran.push({ useResponses, stream, question, calls, reasoned, answer: result.finalOutput });
    }
  }
}
console.log(JSON.stringify(ran));
