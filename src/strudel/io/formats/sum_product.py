"""Circuits of sums and products: what all their readers share, and `.jpc` and `.spn` files.

In:  what a reader found in a `TextFile`. `.jpc`: the formats of ProbabilisticCircuits.jl, literals,
     products and sums (version 0.3), or indicators, categorical and binomial inputs (0.4). `.spn`:
     sum-product networks as Juice and Libra write them, a line ``(2 2 ... 2)`` with the number of
     values of every variable, then indicators, products and sums, whose children are places among
     the lines; the last node is the root.
Out: `Circuit`, products in pairs on the vtree that they follow, or `FileFormatError`.
     Categorical inputs of `.jpc` files may have any number of values, 0, 1, 2, ...

pyjuice gives the extension `.jpc` to Python pickles, which run code when they are read, and
RPCircuits.jl `.spn` to another format: both are refused.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.reweigh import adds_up, normalized, pruned, side_by_side
from strudel.circuits.sum_product_graph import SumProductGraph, normal_form, recover_vtree
from strudel.errors import GraphError, NormalizedWarning
from strudel.io.formats.text import Ids, Lines, TextFile, number, read_header, show, signed
from strudel.io.formats.trees import inorder_ids
from strudel.queries.given import circuit_of
from strudel.tables.column import BIT, Column
from strudel.tables.schema import Columns, why_not_columns
from strudel.trees.vtree import Vtree

TOLERANCE = 1e-6  # how far from one the parameters of a sum may add up: files with seven digits
LARGEST = 1e6  # of a log-parameter that is to be normalised: sums of these stay finite
NAMES = b"c feature_names "


class ReadOptions(NamedTuple):
    """What a reader takes besides the file."""

    vtree: Vtree | None
    node_of_id: dict[int, int] | None  # ids of the vtree's file
    normalize: bool


def check_sums(
    file: TextFile,
    log_theta: FloatArray,
    width: Sequence[int],
    lines: Sequence[int],
    options: ReadOptions,
) -> None:
    """Refuse parameters that do not add up to one; `width` and `lines` have one entry per sum.

    If they are to be normalised, say how many did not.
    """
    if len(width) == 0:
        return
    starts = np.cumsum(width) - np.asarray(width)
    with np.errstate(over="ignore"):
        total = np.add.reduceat(np.exp(log_theta), starts)
    is_bad = ~(np.abs(total - 1.0) <= TOLERANCE)
    if options.normalize:
        if is_bad.any():
            warnings.warn(
                f"{file.path}: the parameters of {np.count_nonzero(is_bad)} of {len(is_bad)} sums "
                "did not add up to 1, and were normalised.",
                NormalizedWarning,
                stacklevel=2,
            )
        is_bad = np.maximum.reduceat(log_theta, starts) > LARGEST
    for place in np.flatnonzero(is_bad)[:1]:
        advice = (
            "" if options.normalize else ". Read it with normalize=True (--normalize) if it should"
        )
        file.refuse(
            f"the parameters of a sum add up to {total[place]:.6g}, not to 1{advice}", lines[place]
        )


def finish(circuit: Circuit, file: TextFile, options: ReadOptions, mentioned: int) -> Circuit:
    """The circuit with its names, normalised if that was asked for.

    `mentioned` is the largest variable of any line: if the root is not about it, the circuit is
    only a part of what the file says.
    """
    n_vars = len(circuit.columns)
    if mentioned >= n_vars:
        file.refuse(f"it mentions variable {mentioned + 1}, but its root has {n_vars}")
    if options.normalize or not adds_up(circuit):
        found, log_total = normalized(circuit)
        if found is None:
            file.refuse("every row is impossible, so there is nothing to normalise")
        circuit = replace(found, log_total=0.0 if options.normalize else log_total)
    names = read_names(file, n_vars)
    if names is None:
        return circuit
    named = circuit.with_names(names)
    problem = why_not_columns(named.columns)
    return file.refuse(problem) if problem is not None else named


def circuit_from_graph(
    file: TextFile, graph: SumProductGraph, lines: Sequence[int], options: ReadOptions
) -> Circuit:
    """The circuit of a smooth graph, on a vtree if one is given; `lines` says where nodes are."""
    weights = graph.node_log_weights
    sums = [node for node in range(graph.n_nodes) if weights[node]]
    check_sums(
        file,
        np.array([weight for node in sums for weight in weights[node]]),
        [len(weights[node]) for node in sums],
        [lines[node] for node in sums],
        options,
    )
    try:
        vtree = recover_vtree(graph) if options.vtree is None else options.vtree
        circuit = normal_form(graph, vtree)
    except GraphError as error:
        file.refuse(f"this circuit has no normal form: {error}", lines[error.node])
    assert circuit is not None  # nothing is false in a graph without empty sums
    return finish(circuit, file, options, max(graph.node_literal, default=NONE) // 2)


def read_names(file: TextFile, n_vars: int) -> tuple[str, ...] | None:
    """Feature names from the comment in which `names_lines` keeps them."""
    if NAMES not in file.content:
        return None
    for line in io.BytesIO(file.content):
        if line.startswith(NAMES):
            try:
                names = json.loads(line[len(NAMES) :])
            except (ValueError, RecursionError):
                return None  # somebody else's comment
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                if len(names) != n_vars:
                    file.refuse(f"it has {len(names)} feature names for {n_vars} variables")
                return tuple(names)
    return None


def names_lines(columns: Columns) -> list[str]:
    """A comment that holds the names of the columns, if they are not the usual x0, x1, ..."""
    names = list(columns.names)
    is_usual = names == list(names_of(len(names), None))
    return [] if is_usual else [NAMES.decode() + json.dumps(names)]


def sum_product_lines(
    circuit: Circuit,
    *,
    literal: Callable[[int, int, int], str],
    product: Callable[[int, int, int, int], str],
    weighted_sum: Callable[[int, int, Sequence[tuple[int, str]]], str],
    categories: Callable[[int, int, Sequence[str]], str] | None = None,
) -> Iterator[str]:
    """A circuit as lines of literals, products and sums, children first, numbered from 0.

    The functions make a line of the number, the vtree node (or the column and its value) and the
    children. A leaf is a literal or a sum over two, or the logs of all its `categories`. A sum of
    one product with parameter 1 is written as the product alone, which reads back the same.
    """
    number_of: list[int] = []  # of every node
    literals: dict[tuple[int, int], int] = {}
    n_lines = 0
    for leaf, place in enumerate(circuit.leaf_column.tolist()):
        first, last = circuit.leaf_first[leaf : leaf + 2]
        log_p = circuit.leaf_log_p[first:last, 0].tolist()
        if not is_bit(circuit.columns[place]):
            assert categories is not None  # `circuit_to_write` refuses others
            yield categories(n_lines, place, list(map(number, log_p)))
            number_of.append(n_lines)
            n_lines += 1
            continue
        terms = [(value, own) for value, own in enumerate(log_p) if own > -np.inf]
        for value, _ in terms:
            if (place, value) not in literals:
                yield literal(n_lines, place, value)
                literals[place, value] = n_lines
                n_lines += 1
        if len(terms) == 1 and terms[0][1] == 0.0:
            number_of.append(literals[place, terms[0][0]])
            continue
        weights = [(literals[place, value], number(own)) for value, own in terms[::-1]]
        yield weighted_sum(n_lines, int(circuit.vtree.var_leaf[place]), weights)
        number_of.append(n_lines)
        n_lines += 1
    left, right = circuit.edge_left.tolist(), circuit.edge_right.tolist()
    log_theta, ends = circuit.edge_log_theta[:, 0].tolist(), circuit.sum_edges.tolist()
    for place, start, stop in zip(circuit.sum_vtree.tolist(), ends, ends[1:], strict=False):
        for edge in range(start, stop):
            yield product(
                n_lines + edge - start, place, number_of[left[edge]], number_of[right[edge]]
            )
        weights = [(n_lines + edge - start, number(log_theta[edge])) for edge in range(start, stop)]
        n_lines += stop - start
        if len(weights) == 1 and log_theta[start] == 0.0:
            number_of.append(n_lines - 1)
            continue
        yield weighted_sum(n_lines, place, weights)
        number_of.append(n_lines)
        n_lines += 1


def is_bit(column: Column) -> bool:
    """Whether a column is a 0/1 variable of a file."""
    return column.kind in (BIT, "boolean") and column.n_cells == 2


def circuit_to_write(model: Any, suffix: str) -> Circuit:
    """The one circuit that is written for a model, if the format can hold it."""
    circuit = circuit_of(model)
    for column in circuit.columns:
        if is_bit(column) or (suffix == ".jpc" and not column.is_numeric):
            continue
        more = " and categories" if suffix == ".jpc" else ""
        raise ValueError(
            f"A {suffix} file holds variables of 0 and 1{more}, but column {column.name!r} is of "
            f"kind {column.kind!r}. Keep this model in a .strudel file."
        )
    if abs(circuit.log_total) > 1000 * TOLERANCE:  # rounding adds up
        raise ValueError(
            f"A file holds circuits that add up to 1, but this one adds up to "
            f"{np.exp(circuit.log_total):.6g}. Normalise it first."
        )
    return pruned(side_by_side(circuit))


def log_complement(log_p: float) -> float:
    """`log(1 - exp(log_p))` to the last digits on both sides."""
    if log_p >= 0.0:
        return -np.inf
    if log_p > -0.6931471805599453:
        return float(np.log(-np.expm1(log_p)))
    return float(np.log1p(-np.exp(log_p)))


JPC_HEADER = """\
c ids of probabilistic circuit nodes start at 0
c nodes appear bottom-up, children before parents
c
c file syntax:
c jpc count-of-nodes
c L id-of-literal-node id-of-vtree literal
c P id-of-product-node id-of-vtree number-of-children {id-of-child}+
c S id-of-sum-node id-of-vtree number-of-children {id-of-child log-parameter}+
c"""


def read_jpc(file: TextFile, options: ReadOptions) -> Circuit:
    """The circuit in a file; on a vtree, if one is given."""
    if file.content[:1] == b"\x80":
        file.refuse(
            "it is a Python pickle, as pyjuice writes it, and reading one could run any program. "
            "Write a text .jpc file with ProbabilisticCircuits.jl instead"
        )
    reader = _JpcReader(file)
    reader.read()
    return circuit_from_graph(file, reader.graph, reader.lines, options)


class _JpcReader:
    """The growing graph, with the line of every node."""

    def __init__(self, file: TextFile) -> None:
        self.file = file
        self.ids = Ids(file)
        self.graph = SumProductGraph()
        self.lines: list[int] = []

    def read(self) -> None:
        lines = self.file.lines()
        header, announced = read_header(self.file, lines, b"jpc")
        if announced is None:
            self.file.refuse("it should start with a line 'jpc number-of-nodes'", header)
        for line, tokens in lines:
            node = self._read_node(tokens[0].upper(), tokens, line)
            self.ids.define(tokens[1], line, node)
            self.lines += [line] * (self.graph.n_nodes - len(self.lines))
            if len(self.ids) > announced:
                self.file.refuse(f"{announced} nodes were announced, but there are more", line)
        self.file.check_announced(announced, len(self.ids), header, "nodes")
        if not announced:
            self.file.refuse("it has no nodes", header)

    def _read_node(self, kind: bytes, tokens: list[bytes], line: int) -> int:
        file, n_tokens = self.file, len(tokens)
        if kind == b"L" and n_tokens == 4:
            return self.graph.add_literal(file.literal(tokens[3], line))
        if kind in (b"P", b"S") and n_tokens >= 5:
            file.width(tokens[3], n_tokens - 4, line, each=1 if kind == b"P" else 2)
            if kind == b"P":
                return self.graph.add_product(self.ids.find(tokens[4:], line))
            children = self.ids.find(tokens[4::2], line)
            weights = [file.real(token, line, "a log-parameter") for token in tokens[5::2]]
            return self.graph.add_sum(children, weights)
        if kind == b"I" and n_tokens == 5:
            values = {b"0": 0, b"1": 1, b"false": 0, b"true": 1}
            value = values.get(tokens[4].lower())
            if value is None:
                file.refuse(f"a variable has the values 0 and 1 here, not {show(tokens[4])}", line)
            return self.graph.add_literal(2 * file.variable(tokens[3], line) + value)
        if kind == b"C" and n_tokens >= 5:
            log_p = [file.real(token, line, "a log-parameter") for token in tokens[4:]]
            if len(log_p) < 2:
                file.refuse("a variable has at least two values, but this one has 1", line)
            return self.graph.add_table(file.variable(tokens[3], line), log_p)
        if kind == b"B" and n_tokens == 6:
            if file.whole(tokens[4], line, "the number of trials") != 1:
                file.refuse("a binomial input must have one trial, so that it has two values", line)
            log_one = file.real(tokens[5], line, "a log-parameter")
            log_p = [log_complement(log_one), log_one]
            return self.graph.add_table(file.variable(tokens[3], line), log_p)
        forms = "L, P, S, I, C or B with its id, vtree and arguments"
        file.refuse_line(forms, tokens, line)


def jpc_lines(circuit: Circuit) -> Iterator[str]:
    """The file, line by line."""
    names = inorder_ids(circuit.vtree).tolist()
    leaf = [names[v] for v in circuit.vtree.var_leaf.tolist()]
    lines = list(
        sum_product_lines(
            circuit,
            literal=lambda n, var, value: f"L {n} {leaf[var]} {signed(2 * var + value)}",
            product=lambda n, v, left, right: f"P {n} {names[v]} 2 {left} {right}",
            weighted_sum=lambda n, v, terms: (
                f"S {n} {names[v]} {len(terms)} "
                + " ".join(f"{term} {weight}" for term, weight in terms)
            ),
            categories=lambda n, var, logs: f"C {n} {leaf[var]} {var + 1} {' '.join(logs)}",
        )
    )
    yield from JPC_HEADER.splitlines()
    if any(line[0] == "C" for line in lines):
        yield "c C id-of-input-node id-of-vtree variable {log-parameter of value}+"
    yield from names_lines(circuit.columns)
    yield f"jpc {len(lines)}"
    yield from lines


def read_spn(file: TextFile, options: ReadOptions) -> Circuit:
    """The circuit in a file; on a vtree, if one is given."""
    lines = file.lines(comments=False)
    n_vars, header = _read_values(file, lines)
    graph = SumProductGraph()
    at: list[int] = []
    is_closed = False
    for line, tokens in lines:
        if tokens == [b"EOF"]:
            is_closed = True
            break
        _read_spn_node(file, graph, tokens, line, n_vars)
        at.append(line)
    if not is_closed or not at:
        file.refuse("it does not end with a line 'EOF': is it incomplete?")
    circuit = circuit_from_graph(file, graph, at, options)
    if len(circuit.columns) != n_vars:
        file.refuse(f"the root mentions {len(circuit.columns)} variables, not {n_vars}", header)
    return circuit


def _read_values(file: TextFile, lines: Lines) -> tuple[int, int]:
    """The number of variables, from the line that lists their numbers of values."""
    for line, tokens in lines:
        text = b" ".join(tokens)
        if not (text.startswith(b"(") and text.endswith(b")")):
            file.refuse(
                "it should start with the numbers of values, as in '(2 2 2)', but starts with "
                f"{show(text)}. The .spn format of RPCircuits.jl is different and is not read",
                line,
            )
        values = text[1:-1].split()
        for value in values:
            if value != b"2":
                file.refuse(f"a variable has two values here, not {show(value)}", line)
        return len(values), line
    file.refuse("it is empty")


def _read_spn_node(
    file: TextFile, graph: SumProductGraph, tokens: list[bytes], line: int, n_vars: int
) -> None:
    kind, rest = tokens[0], tokens[1:]
    if kind == b"v" and len(rest) == 2:
        var = file.whole(rest[0], line, "a variable")
        if not 0 <= var < n_vars or rest[1] not in (b"0", b"1"):
            file.refuse(
                f"an indicator needs a variable from 0 to {n_vars - 1} and a value 0 or 1", line
            )
        graph.add_literal(2 * var + int(rest[1]))
        return
    if kind == b"*" and rest:
        graph.add_product(file.earlier_nodes(rest, line, graph.n_nodes))
        return
    if kind == b"+" and rest and len(rest) % 2 == 0:
        weights = [file.real(token, line, "a log-parameter") for token in rest[1::2]]
        graph.add_sum(file.earlier_nodes(rest[::2], line, graph.n_nodes), weights)
        return
    forms = "'v variable value', '* children' or '+ child log-parameter ...'"
    file.refuse_line(forms, tokens, line)


def spn_lines(circuit: Circuit) -> Iterator[str]:
    """The file, line by line; names have no place in it."""
    yield "(" + " ".join(["2"] * len(circuit.columns)) + ")"
    yield from sum_product_lines(
        circuit,
        literal=lambda n, var, value: f"v {var} {value}",
        product=lambda n, v, left, right: f"* {left} {right}",
        weighted_sum=lambda n, v, terms: (
            "+ " + " ".join(f"{term} {weight}" for term, weight in terms)
        ),
    )
    yield "EOF"
