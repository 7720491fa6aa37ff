"""Click on pages of the explorer in chromium, and measure how long all posteriors take.

    python benchmarks/explorer.py [--out results.json] [--clicks 60]

Two models: the circuit that `Strudel` grows on plants with its defaults (bar: 50 ms), and 3,000
components around a circuit of plants with 100 splits (bar: 150 ms). Needs chromium,
chromedriver and selenium.

    page      from the click until all bars on the page have their new numbers
    engine    what of it was spent on the two passes, inside the worker
    hurried   as `page`, with the next click before the most probable row of the last one is found

A busy machine slows all of them; the least is what the page itself needs. The load is printed.
Pages are kept in benchmarks/out. After a change of the page or the engine, remove them first.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numpy as np

from strudel import Strudel, explore, load_dataset
from strudel.circuits.reweigh import normalized
from strudel.queries.given import circuit_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser import start_browser

OUT = Path(__file__).parent / "out"
N_COMPONENTS, N_SPLITS = 3000, 100
BARS = {"circuit": 50.0, "mixture": 150.0}  # milliseconds
LISTEN = """
const Plain = Worker;
window.engine = [];
window.Worker = class extends Plain {
  constructor(url) {
    super(url);
    this.addEventListener("message", ({ data }) => {
      if (data.kind === "answer") window.engine.push(data.milliseconds);
    });
  }
};
"""
CLICK = """
const [place, until, answer] = arguments;
const page = document.querySelector(".page");
const bars = [...document.querySelectorAll(".tile [data-value]")];
const start = performance.now();
let milliseconds = null;
const watch = new MutationObserver(() => {
  const done = page.dataset.done.split(" ");
  if (milliseconds === null && done.includes("answer")) milliseconds = performance.now() - start;
  if (done.includes(until)) {
    watch.disconnect();
    answer([milliseconds, window.engine.at(-1)]);
  }
});
watch.observe(page, { attributeFilter: ["data-done"] });
bars[place % bars.length].click();
"""
READY = "return document.querySelector('.page')?.dataset.done.includes('completion') ?? false"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--clicks", type=int, default=60)
    args = parser.parse_args()
    results = {}
    for name, make in (("circuit", circuit_of_plants), ("mixture", large_mixture)):
        path = OUT / f"explorer-{name}.html"
        if not path.exists():
            OUT.mkdir(exist_ok=True)
            explore(make(), path)
        with tempfile.TemporaryDirectory() as profile:
            results[name] = measure(path, args.clicks, profile)
        show(name, results[name])
    machine.write(args.out, results)


def circuit_of_plants(**options: int) -> Any:
    data = load_dataset("plants")
    model = Strudel(n_components=1, random_state=0, **options)
    return circuit_of(model.fit(data.train, X_valid=data.valid))


def large_mixture() -> Any:
    """Components around a circuit: its parameters with noise, and random weights."""
    circuit, rng = circuit_of_plants(max_splits=N_SPLITS), np.random.default_rng(0)

    def noisy(logs: Any) -> Any:
        return logs + rng.normal(0.0, 0.7, (len(logs), N_COMPONENTS))

    return normalized(
        replace(
            circuit,
            leaf_log_p=noisy(circuit.leaf_log_p),
            edge_log_theta=noisy(circuit.edge_log_theta),
            log_weight=np.log(rng.dirichlet(np.ones(N_COMPONENTS))),
        )
    )[0]


def measure(path: Path, n_clicks: int, profile: str) -> dict[str, Any]:
    """Open the page, and click on values of columns in turn, which are set and released."""
    browser = start_browser(profile)
    try:
        browser.set_script_timeout(60)
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN})
        started = time.perf_counter()
        browser.get(path.as_uri())
        while not browser.execute_script("return document.querySelector('.page') !== null"):
            time.sleep(0.005)
        opened = time.perf_counter() - started
        while not browser.execute_script(READY):
            time.sleep(0.05)
        rng = np.random.default_rng(0)
        load = os.getloadavg()[0]
        footer = browser.execute_script("return document.querySelector('footer').innerText")
        times: dict[str, list[float]] = {"page": [], "engine": [], "hurried": []}
        for until in ("completion", "answer"):
            for _ in range(n_clicks):
                place = int(rng.integers(1000))
                found, engine = browser.execute_async_script(CLICK, place, until)
                if until == "completion":
                    times["page"].append(found)
                    times["engine"].append(engine)
                else:
                    times["hurried"].append(found)
    finally:
        browser.quit()
    return {
        "model": footer.partition(".")[0],
        "bytes": path.stat().st_size,
        "open_seconds": opened,
        "load": load,
        "milliseconds": times,
    }


def show(name: str, result: dict[str, Any]) -> None:
    print(f"{name}: {result['model']}")
    print(
        f"  page of {result['bytes'] / 1e6:.1f} MB, open after {result['open_seconds']:.2f} s; "
        f"load {result['load']:.1f} on {os.cpu_count()} cores; bar {BARS[name]:.0f} ms"
    )
    for what, times in result["milliseconds"].items():
        print(
            f"  {what:8} median {median(times):6.1f} ms   worst {max(times):6.1f}   "
            f"least {min(times):6.1f}   of {len(times)} clicks"
        )


if __name__ == "__main__":
    main()
