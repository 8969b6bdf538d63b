// What somebody does with OpenAI's Agents SDK in JavaScript, over either API. Prints what came of it as one JSON object.
import { Agent, OpenAIProvider, Runner, tool, user } from "@openai/agents";
import { z } from "zod";

const calls = [];
const get_weather = tool({
  name: "get_weather",
  description: "The weather of a city.",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    calls.push(city);
    return `sunny in ${city}, 20 degrees`;
  },
});
const Report = z.object({ city: z.string(), unit: z.enum(["celsius", "fahrenheit"]), degrees: z.int() });

async function use(useResponses) {
  const modelProvider = new OpenAIProvider({ baseURL: process.env.BASE_URL, apiKey: "none", useResponses });
  const runner = new Runner({ modelProvider, model: "demo", tracingDisabled: true });
  const weather = new Agent({ name: "Weather", instructions: "You know the weather.", tools: [get_weather] });

  const first = await runner.run(weather, "How is the weather in Paris?");
  const second = await runner.run(weather, [...first.history, user("How is the weather in Rome?")]);

  const stream = await runner.run(weather, "How is the weather in Oslo?", { stream: true });
  let deltas = "";
  const items = [];
  for await (const event of stream) {
    if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") deltas += event.data.delta;
    if (event.type === "run_item_stream_event") items.push(event.name);
  }
  await stream.completed;

  const triage = Agent.create({ name: "Triage", instructions: "You hand over.", handoffs: [weather] });
  const handed = await runner.run(triage, "Please use transfer_to_Weather");

  const reporter = new Agent({ name: "Reporter", outputType: Report });
  const report = (await runner.run(reporter, "Report on Paris")).finalOutput;
  return {
    answer: first.finalOutput,
    next: second.finalOutput,
    streamed: stream.finalOutput,
    deltas,
    items,
    handedTo: handed.lastAgent.name,
    report,
  };
}

const said = { responses: await use(true), chat: await use(false) };
console.log(JSON.stringify({ ...said, calls }));
