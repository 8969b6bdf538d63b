/** How hard the model should think about the next answers of this chat. */

import type { Effort } from "../../api/wire";
import { DEFAULT_EFFORT } from "../request";
import { changeSettings, settings } from "../session";

export const EFFORTS: readonly Effort[] = ["low", "medium", "high"];

export function EffortSelect() {
  const choose = (event: { currentTarget: HTMLSelectElement }): void => {
    void changeSettings({ effort: event.currentTarget.value as Effort });
  };
  return (
    <select aria-label="Effort" value={settings.value.effort ?? DEFAULT_EFFORT} onChange={choose}>
      {EFFORTS.map((effort) => (
        <option key={effort} value={effort}>
          {effort}
        </option>
      ))}
    </select>
  );
}
