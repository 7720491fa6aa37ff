"""Seeds: small sound files of every kind, to be damaged."""

from __future__ import annotations

import contextlib
import gzip
import warnings

import numpy as np

import strudel
from makers import rows_of_kinds, sdd_of
from strudel import EM, Strudel, StrudelClassifier, StrudelImputer
from strudel.circuits import figure_1_circuit
from strudel.logic.sdd import nnf_from_sdd
from strudel.tables import TableEncoder
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import balanced_vtree, linear_vtree

D4 = b"o 1 0\na 2 0\nt 3 0\no 4 0\nf 5 0\n1 2 1 -2 0\n1 4 -1 0\n2 3 3 0\n4 3 2 -3 0\n4 5 0\n"
PREDICTOR = (
    b"Logisitic Circuit\nT 0 0 1 0.5\nF 1 0 1 -0.25\nT 2 2 2 1.5\nF 3 2 2 0\n"
    b"D 4 1 3 (0 2 0.1) (0 3 0.2) (1 2 -0.3)\nB 0.75\n"
)


def text_files():
    """Files of other programs: name and content."""
    circuit = figure_1_circuit()
    learned = Strudel(n_components=1, random_state=0, max_splits=6).fit(rows_of_kinds()).circuit_
    rng = np.random.default_rng(0)
    rows = frozenset(row for row in np.ndindex(2, 2, 2, 2) if rng.random() < 0.5)
    sdd = sdd_of(rows, balanced_vtree(4))
    models = {"a.psdd": circuit, "b.psdd": learned, "a.jpc": circuit, "b.jpc": learned}
    models |= {"a.spn": circuit, "b.spn": learned, "a.sdd": sdd}
    models |= {"a.vtree": balanced_vtree(4), "b.vtree": linear_vtree(5)}
    models |= {"a.nnf": nnf_from_sdd(sdd), "a.jlc": nnf_from_sdd(sdd)}
    models |= {"a.clt": learn_chow_liu_tree(rows_of_kinds())}
    return models


def write_text_files(folder):
    """Text files in a folder, by path; an `.sdd` file has its vtree beside it."""
    for name, model in text_files().items():
        with contextlib.suppress(ValueError):  # a format that cannot hold it
            strudel.write(model, folder / name)
    (folder / "a.cnf").write_text("c x\np cnf 4 3\n1 -2 0\n2 3 -4 0\n4 0\n")
    (folder / "a.dnf").write_text("p dnf 4 2\n1 -2 0\n2 3 -4 0\n")
    (folder / "d4.nnf").write_bytes(D4)
    (folder / "a.circuit").write_bytes(PREDICTOR)
    (folder / "a.glc").write_bytes(PREDICTOR)
    packed = gzip.compress((folder / "a.psdd").read_bytes())
    (folder / "c.psdd.gz").write_bytes(packed)
    return sorted(path for path in folder.iterdir() if path.is_file())


def mixed_table(n_rows=60, seed=0):
    """A table of numbers, categories, dates and gaps."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows).round(2),
            "kind": rng.choice(["a", "b", "c"], size=n_rows),
            "seen": rng.choice(["yes", "no"], size=n_rows),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, "size"] = np.nan
    return frame


def models():
    """Fitted models of every kind, by name."""
    X = rows_of_kinds(n_rows=80, n_vars=5)
    frame = mixed_table()
    quick = {"max_splits": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "circuit": figure_1_circuit(),
            "strudel": Strudel(n_components=1, random_state=0, max_splits=4).fit(X),
            "mixture": Strudel(n_components=3, method=EM(max_iter=5), **quick).fit(X),
            "classifier": StrudelClassifier(
                method="per_class", init="tree", n_components=1, max_splits=0, random_state=0
            ).fit(X[:, :4], X[:, 4]),
            "imputer": StrudelImputer(
                Strudel(n_components=2, max_splits=0, method=EM(max_iter=3), random_state=0)
            ).fit(frame),
            "encoded": Strudel(
                n_components=1, columns=TableEncoder(n_bins=2), max_splits=2, random_state=0
            ).fit(frame),
        }
