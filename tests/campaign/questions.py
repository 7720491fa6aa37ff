"""Random options and hostile names: every model is a distribution, every refusal one sentence."""

from __future__ import annotations

import random
import warnings

import numpy as np

import strudel
from campaign.agreement import check_model, need
from campaign.files import ANSWER, REFUSED
from strategies import split_circuit
from strudel import EM, Strudel, StrudelClassifier, StrudelImputer
from strudel.trees.vtree import random_vtree

ODD = [None, True, -1, 0, 1, 2, 3, 1.5, "auto", "x", "", [1], {}, np.nan, np.inf, 10**9, 10**12]
ODD += [np.zeros(3), object(), "greedy", "em", 0.1, 0.5, 2**40, -0.0, np.int64(2), b"x", (1, 2)]
CELLS = [0, 1, 0, 1, 0, 1, np.nan, 2, -1, 0.5, np.inf, "0", "a", None, True]
HARM = [
    "</script><script>alert(1)</script>",
    "<!--",
    "<img src=x onerror=alert(1)>",
    "\\u003c/script",
]
HARM += ["]]>", "\u2028", "'", '"', "&lt;", "\x00", "{{x}}", "${x}", "\ud800"]
WEIGHTS = [0.0, 1.0, 1e-300, 1e300, 5e-324, 2.0, np.nan, -1.0, np.inf]


def check_words(error):
    """One sentence, of ours."""
    text = str(error)
    need(text and "\n" not in text and len(text) <= 600, f"a refusal like {text[:300]!r}")
    return len(text)


class Options:
    """Random options and tables."""

    def __init__(self, folder):
        pass

    def case(self, rng):
        def pick(values):
            return values[int(rng.integers(len(values)))]

        kind = pick([Strudel, StrudelClassifier, StrudelImputer])
        quick = {
            Strudel: pick(
                [
                    {"n_components": 1, "max_splits": 2},
                    {"n_components": 2, "max_splits": 1, "method": EM(max_iter=3)},
                ]
            ),
            StrudelClassifier: {"n_components": 1, "max_splits": 0, "method": "per_class"},
            StrudelImputer: {"estimator": Strudel(n_components=1, max_splits=1, random_state=0)},
        }[kind]
        options = quick | {"random_state": 0}
        names = [name for name in kind().get_params(deep=False) if name != "verbose"]
        for _ in range(int(rng.integers(0, 3))):
            options[pick(names)] = pick(ODD)
        shape = (int(rng.integers(0, 16)), int(rng.integers(0, 5)))
        if rng.random() < 0.6:
            X = rng.integers(0, 2, size=shape)
        else:
            X = np.array([[pick(CELLS) for _ in range(shape[1])] for _ in range(shape[0])], object)
            X = X.reshape(shape)
        more = {}
        if rng.random() < 0.3:
            more["sample_weight"] = np.array([pick(WEIGHTS) for _ in range(shape[0])])
        y = rng.integers(0, 2, size=shape[0])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = kind(**options).fit(X, y, **more)
        except (ValueError, TypeError) as error:
            return REFUSED, check_words(error)
        except ImportError as error:  # an extra that is not installed
            return REFUSED, check_words(error)
        if kind is not StrudelClassifier and not hasattr(model, "encoder_"):
            check_model(model, rng)
        return ANSWER, 0


class Pages:
    """The explorer's page of models whose names are meant to harm it."""

    def __init__(self, folder):
        self.folder = folder

    def case(self, rng):
        n_vars = int(rng.integers(1, 6))
        seed = int(rng.integers(2**31))
        circuit = split_circuit(random_vtree(n_vars, seed), random.Random(seed), size=3)
        names = [f"{v}{HARM[int(rng.integers(len(HARM)))]}" for v in range(n_vars)]
        path = self.folder / "page.html"
        plain = self.folder / "plain.html"
        strudel.explore(circuit.with_names(tuple(names)), path)
        strudel.explore(circuit.with_names(tuple(f"x{v}" for v in range(n_vars))), plain)
        for word in (b"<script", b"</script", b"<img", b"<!--"):
            n_found = path.read_bytes().lower().count(word)
            need(n_found == plain.read_bytes().lower().count(word), f"a name brings in {word}")
        return ANSWER, 0
