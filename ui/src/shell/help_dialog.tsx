/** The keys, and where to read more. */

import { useState } from "preact/hooks";
import { addressOf, apiKey, failureOf, needsKey, send, setKey, type Failure } from "../api/client";
import { serverInfo } from "../api/server";
import { Dialog } from "../parts/dialog";
import { download } from "../parts/saving";
import { Problem } from "./problem";
import type { OverlayProps } from "./overlay_view";
import { SHORTCUTS } from "./shortcuts";

export function HelpDialog({ onClose }: OverlayProps) {
  const info = serverInfo.value;
  const [failure, setFailure] = useState<Failure | null>(null);
  // A browser sends no key when it follows a link, so the server would refuse the request.
  const saveDocs = async () => {
    setFailure(null);
    try {
      download(await (await send("docs")).blob(), "harmonia-api.html");
    } catch (error) {
      setFailure(failureOf(error));
    }
  };
  const forget = () => {
    setKey(null);
    needsKey.value = true;
    onClose();
  };
  return (
    <Dialog title="Shortcuts and help" onClose={onClose}>
      <dl class="keys">
        {SHORTCUTS.map(({ keys, does }) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="quiet">On a Mac, Ctrl is also Command.</p>
      {info !== null && (
        <p class="quiet">
          {`Harmonia ${info.version}, engine ${info.engine ?? "none"}, reasoning ${info.analysis}. `}
          {apiKey.value === null && <a href={addressOf("docs")} target="_blank" rel="noopener">API reference</a>}
        </p>
      )}
      <Problem failure={failure} />
      {apiKey.value !== null && (
        <p class="buttons">
          <button type="button" onClick={() => void saveDocs()}>
            Save the API reference
          </button>
          <button type="button" onClick={forget}>
            Forget the API key
          </button>
        </p>
      )}
    </Dialog>
  );
}
