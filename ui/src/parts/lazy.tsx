/** A component that is loaded when it is first shown. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

interface Props {
  /** Must be the same function each time. */
  load: () => Promise<ComponentType>;
  name: string;
}

export function Lazy({ load, name }: Props) {
  const [loaded, setLoaded] = useState<{ Shown: ComponentType } | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let isWanted = true;
    setLoaded(null);
    setFailed(false);
    load().then(
      (Shown) => isWanted && setLoaded({ Shown }),
      () => isWanted && setFailed(true),
    );
    return () => void (isWanted = false);
  }, [load]);
  if (failed) return <p role="alert">{`The server did not send ${name}. Reload the page when the server is back.`}</p>;
  return loaded === null ? <p class="quiet">{`Loading ${name} …`}</p> : <loaded.Shown />;
}
