/** The settings, which are loaded when somebody opens them. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

interface Props {
  onClose: () => void;
}

// By itself, because the build takes what stands right after `import()` into the loading, where it does not hear of
// styles that did not come.
const loadDialog = () => import("./settings_dialog");

export function LazySettings({ onClose }: Props) {
  const [Dialog, setDialog] = useState<ComponentType<Props> | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    loadDialog().then(
      (module) => setDialog(() => module.SettingsDialog),
      () => setFailed(true),
    );
  }, []);
  if (failed) {
    return (
      <p class="trouble" role="alert">
        The server did not send the settings. Reload the page when the server is back.{" "}
        <button type="button" class="small" onClick={onClose}>Close</button>
      </p>
    );
  }
  return Dialog === null ? null : <Dialog onClose={onClose} />;
}
