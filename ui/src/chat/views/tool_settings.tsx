/** Which tools of the operator's MCP servers the model may call, and which run without asking. */

import type { McpServer, ServerTool } from "../../api/server";
import { serverInfo } from "../../api/server";
import { WarningIcon } from "../../parts/icons";
import { changeSettings, settings } from "../session";
import { isOn, switched } from "./settings_fields";

export function ToolSettings() {
  const servers = serverInfo.value?.mcp_servers ?? [];
  const always = settings.value.always ?? [];
  return (
    <section>
      <h3>Tools</h3>
      {servers.length === 0 ? (
        <p class="quiet">
          This server has no tools. Whoever runs it can add MCP servers with <code>--mcp</code>.
        </p>
      ) : (
        <ul class="tool-servers">
          {servers.map((server) => (
            <ServerRow key={server.label} server={server} />
          ))}
        </ul>
      )}
      {always.length > 0 && (
        <div class="always">
          <p>Run without asking in this chat:</p>
          <ul>
            {always.map((tool) => (
              <li key={tool}>
                <code>{tool}</code>{" "}
                <button type="button" class="small" aria-label={`Ask again for ${tool}`}
                  onClick={() => void changeSettings({ always: always.filter((each) => each !== tool) })}>
                  Ask again
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  );
}

function ServerRow({ server }: { server: McpServer }) {
  const off = settings.value.tools_off;
  const turn = (tool: string | null, on: boolean): void => void changeSettings({ tools_off: switched(off, server, tool, on) });
  return (
    <li>
      <label class="check">
        <input type="checkbox" checked={isOn(off, server.label, null)} disabled={server.error !== null}
          onChange={(event) => turn(null, event.currentTarget.checked)} />
        <strong>{server.label}</strong>
        <span class="quiet">{`${server.tools.length} ${server.tools.length === 1 ? "tool" : "tools"}`}</span>
      </label>
      {server.error !== null && (
        <p class="fault">
          <WarningIcon /> {`Not available: ${server.error}`}
        </p>
      )}
      <ul>
        {server.tools.map((tool) => (
          <ToolRow key={tool.name} tool={tool} isOn={isOn(off, server.label, tool.name)}
            isAlways={settings.value.always?.includes(`${server.label}.${tool.name}`) ?? false} onTurn={(on) => turn(tool.name, on)} />
        ))}
      </ul>
    </li>
  );
}

interface ToolProps {
  tool: ServerTool;
  isOn: boolean;
  isAlways: boolean;
  onTurn: (on: boolean) => void;
}

function ToolRow({ tool, isOn: on, isAlways, onTurn }: ToolProps) {
  const rule = tool.approval === "run" ? "runs without asking" : isAlways ? "always runs in this chat" : "asks first";
  return (
    <li>
      <label class="check">
        <input type="checkbox" checked={on} onChange={(event) => onTurn(event.currentTarget.checked)} />
        <code>{tool.name}</code>
        <span class="quiet">{rule}</span>
      </label>
      {tool.description && <p class="quiet tool-words">{tool.description}</p>}
    </li>
  );
}
