"""Figures of a GPU: passes through circuits, EM steps, and a whole fit against two cores.

python benchmarks/device.py [--out results.json] [--quick] [NAME...]

NAME is one of the functions below; all of them by default. `--quick` takes smaller tables and runs
on the CPU where there is no GPU, to try the script. Data are found by STRUDEL_DATA. Where pyjuice
is installed, it evaluates the same circuit in the same run.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import machine
import numpy as np
import torch

from strudel import Strudel, load_dataset, log_marginal, to_torch
from strudel._types import AnyArray
from strudel.circuits.on_device.flow_products import (
    log_products,
    shares_in_parts,
    transposed_products,
)
from strudel.data.bits import pack_columns
from strudel.layers import to_pyjuice
from strudel.learning.mixtures import em
from strudel.learning.mixtures.em import MixtureData, new_ensemble
from strudel.learning.options import Greedy, MixtureOptions, SearchOptions
from strudel.learning.search.learn_structure import first_circuit, grow

CPU_THREADS = 2


def main() -> None:
    functions: dict[str, Callable[[Any, bool], Any]] = {
        one.__name__: one
        for one in (circuit_passes, products, em_step, many_rows, whole_fit, parts_of_fit)
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(functions))
    parser.add_argument("--out", help="write json here")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not args.quick:
        parser.error("there is no CUDA device: add --quick to try the script")
    where = torch.cuda.get_device_name() if device.type == "cuda" else "the CPU"
    print(f"torch {torch.__version__} on {where}")
    results = {"torch": torch.__version__, "device": where}
    for name in args.names or functions:
        print(f"\n{name}: {functions[name].__doc__.splitlines()[0]}", flush=True)  # type: ignore[union-attr]
        results[name] = functions[name](device, args.quick)
    machine.write(args.out, results)


def milliseconds(call: Callable[[], Any], device: Any, n_calls: int = 30) -> float:
    """Median of single calls, each waited for."""
    times = []
    for i in range(n_calls + 3):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        if i >= 3:
            times.append(1e3 * (time.perf_counter() - start))
    return median(times)


def _wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def circuit_passes(device: Any, is_quick: bool) -> dict[str, float]:
    """The circuit of plants, 166,623 edges, on its 3,482 test rows, half of the values unknown."""
    dataset = load_dataset("nltcs" if is_quick else "plants")
    circuit = (
        Strudel(n_components=1, random_state=0).fit(dataset.train, X_valid=dataset.valid).circuit_
    )
    rng = np.random.default_rng(0)
    rows = dataset.test.astype(np.float32)
    is_unknown = rng.random(rows.shape) < 0.5
    rows[is_unknown] = np.nan
    module = to_torch(circuit).to(device)
    x = torch.from_numpy(rows).to(device)
    found: dict[str, float] = {}

    def forward() -> Any:
        with torch.no_grad():
            return module.log_prob(x)

    def both() -> None:
        module.zero_grad()
        module.log_prob(x).sum().backward()

    found["forward"] = milliseconds(forward, device)
    found["forward and backward"] = milliseconds(both, device)
    want = log_marginal(circuit, rows[:500])
    error = np.abs(forward()[:500].cpu().numpy() / want - 1.0).max()
    if device.type == "cuda":
        found["forward, CUDA graph"] = milliseconds(_as_graph(forward), device)
        found["forward and backward, CUDA graph"] = milliseconds(_as_graph(both), device)
    try:
        found |= _pyjuice(circuit, dataset.test, is_unknown, device)
    except (ImportError, AssertionError, RuntimeError) as error_there:
        print(f"  without pyjuice: {error_there}")
    print(f"  {circuit.n_edges:,} edges, {len(rows):,} rows, largest relative error {error:.1e}")
    _show(found, "ms")
    return found | {"error": float(error)}


def _as_graph(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same calls, recorded once and replayed."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return lambda: graph.replay()


def _pyjuice(circuit: Any, rows: AnyArray, is_unknown: AnyArray, device: Any) -> dict[str, float]:
    import pyjuice

    start = time.perf_counter()
    compiled = pyjuice.compile(to_pyjuice(circuit)).to(device)
    print(f"  pyjuice: built and compiled in {time.perf_counter() - start:.1f} s")
    x = torch.from_numpy(rows.astype(np.int64)).to(device)
    mask = torch.from_numpy(is_unknown).to(device)
    forward = milliseconds(lambda: compiled(x, missing_mask=mask), device)
    compiled(x, missing_mask=mask, record_cudagraph=True)
    graph = milliseconds(lambda: compiled(x, missing_mask=mask), device)
    return {"pyjuice: forward": forward, "pyjuice: forward, CUDA graph": graph}


def products(device: Any, is_quick: bool) -> dict[str, float]:
    """The products of audio with 3,150 components, by themselves: what there is to gain."""
    n, width, k = (2048, 304, 256) if is_quick else (16384, 304, 3152)
    found: dict[str, float] = {}

    def show(name: str, call: Callable[[], Any]) -> None:
        try:
            found[name] = milliseconds(call, device)
        except (RuntimeError, TypeError) as error:
            print(f"  {name}: {str(error).split('.')[0]}")
            return
        print(f"  {name}: {found[name]:.3f} ms")

    f32 = (torch.rand((n, width), device=device) < 0.2).float()
    t32, r32 = torch.rand((width, k), device=device), torch.rand((n, k), device=device)
    show("empty call", lambda: None)
    show("copy of the logs", lambda: r32.clone())
    for name, precision in (("float32", "highest"), ("tf32", "high")):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        show(f"{name}: F @ T", lambda: f32 @ t32)
        show(f"{name}: F' @ R", lambda: f32.T @ r32)
        for chunk in (1024, 2048, 4096):
            if n % chunk == 0:
                parts = f32.unflatten(0, (-1, chunk)).transpose(1, 2)
                lines = r32.unflatten(0, (-1, chunk))
                show(
                    f"{name}: F' @ R by {chunk} rows",
                    lambda p=parts, q=lines: torch.bmm(p, q),  # type: ignore[misc]
                )
        torch.set_float32_matmul_precision(before)
    for dtype in (torch.float16, torch.bfloat16):
        f, t, r = f32.to(dtype), t32.to(dtype), r32.to(dtype)
        show(f"{dtype}: F @ T", lambda f=f, t=t: torch.mm(f, t, out_dtype=torch.float32))  # type: ignore[misc]
        twice, both = torch.cat([f, f], dim=1), torch.cat([t, t])
        show(
            f"{dtype}: [F F] @ [T; T]",
            lambda f=twice, t=both: torch.mm(f, t, out_dtype=torch.float32),  # type: ignore[misc]
        )
        show(
            f"{dtype}: F' @ R",
            lambda f=f, r=r: torch.mm(f.T, r, out_dtype=torch.float32),  # type: ignore[misc]
        )
        parts, lines = f.unflatten(0, (-1, 2048)).transpose(1, 2), r.unflatten(0, (-1, 2048))
        show(
            f"{dtype}: F' @ R by 2048 rows",
            lambda p=parts, q=lines: torch.bmm(p, q, out_dtype=torch.float32),  # type: ignore[misc]
        )
    return found


def em_step(device: Any, is_quick: bool) -> dict[str, float]:
    """One EM step of audio on its Chow-Liu structure, 3,150 components; at most 1.5 ms."""
    dataset, k = ("nltcs", 100) if is_quick else ("baudio", 3150)
    train = pack_columns(load_dataset(dataset).train)
    data, ensemble, weights = _started(device, first_circuit(train, SearchOptions()), train, k)

    def step() -> None:
        ensemble.maximise()
        ensemble.expect(data.train, weights)

    step()
    found = {
        "step": milliseconds(step, device),
        "maximise": milliseconds(ensemble.maximise, device),
    }
    ((bag, weight),) = zip(data.train, weights, strict=True)
    matrix, by_row = data.choices.block(bag).matrix(), ensemble._weight(bag, weight).share
    parameters = ensemble._parameters
    logs = log_products(matrix, parameters)
    _, high, low = shares_in_parts(logs.clone(), parameters.base, 1, by_row)
    found |= {
        "logs": milliseconds(lambda: log_products(matrix, parameters), device),
        "shares": milliseconds(lambda: shares_in_parts(logs, parameters.base, 1, by_row), device),
        "counts": milliseconds(lambda: transposed_products(matrix, high, low), device),
    }
    print(f"  {bag.n_rows:,} distinct rows, 0/1 matrix {tuple(matrix.shape)}, {k:,} components")
    _show(found, "ms")
    return found


def many_rows(device: Any, is_quick: bool) -> dict[str, float]:
    """One EM step of 10,000,000 rows x 64 columns, 200 splits, 100 components; at most 0.5 s."""
    n_rows, n_splits = (100_000, 20) if is_quick else (10_000_000, 200)
    start = time.perf_counter()
    table = _table(n_rows)
    sample = pack_columns(table[:20_000])
    search = SearchOptions(search=Greedy(), max_splits=n_splits, patience=n_splits)
    circuit = grow(sample, None, search=search, rng=np.random.default_rng(0)).growing.snapshot(
        n_splits
    )
    found = {"structure and table": time.perf_counter() - start}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    data, ensemble, weights = _started(device, circuit, pack_columns(table), 100, "random")
    found["flows and start"] = time.perf_counter() - start

    def step() -> None:
        ensemble.maximise()
        ensemble.expect(data.train, weights)

    found["step"] = 1e-3 * milliseconds(step, device, 5)
    print(
        f"  {data.rows.n_rows:,} distinct rows, {circuit.n_edges:,} edges, "
        f"{data.choices.n_listed:,} states, {len(data.train)} blocks"
    )
    _show(found, "s")
    if device.type == "cuda":
        held = sum(block.codes.nbytes for _, block in data.choices._blocks.values())
        found["bytes of the codes"] = held
        found["bytes at most"] = torch.cuda.max_memory_allocated()
        print(f"  codes {held / 2**30:.2f} GiB, at most {found['bytes at most'] / 2**30:.2f} GiB")
    return found


def whole_fit(device: Any, is_quick: bool) -> dict[str, Any]:
    """A whole automatic mixture of plants: the device against two cores."""
    dataset = load_dataset("nltcs" if is_quick else "plants")
    small = dataset.train[:1000]
    found: dict[str, Any] = {}
    for name, where, n_jobs in (("device", device, None), ("cpu", "cpu", CPU_THREADS)):
        options: dict[str, Any] = {
            "n_components": "auto",
            "method": "em",
            "random_state": 0,
            "device": where,
            "n_jobs": n_jobs,
        }
        if is_quick:
            options["max_components"] = 100
        # Whatever is compiled, for all sizes of mixtures.
        Strudel(**options | {"max_components": 250}).fit(small, X_valid=dataset.valid[:200])
        start = time.perf_counter()
        stages: dict[str, float] = {}

        def on_step(progress: Any, start: float = start, stages: Any = stages) -> None:
            stages[progress.stage] = time.perf_counter() - start

        model = Strudel(**options).fit(dataset.train, X_valid=dataset.valid, callback=on_step)
        seconds = time.perf_counter() - start
        found[name] = {
            "seconds": seconds,
            "until the end of": stages,
            "valid": model.chosen_["valid"],
            "test": model.score(dataset.test),
            "chosen": model.chosen_,
        }
        print(f"  {name}: {seconds:.2f} s, {stages}, {model.chosen_}", flush=True)
    ratio = found["cpu"]["seconds"] / found["device"]["seconds"]
    nats = found["device"]["valid"] - found["cpu"]["valid"]
    print(f"  {ratio:.1f} times as fast, validation {nats:+.4f} nats")
    return found | {"times": ratio, "nats": nats}


def parts_of_fit(device: Any, is_quick: bool) -> None:
    """Where the time of a whole fit on the device goes, by cProfile."""
    dataset = load_dataset("nltcs" if is_quick else "plants")
    model = Strudel(method="em", random_state=0, device=device)
    if is_quick:
        model.set_params(max_components=100)
    for part in (1000, None):  # the first compiles
        profile = cProfile.Profile()
        profile.enable()
        model.fit(dataset.train[:part], X_valid=dataset.valid[:part])
        profile.disable()
    pstats.Stats(profile).sort_stats("cumtime").print_stats("strudel|torch|numpy|method", 60)


def _started(
    device: Any, circuit: Any, train: Any, k: int, init_params: Any = "kmeans"
) -> tuple[Any, Any, Any]:
    """Data, an ensemble after its first counts, and the weights of the rows."""
    options = MixtureOptions(n_components=k, init_params=init_params, device=device)
    data = MixtureData.of(circuit, train, None, options)
    ensemble: Any = new_ensemble(data.choices, data.prior(options), 1, k)
    weights = [bag.weight[np.newaxis] for bag in data.train]
    em.start(ensemble, data, weights, options, np.random.default_rng(0))
    ensemble.maximise()
    return data, ensemble, weights


def _table(n_rows: int, n_vars: int = 64) -> AnyArray:
    """Rows of twenty kinds, with neighbours alike; nearly all are different."""
    rng = np.random.default_rng(0)
    chance = rng.beta(0.5, 0.5, size=(20, n_vars)).astype(np.float32)
    table = np.empty((n_rows, n_vars), dtype=np.uint8)
    for first in range(0, n_rows, 2**18):
        part = table[first : first + 2**18]
        kind = rng.integers(20, size=len(part))
        part[:] = rng.random(part.shape, dtype=np.float32) < chance[kind]
        part[:, 1::2] ^= part[:, ::2] & (rng.random(part[:, ::2].shape, dtype=np.float32) < 0.5)
    return table


def _show(found: dict[str, float], unit: str) -> None:
    for name, value in found.items():
        print(f"  {name}: {value:.3f} {unit}", flush=True)


if __name__ == "__main__":
    main()
