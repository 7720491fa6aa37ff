"""Models as they are, whatever the library makes of them: columns, leaf tables, sums, products.

In:  a model file of `models/`, which no learner and no version of the library wrote.
Out: `probability`, by naive recursion: no code of the library; `load`, the library's model of it.

A file has the `columns` and their cells; a `vtree` over columns; `nodes`, children first, of which
the last is the root; and the weight of every component. A leaf has a row of probabilities per cell,
one for each component; a sum has a row of weights per child; a product has a left and a right
child, as the vtree has them. A cell has values, or lies between two edges, where values are
distributed as the `density` of the column says: point masses, and parts that are even between
bounds with exponential tails, on a lattice if they have a step. What is missing is told by `rules`
and `rates`.
"""

import json
import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from strudel import Strudel, Vtree
from strudel.circuits import CircuitBuilder
from strudel.learning.bits.circuit import bits_of
from strudel.learning.bits.fold import over_columns
from strudel.learning.bits.mixture import BitMixture
from strudel.tables import CodedColumn, TableCode
from strudel.tables.density import Density, Pieces
from strudel.tables.missingness import Missingness, MissingRates, MissingRule
from strudel.tables.schema import bit_columns

MODELS = ("bits_1", "bits_10", "mixed_1", "mixed_10")
FOLDER = Path(__file__).parent


def read(name):
    """The content of a model file."""
    return json.loads((FOLDER / "models" / f"{name}.json").read_text(encoding="utf-8"))


# What is true


def probability(content, known):
    """The probability that every known column has a value in its set, by recursion from the root.

    `known` has values, or intervals ``(low, high)`` of numbers, by the name of the column.
    """
    columns = {column["name"]: column for column in content["columns"]}
    weight = {name: cell_shares(columns[name], said) for name, said in known.items()}
    done = {}

    def value(n):
        if n not in done:
            done[n] = _value(content["nodes"][n])
        return done[n]

    def _value(node):
        k = range(len(content["component_weights"]))
        if "leaf" in node:
            shares = weight.get(node["leaf"], [1.0] * len(node["p"]))
            pairs = list(zip(shares, node["p"], strict=True))
            return [math.fsum(share * p[c] for share, p in pairs) for c in k]
        if "product" in node:
            left, right = map(value, node["product"])
            return [left[c] * right[c] for c in k]
        pairs = [(value(child), w) for child, w in zip(node["sum"], node["weights"], strict=True)]
        return [math.fsum(child[c] * w[c] for child, w in pairs) for c in k]

    of_components = value(len(content["nodes"]) - 1)
    return math.fsum(map(math.prod, zip(content["component_weights"], of_components, strict=True)))


def cell_shares(column, said):
    """The share of every cell in which a column is what is said of it."""
    if "edges" in column:
        ends = [-math.inf, *column["edges"], math.inf]
        low, high = (-math.inf, math.inf) if said is None else said
        return [
            mass(column["density"], max(a, low), min(b, high)) / mass(column["density"], a, b)
            for a, b in pairwise(ends)
        ]
    values, shares = column["values"], []
    rows = dict(zip(values, column.get("counts", [1] * len(values)), strict=True))
    for cell in column.get("cells", [[value] for value in values]):
        shares.append(sum(rows[v] for v in cell if v in said) / sum(rows[v] for v in cell))
    return shares


def mass(density, low, high):
    """How probable ``low <= x < high`` is, of a column by itself."""
    if not low < high:
        return 0.0
    found = [
        p
        for x, p in zip(density["points"], density["point_masses"], strict=True)
        if low <= x < high
    ]
    for part in density["parts"]:
        step, bounds = part["step"], part["bounds"]

        def next_(x, step=step):
            return math.ceil(x / step) * step if step and math.isfinite(x) else x

        a, b = next_(low), next_(high)
        below, *inner, above = part["masses"]
        for (first, last), p in zip(pairwise(bounds), inner, strict=True):
            found.append(p * max(min(b, last) - max(a, first), 0.0) / (last - first))
        for sign, bound, p, scale in (
            (-1.0, bounds[0], below, part["tails"][0]),
            (1.0, bounds[-1], above, part["tails"][1]),
        ):
            near, far = sorted(max(sign * (end - bound), 0.0) for end in (a, b))
            found.append(
                p * (math.exp(-near / scale) - math.exp(-far / scale)) if near < far else 0
            )
    return math.fsum(found)


# What the library makes of it: circuits over the 0/1 variables of a code, at this version


def load(name):
    """A circuit of one component, or a mixture of several."""
    return _load(read(name))


