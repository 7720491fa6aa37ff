"""Write explorer/test/golden.json: models of every kind, and what Python says of them.

    python scripts/explorer_golden.py

The tests of the page's engine read it. `tests/explorer/test_page.py` checks that it has the format
that pages are written in.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "explorer" / "test" / "golden.json"
sys.path.insert(0, str(ROOT / "tests"))


def golden():
    from explored_models import Expected, make_models
    from strudel.explorer.page import page_data

    written = []
    rng = np.random.default_rng(0)
    for name, model in make_models().items():
        expected = Expected(model)
        cases = []
        for n_set in (0, 1, 2, 3):
            evidence = some_evidence(expected.sizes, n_set, rng)
            log_p = expected.log_p(evidence)
            is_possible = log_p > -math.inf
            target = int(rng.integers(len(expected.sizes)))
            free = {c: values for c, values in evidence.items() if c != target}
            others = [c for c in range(len(expected.sizes)) if c != target and c not in free]
            cases.append(
                {
                    "evidence": sorted(evidence.items()),
                    "logP": rounded(log_p) if is_possible else None,
                    "posteriors": [rounded(p) for p in expected.posteriors(evidence)]
                    if is_possible
                    else None,
                    "target": target,
                    "information": [
                        [c, rounded(expected.information(target, c, free))] for c in others
                    ],
                    "bestLogP": rounded(expected.best(evidence)[1]) if is_possible else None,
                }
            )
        written.append({"name": name, "data": page_data(model), "cases": cases})
    return written


def some_evidence(sizes, n_set, rng):
    chosen = rng.choice(len(sizes), size=min(n_set, len(sizes)), replace=False)
    found = {}
    for c in sorted(chosen.tolist()):
        n_values = (
            1 if rng.random() < 0.6 else int(rng.integers(1, sizes[c])) if sizes[c] > 1 else 1
        )
        found[c] = sorted(rng.choice(sizes[c], size=n_values, replace=False).tolist())
    return found


def rounded(value):
    return np.round(value, 9).tolist()


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden(), indent=None, separators=(",", ":")) + "\n")
    print(f"wrote {GOLDEN.relative_to(ROOT)}, {GOLDEN.stat().st_size / 1e3:.0f} kB")
