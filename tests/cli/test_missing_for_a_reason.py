"""The command line answers about columns that are missing for a reason as the library does."""

import json

import numpy as np
import pandas as pd
import pytest

from strudel import load


@pytest.mark.compiled
def test_a_probability_is_that_of_rows_with_values(run, tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.choice(list("abcd"), 1200)  # d is not said, and lives where b does
    rows = pd.DataFrame({"kind": np.where(kind == "d", None, kind)})
    rows["where"] = np.where(np.isin(kind, ["b", "d"]), "far", "near")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    path = tmp_path / "rows.strudel"
    assert run("fit", tmp_path / "rows.csv", "-o", path)[0] == 0
    model = load(path)
    for event, given in (
        ("kind = b", None),
        ("kind = b", "where = far"),
        ("where = far", "kind = b"),
    ):
        facts = ("--given", given) if given else ()
        code, out, _ = run("query", path, "probability", event, *facts, "--json")
        found = json.loads(out)["answers"][0]["probability"]
        assert code == 0
        assert found == pytest.approx(model.probability(event, given), abs=0.01)
        if given is None:
            assert found == pytest.approx(1 / 3, abs=0.03)