def _load(content):
    columns = []
    for column in content["columns"]:
        columns.append(_column(column, columns[-1].stop if columns else 0))
    missing = content.get("missing", {"rules": [], "rates": []})
    always = {"intervals": (), "or_missing": False, "is_structural": True}
    rules = [
        MissingRule(**rule | always | {"values": tuple(rule["values"])})
        for rule in missing["rules"]
    ]
    rates = [MissingRates(**own | {"rates": tuple(own["rates"])}) for own in missing["rates"]]
    code = TableCode(tuple(columns), "pandas", missingness=Missingness(tuple(rules), tuple(rates)))
    is_table = any(column.kind != "bit" for column in code.columns)
    of = {column.name: column for column in code.columns}
    k = len(content["component_weights"])
    builder = CircuitBuilder(Vtree.from_nested(_nested(content["vtree"], of)), code.variable_names)
    log_theta = {}  # of every sum, (n_edges, k)
    made = []  # the library's node of every sum and leaf, the two children of every product
    for node in content["nodes"]:
        if "product" in node:
            made.append([made[child] for child in node["product"]])
        elif "leaf" in node:
            p = np.array(node["p"])
            made.append(_add_leaf(builder, of[node["leaf"]], 0, list(range(len(p))), p, log_theta))
        else:
            edges = [made[child] for child in node["sum"]]
            found = builder.add_sum([(*edge, 1.0) for edge in edges])
            log_theta[found] = np.log(node["weights"])
            made.append(found)
    parts = [_built(builder, log_theta, c) for c in range(k)]
    logs = np.column_stack([part.edge_log_theta for part in parts])
    model = BitMixture(parts[0], logs, np.log(content["component_weights"]))
    columns = code.as_columns.shown if is_table else bit_columns(code.variable_names, "pandas")
    return over_columns(model, columns, code if is_table else None)


def _built(builder, log_theta, c):
    """The circuit with the parameters of one component."""
    place = defaultdict(int)
    edges = []
    for parent, left, right, _ in builder.edges:
        edges.append((parent, left, right, float(log_theta[parent][place[parent], c])))
        place[parent] += 1
    builder.edges = edges
    return bits_of(builder)


def _add_leaf(builder, column, bit, cells, p, log_theta):
    """The sums over the bits of a column from one on, for the cells that share the bits before."""
    words, var = column.codewords, column.start + bit
    cells = [cell for cell in cells if p[cell].any()]
    vtree = builder.vtree
    leaf, is_last = int(vtree.var_leaf[var]), var == column.stop - 1
    edges, weights = [], []
    for value in (0, 1):
        own = [cell for cell in cells if words[cell, bit] == value]
        if own:
            rest = -1 if is_last else _add_leaf(builder, column, bit + 1, own, p, log_theta)
            edges.append((2 * var + value, rest, 0.0))
            weights.append(p[own].sum(axis=0))
    total = np.sum(weights, axis=0)
    if is_last and len(edges) == 1:
        return edges[0][0]  # a literal
    found = builder.add_at(leaf if is_last else int(vtree.node_parent[leaf]), edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0.0, weights / total, 1.0 / len(edges))
        log_theta[found] = np.log(share)
    return found


def _nested(tree, columns):
    """The vtree over variables: those of a column are a chain."""
    if not isinstance(tree, str):
        return tuple(_nested(side, columns) for side in tree)
    *others, found = columns[tree].variables
    for var in reversed(others):
        found = (var, found)
    return found


def _column(column, start):
    """A column with its code: one bit of two values, one per category, or one per edge."""
    name, kind = column["name"], column["kind"]
    values = column["medians"] if "edges" in column else column["values"]
    cells = column.get("cells", [[value] for value in values])
    width = 1 if len(cells) == 2 else len(cells) - (kind != "category")
    words = np.eye(len(cells), dtype=int)
    if kind != "category" or len(cells) == 2:
        words = np.tri(len(cells), len(cells) - 1, -1, dtype=int)
    density = None
    if "edges" in column:
        texts = [_text(kind, edge) for edge in column["edges"]]
        inner = [f"[{a}, {b})" for a, b in pairwise(texts)]
        labels = [f"<{texts[0]}", *inner, f">={texts[-1]}"]
        names = [f"{name}>={text}" for text in texts]
        said = column["density"]
        parts = [
            Pieces(_floats(part["bounds"]), _floats(part["masses"]), tuple(part["tails"]), step)
            for part in said["parts"]
            for step in [float(part["step"])]
        ]
        points = _floats(said["points"]), _floats(said["point_masses"])
        density = Density(
            *points, tuple(parts), tuple(said["seen"]), said["decimals"], said["unit"]
        )
    else:
        labels = [str(value) for value in values]
        alone = [cell[0] if len(cell) == 1 else f"any of {len(cell)} rare values" for cell in cells]
        said = ">=" if kind == "ordinal" else "="
        names = [f"{name}{said}{label}" for label in (alone if width == len(cells) else alone[1:])]
        names = [name] if kind in ("bit", "boolean") else names
    return CodedColumn(
        name=name,
        kind=kind,
        start=start,
        stop=start + width,
        labels=tuple(labels),
        codewords=words,
        groups=tuple(group for group, cell in enumerate(cells) for _ in cell),
        variable_names=tuple(names),
        values=tuple(values),
        edges=tuple(column.get("edges", ())),
        ranges=tuple(tuple(ends) for ends in column.get("ranges", ())),
        counts=tuple(column.get("counts", [0] * len(values))),
        dtype=column.get("dtype", "integer"),
        density=density,
    )


def _floats(values):
    return np.array(values, dtype=np.float64)


def _text(kind, edge):
    if kind == "date":
        return str(np.datetime64(int(edge), "us").astype("datetime64[D]"))
    return f"{edge:g}"


def estimator(name):
    """A fitted estimator that holds the model."""
    found = Strudel()
    found.circuit_ = load(name)
    names = found.circuit_.columns.names
    found.n_features_in_, found.feature_names_in_ = len(names), np.array(names, dtype=object)
    return found
