// What somebody does with OpenAI's SDK in JavaScript. Prints what came of it as one JSON object.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "none", maxRetries: 0 });
const model = "demo";
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const tool = { type: "function", name: "get_weather", description: "The weather of a city.", parameters, strict: true };
const chatTool = {
  type: "function",
  function: { name: "get_weather", description: "The weather of a city.", parameters, strict: true },
};
const question = { role: "user", content: "How is the weather in Paris?" };
const weather = "sunny in Paris, 20 degrees";
const Report = z.object({ city: z.string(), unit: z.enum(["celsius", "fahrenheit"]), degrees: z.int() });

async function useResponses() {
  const answer = (await client.responses.create({ model, input: "Hello!" })).output_text;

  const stream = client.responses.stream({ model, input: "Hello!" });
  let deltas = "";
  stream.on("response.output_text.delta", (event) => (deltas += event.delta));
  const streamed = (await stream.finalResponse()).output_text;

  const input = [question];
  const asked = await client.responses.create({
    model,
    input,
    tools: [tool],
    store: false,
    include: ["reasoning.encrypted_content"],
  });
  const call = asked.output.find((item) => item.type === "function_call");
  input.push(...asked.output, { type: "function_call_output", call_id: call.call_id, output: weather });
  const withTool = (await client.responses.create({ model, input, tools: [tool], store: false })).output_text;

  const format = zodTextFormat(Report, "report");
  const report = (await client.responses.parse({ model, input: "Report on Paris", text: { format } })).output_parsed;

  const made = await client.responses.create({ model, input: [{ role: "user", content: "a" }, question] });
  const items = [];
  for await (const item of client.responses.inputItems.list(made.id, { limit: 1, order: "asc" })) items.push(item.type);
  const same = (await client.responses.retrieve(made.id)).output_text === made.output_text;
  await client.responses.delete(made.id);
  const gone = await client.responses.retrieve(made.id).catch((error) => [error.constructor.name, error.status]);

  const wrong = await client.responses
    .create({ model, input: "Hello!", temperature: 9 })
    .catch((error) => [error.constructor.name, error.status, error.param]);
  return { answer, deltas, streamed, call: [call.name, call.arguments], withTool, report, items, same, gone, wrong };
}

async function useChat() {
  const hello = [{ role: "user", content: "Hello!" }];
  const answer = (await client.chat.completions.create({ model, messages: hello, seed: 7 })).choices[0].message.content;
  const stream = client.chat.completions.stream({ model, messages: hello, seed: 7 });
  let deltas = "";
  stream.on("content", (delta) => (deltas += delta));
  const streamed = await stream.finalContent();

  const run = client.chat.completions.runTools({
    model,
    messages: [question],
    tools: [
      {
        type: "function",
        function: { ...chatTool.function, parse: JSON.parse, function: ({ city }) => `sunny in ${city}, 20 degrees` },
      },
    ],
  });
  const withTool = await run.finalContent();
  const called = await run.finalFunctionToolCall();

  const parsed = await client.chat.completions.parse({
    model,
    messages: [{ role: "user", content: "Report on Paris" }],
    response_format: zodResponseFormat(Report, "report"),
  });
  const report = parsed.choices[0].message.parsed;
  return { answer, deltas, streamed, call: [called.name, called.arguments], withTool, report };
}

const models = [];
for await (const each of client.models.list()) models.push(each.id);
console.log(JSON.stringify({ responses: await useResponses(), chat: await useChat(), models }));
