/** A chat before its first message: who answers, and what could be asked. */

import { serverInfo } from "../../api/server";
import { draft, sendMessage } from "../session";

const EXAMPLES = [
  "Explain how reasoning differs from the final answer, in two sentences.",
  "Write a table of three fruits with their colours.",
  "Write a function that reverses a list, in Python.",
];
// It repeats what was said, so that Markdown comes back as Markdown; and it misbehaves on demand.
const DEMO_EXAMPLES = ["Hello! What are you?", "Say **bold**, `code` and $e^{i\\pi} = -1$.", "/demo", "/demo cut-off"];

const ENGINES = [
  ["llama.cpp", "llama.cpp:http://localhost:8080"],
  ["Ollama", "ollama:http://localhost:11434"],
  ["vLLM", "vllm:http://localhost:8000"],
] as const;

export function EmptyState() {
  const info = serverInfo.value;
  const isDemo = info?.engine?.startsWith("demo") ?? false;
  const tools = info?.mcp_servers.flatMap((server) => server.tools.map((tool) => `${server.label}___${tool.name}`)) ?? [];
  const examples = isDemo ? [...DEMO_EXAMPLES, ...tools.slice(0, 1).map((tool) => `Use ${tool}.`)] : EXAMPLES;
  const ask = (text: string): void => {
    draft.value = text;
    void sendMessage(text);
  };
  return (
    <div class="empty-chat">
      <h2>What would you like to ask?</h2>
      {info !== null && (
        <p class="quiet">
          {info.models[0] === undefined ? "No model has answered yet" : <>Answered by <strong>{info.models[0]}</strong></>}
          {info.engine !== null && <> through the engine <strong>{info.engine}</strong></>}
          {info.context_tokens !== null && `, with a context of ${info.context_tokens.toLocaleString("en")} tokens`}
          {tools.length > 0 && `, and ${tools.length} ${tools.length === 1 ? "tool" : "tools"}`}.
        </p>
      )}
      <ul class="examples">
        {examples.map((text) => (
          <li key={text}>
            <button type="button" onClick={() => ask(text)}>{text}</button>
          </li>
        ))}
      </ul>
      {isDemo && (
        <div class="quiet engines">
          <p>This is the demo engine: it follows a script. For a real model, start the server with one of these:</p>
          <ul>
            {ENGINES.map(([name, engine]) => (
              <li key={name}>
                {`${name}: `}
                <code>{`harmonia serve --engine ${engine}`}</code>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
