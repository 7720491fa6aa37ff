// Where everything starts: the page, or, in a worker made of this same script, the engine.

import { render } from "preact";
import { serve } from "./client.ts";
import { read, type PageData } from "./model.ts";
import { App } from "./view/app.tsx";

if (typeof document === "undefined") serve();
else {
  const data = JSON.parse(document.getElementById("model")!.textContent!) as PageData;
  const root = document.getElementById("app")!;
  read(data).then((whole) => {
    root.textContent = "";
    render(<App data={whole} />, root);
  }, (error) => (root.textContent = `This page could not be read: ${error}`));
}
