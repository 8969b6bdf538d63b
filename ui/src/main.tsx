/** The page begins here. */

import "./style/base.css";
import { render } from "preact";
import { App } from "./shell/app";

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
