// Where everything starts: the page, or, in a worker made of this same script, the engine.

import { render } from "preact";
import { serve } from "./client.ts";
import type { PageData } from "./model.ts";
import { App } from "./view/app.tsx";

if (typeof document === "undefined") serve();
else {
  const data = JSON.parse(document.getElementById("model")!.textContent!) as PageData;
  const root = document.getElementById("app")!;
  root.textContent = "";
  render(<App data={data} />, root);
}
