// What somebody does with the AI SDK, over either API. Prints what came of it as one JSON object.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;
const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: "none" });
const get_weather = tool({
  description: "The weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}, 20 degrees`,
});
const schema = z.object({ city: z.string(), unit: z.enum(["celsius", "fahrenheit"]), degrees: z.int() });

async function use(model, providerOptions) {
  const common = { model, maxRetries: 0, providerOptions };
  const answer = (await generateText({ ...common, prompt: "Hello!" })).text;

  const stream = streamText({ ...common, prompt: "Hello!", onError: ({ error }) => console.error(error) });
  let streamed = "";
  let deltas = 0;
  for await (const delta of stream.textStream) {
    streamed += delta;
    deltas += 1;
  }

  // The SDK runs the tool, sends its result back, and asks again.
  const withTools = { ...common, tools: { get_weather }, stopWhen: stepCountIs(4) };
  const looped = await generateText({ ...withTools, prompt: "How is the weather in Paris?" });
  const calls = looped.steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input]));
  const streamedLoop = streamText({ ...withTools, prompt: "How is the weather in Oslo?" });
  const streamedTool = await streamedLoop.text;

  const report = (await generateObject({ ...common, schema, prompt: "Report on Paris" })).object;
  const usage = looped.totalUsage.totalTokens > 0;
  return { answer, streamed, deltas, calls, withTool: looped.text, streamedTool, report, usage };
}

const stateless = { openai: { store: false, include: ["reasoning.encrypted_content"] } };
console.log(
  JSON.stringify({
    responses: await use(openai.responses("demo")),
    stateless: await use(openai.responses("demo"), stateless),
    chat: await use(openai.chat("demo")),
  }),
);
