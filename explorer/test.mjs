// Bundle the tests and run them with Node's own runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const folder = mkdtempSync(join(import.meta.dirname, ".test-"));
const tests = readdirSync(join(import.meta.dirname, "test")).filter((name) => name.endsWith(".test.ts"));
try {
  await build({
    entryPoints: tests.map((name) => join(import.meta.dirname, "test", name)),
    bundle: true, platform: "node", format: "esm", outdir: folder, outExtension: { ".js": ".mjs" },
    jsx: "automatic", jsxImportSource: "preact", logLevel: "warning", loader: { ".json": "json" },
  });
  const files = tests.map((name) => join(folder, name.replace(/ts$/, "mjs")));
  process.exitCode = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
