// Build the page into the Python package: `npm run build`. `npm run check` builds it and compares.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const here = import.meta.dirname;
const asset = join(here, "..", "src", "strudel", "explorer", "page.html");
const shared = { bundle: true, minify: true, write: false, logLevel: "warning", legalComments: "none", charset: "ascii" };
const code = await build({
  ...shared,
  entryPoints: [join(here, "src", "main.tsx")],
  format: "iife", target: "es2022", jsx: "automatic", jsxImportSource: "preact",
});
const style = await build({ ...shared, entryPoints: [join(here, "src", "style.css")], target: "chrome110" });
// Functions, since a replacement that is a string would give "$&" in the code a meaning.
const page = readFileSync(join(here, "src", "page.html"), "utf8")
  .replace("/*style*/", () => style.outputFiles[0].text.trim())
  .replace("/*code*/", () => code.outputFiles[0].text.trim().replaceAll("<!--", "<\\!--"));
if (process.argv.includes("--check")) {
  if (readFileSync(asset, "utf8") !== page) {
    console.error("src/strudel/explorer/page.html is not what explorer/ builds: run `npm run build` there.");
    process.exit(1);
  }
  console.log(`page.html is up to date (${(page.length / 1e3).toFixed(0)} kB)`);
} else {
  writeFileSync(asset, page);
  console.log(`wrote page.html (${(page.length / 1e3).toFixed(0)} kB)`);
}
