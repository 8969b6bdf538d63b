/** The keys, and where to read more. */

import { addressOf, apiKey, needsKey, setKey } from "../api/client";
import { serverInfo } from "../api/server";
import { Dialog } from "../parts/dialog";
import type { OverlayProps } from "./overlay_view";
import { SHORTCUTS } from "./shortcuts";

export function HelpDialog({ onClose }: OverlayProps) {
  const info = serverInfo.value;
  const forget = () => {
    setKey(null);
    needsKey.value = true;
    onClose();
  };
  return (
    <Dialog title="Keys and help" onClose={onClose}>
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
          <a href={addressOf("docs")}>The API</a>
        </p>
      )}
      {apiKey.value !== null && (
        <p class="buttons">
          <button type="button" onClick={forget}>
            Forget the API key
          </button>
        </p>
      )}
    </Dialog>
  );
}
