"""One EM step of 100 components on the Chow-Liu structure of baudio, against a matrix product.

python benchmarks/em_step.py [--out results.json] [--rounds 5]

A step is `maximise` and `expect` on all 15,000 training rows, the flows found before. The product
is of `float32` matrices, (15000 x 398) by (398 x 100), in NumPy: what the E-step would cost if
flows were dense. Each is timed in blocks of its own with a pause between, since the threads of
NumPy's library and those of the kernels wait for one another busily.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import machine
import numpy as np

from strudel import load_dataset
from strudel._types import AnyArray
from strudel.data.bits import pack_columns
from strudel.learning.mixtures.em import MixtureData, start
from strudel.learning.mixtures.em_steps import Ensemble
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.learning.search.learn_structure import first_circuit

N_COMPONENTS = 100
N_CALLS = 10  # in a block
PAUSE = 0.5  # seconds until threads have gone to sleep
MOST_MS, MOST_TIMES = 60.0, 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    step, n_rows, n_edges = prepare_step(load_dataset("baudio").train)
    rng = np.random.default_rng(0)
    dense = rng.random((n_rows, n_edges), dtype=np.float32)
    columns = rng.random((n_edges, N_COMPONENTS), dtype=np.float32)
    calls: dict[str, Callable[[], Any]] = {"step": step, "product": lambda: dense @ columns}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            time.sleep(PAUSE)
            call()
            for _ in range(N_CALLS):
                start = time.perf_counter()
                call()
                times[name].append(1e3 * (time.perf_counter() - start))
    medians = {name: median(values) for name, values in times.items()}
    ratio = medians["step"] / medians["product"]
    print(f"one EM step, {n_rows:,} rows, {N_COMPONENTS} components: {medians['step']:.1f} ms")
    shapes = f"({n_rows} x {n_edges}) by ({n_edges} x {N_COMPONENTS})"
    print(f"product {shapes}: {medians['product']:.1f} ms")
    print(f"at most {MOST_MS:g} ms: {'yes' if medians['step'] <= MOST_MS else 'NO'}")
    verdict = "yes" if ratio <= MOST_TIMES else "NO"
    print(f"{ratio:.2f} times the product; at most {MOST_TIMES:g}: {verdict}")
    machine.write(args.out, {"milliseconds": medians, "ratio": ratio, "all_milliseconds": times})


def prepare_step(
    rows: AnyArray, n_components: int = N_COMPONENTS
) -> tuple[Callable[[], Any], int, int]:
    """A function that does one step more, the number of rows and that of the structure's edges."""
    train = pack_columns(rows)
    circuit = first_circuit(train, SearchOptions())
    options = MixtureOptions(n_components=n_components)
    data = MixtureData.of(circuit, train, None, options)
    weights = [bag.weight[np.newaxis] for bag in data.train]
    ensemble = Ensemble(data.choices, data.prior(options), 1, n_components)
    rng = np.random.default_rng(0)
    start(ensemble, data, weights, options, rng)

    def step() -> None:
        ensemble.maximise()
        ensemble.expect(data.train, weights)

    return step, train.n_rows, circuit.n_parameters


if __name__ == "__main__":
    main()
