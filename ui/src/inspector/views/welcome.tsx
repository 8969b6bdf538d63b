/** What there is to do before anything was inspected: an example to begin with, or a tool that needs no trace. */

import { EXAMPLES } from "../examples";
import { inspectInput, isBusy, tab } from "../state";
import { TABS } from "../tabs";

export const Welcome = () => (
  <div class="welcome">
    <section aria-labelledby="welcome-examples">
      <h2 id="welcome-examples">Start with an example</h2>
      <ul>
        {EXAMPLES.map(({ name, about, input }) => (
          <li key={name}>
            <Choice name={name} about={about} onClick={() => void inspectInput(input)} />
          </li>
        ))}
      </ul>
    </section>
    <section aria-labelledby="welcome-tools">
      <h2 id="welcome-tools">Or without a trace</h2>
      <ul>
        {TABS.filter((one) => one.alone !== undefined).map(({ id, label, alone }) => (
          <li key={id}>
            <Choice name={label} about={alone ?? ""} onClick={() => (tab.value = id)} />
          </li>
        ))}
      </ul>
    </section>
  </div>
);

const Choice = ({ name, about, onClick }: { name: string; about: string; onClick: () => void }) => (
  <button class="choice" disabled={isBusy.value} onClick={onClick}>
    <strong>{name}</strong>
    <span class="quiet">{about}</span>
  </button>
);
