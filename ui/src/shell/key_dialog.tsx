/** Asks for the API key where the server wants one. Nothing that was typed is lost meanwhile. */

import { useSignal } from "@preact/signals";
import { apiKey, needsKey, setKey } from "../api/client";
import { loadServerInfo } from "../api/server";
import { Dialog } from "../parts/dialog";

export function KeyDialog() {
  const key = useSignal("");
  const remember = useSignal(false);
  if (!needsKey.value) return null;
  const wasRefused = apiKey.value !== null;
  const onSubmit = (event: Event) => {
    event.preventDefault();
    setKey(key.value.trim(), remember.value);
    void loadServerInfo().catch(() => undefined); // a refused key opens this dialog again, even if it is the same key
  };
  return (
    <Dialog title="API key" onClose={() => (needsKey.value = false)}>
      <form onSubmit={onSubmit}>
        {wasRefused && (
          <div class="problem" role="alert">
            <strong>The server does not accept this key.</strong>
          </div>
        )}
        <p>
          {!wasRefused && "This server needs an API key. "}
          Its operator creates one with <code>harmonia keys new</code>.
        </p>
        <label class="field">
          Key
          <input type="password" autocomplete="off" required autofocus value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
        </label>
        <label class="check">
          <input type="checkbox" checked={remember.value} onChange={(event) => (remember.value = event.currentTarget.checked)} />
          Remember it in this browser, not only in this tab
        </label>
        <p class="buttons">
          <button class="main" disabled={key.value.trim() === ""}>
            Use this key
          </button>
        </p>
      </form>
    </Dialog>
  );
}
