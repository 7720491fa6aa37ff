"""Random questions and options: every answer is that of enumeration, every refusal one sentence."""

from __future__ import annotations

import contextlib
import random
import warnings

import numpy as np

import strudel
from campaign.agreement import check_model, need, rows_of, table_of
from campaign.files import ANSWER, REFUSED
from strategies import split_circuit
from strudel import EM, Strudel, StrudelClassifier, StrudelImputer
from strudel.circuits import figure_1_circuit
from strudel.errors import MissingDependencyError, StrudelError
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


class Queries:
    """Small circuits with parameters down to the smallest float."""

    def __init__(self, folder):
        pass

    def case(self, rng):
        n_vars = int(rng.integers(1, 6))
        seed = int(rng.integers(2**31))
        circuit = split_circuit(random_vtree(n_vars, seed), random.Random(seed), size=3)
        log_theta = circuit.edge_log_theta.copy()
        for node in range(2 * n_vars, circuit.n_nodes):
            edges = slice(*circuit.node_edges[node : node + 2])
            if edges.stop - edges.start > 1 and rng.random() < 0.4:
                own = rng.choice([0.0, -1.0, -300.0, -690.0, -744.0], edges.stop - edges.start)
                log_theta[edges] = own - np.logaddexp.reduce(own)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_model(circuit.with_parameters(log_theta), rng)
        return ANSWER, 0


class Events:
    """Random events as text and as expressions, against their own evaluation."""

    def __init__(self, folder):
        pass

    def case(self, rng):
        n_vars = int(rng.integers(2, 6))
        seed = int(rng.integers(2**31))
        circuit = split_circuit(random_vtree(n_vars, seed), random.Random(seed), size=3)
        table, rows = table_of(circuit), rows_of(n_vars) == 1
        text, holds = self.event(rows, rng, int(rng.integers(1, 5)))
        is_damaged = rng.random() < 0.3
        if is_damaged:
            at = int(rng.integers(len(text) + 1))
            text = text[:at] + str(rng.choice(list("()&|~x0=,^>in [\"'\\\x00é"))) + text[at + 1 :]
        try:
            found = strudel.probability(circuit, text)
        except MissingDependencyError:
            return ANSWER, 0
        except ValueError as error:
            need(is_damaged and isinstance(error, StrudelError | ValueError), repr(error))
            return REFUSED, check_words(error)
        if not is_damaged:
            wanted = table[holds].sum()
            need(abs(found - wanted) < 1e-9, f"P({text}) is {found}, not {wanted}")
        return ANSWER, 0

    def event(self, rows, rng, depth):
        """A random event: its text, and on which rows it holds."""
        if depth == 0 or rng.random() < 0.2:
            var = int(rng.integers(rows.shape[1]))
            if rng.random() < 0.4:
                return f"~x{var}", ~rows[:, var]
            return f"x{var}", rows[:, var]
        parts = [self.event(rows, rng, depth - 1) for _ in range(int(rng.integers(2, 4)))]
        texts, held = zip(*parts, strict=True)
        how = rng.random()
        if how < 0.3:
            return f"({' & '.join(texts)})", np.logical_and.reduce(held)
        if how < 0.6:
            return f"({' | '.join(texts)})", np.logical_or.reduce(held)
        if how < 0.75:
            return f"({texts[0]} ^ {texts[1]})", held[0] ^ held[1]
        if how < 0.85:
            return f"~({texts[0]})", ~held[0]
        k = int(rng.integers(len(parts) + 1))
        return f"at_least({k}, {', '.join(texts)})", np.sum(held, axis=0) >= k


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


class Modules:
    """Small circuits as modules of PyTorch, on all rows and on rows with gaps."""

    def __init__(self, folder):
        self.torch = None
        with contextlib.suppress(ImportError):
            import torch

            self.torch = torch
            strudel.to_torch(figure_1_circuit())  # which loads much more

    def case(self, rng):
        if self.torch is None:
            return ANSWER, 0
        n_vars = int(rng.integers(1, 6))
        seed = int(rng.integers(2**31))
        circuit = split_circuit(random_vtree(n_vars, seed), random.Random(seed), size=3)
        table, rows = table_of(circuit), rows_of(n_vars)
        row = rng.choice([0.0, 1.0, np.nan], size=n_vars)
        agrees = ((rows == row) | np.isnan(row)).all(axis=1)
        module = strudel.to_torch(circuit)
        asked = self.torch.tensor(np.vstack([rows, row]), dtype=self.torch.float64)
        found = np.exp(module.log_prob(asked).detach().numpy())
        wanted = np.append(table, table[agrees].sum())
        need(np.allclose(found, wanted, rtol=1e-4, atol=1e-7), f"log_prob: {found}, not {wanted}")
        back = circuit.from_torch(module)
        need(np.allclose(back.theta, circuit.theta, atol=1e-6), "other parameters came back")
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
