"""`.jpc` files: probabilistic circuits as ProbabilisticCircuits.jl writes them.

In:  literals, products and sums (version 0.3); indicators, categorical and binomial inputs (0.4).
Out: `Circuit`, products in pairs on the vtree that they follow. Inputs must have two values.

pyjuice gives the same extension to Python pickles, which run code when they are read; we do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.io.formats.ids import Ids
from strudel.io.formats.psdd import log_complement
from strudel.io.formats.shared import (
    check_sums,
    circuit_from_graph,
    finish,
    names_lines,
    sum_product_lines,
)
from strudel.io.formats.text import TextFile, show, signed
from strudel.io.formats.vtree import inorder_ids
from strudel.trees.vtree import Vtree

HEADER = """\
c ids of probabilistic circuit nodes start at 0
c nodes appear bottom-up, children before parents
c
c file syntax:
c jpc count-of-nodes
c L id-of-literal-node id-of-vtree literal
c P id-of-product-node id-of-vtree number-of-children {id-of-child}+
c S id-of-sum-node id-of-vtree number-of-children {id-of-child log-parameter}+
c"""


def read_jpc(file: TextFile, vtree: Vtree | None, renormalize: bool) -> Circuit:
    """The circuit in a file; on `vtree`, if one is given."""
    if file.content[:1] == b"\x80":
        file.refuse(
            "it is a Python pickle, as pyjuice writes it, and reading one could run any program. "
            "Write a text .jpc file with ProbabilisticCircuits.jl instead"
        )
    reader = _Reader(file)
    reader.read()
    widths = [len(weights) for weights in reader.graph.node_log_weights]
    sums = [node for node, width in enumerate(widths) if width]
    check_sums(
        file,
        np.array([w for node in sums for w in reader.graph.node_log_weights[node]]),
        [widths[node] for node in sums],
        [reader.lines[node] for node in sums],
        renormalize,
    )
    circuit = circuit_from_graph(file, reader.graph, reader.lines, vtree)
    return finish(circuit, file, renormalize)


class _Reader:
    """The growing graph, with the line of every node."""

    def __init__(self, file: TextFile) -> None:
        self.file = file
        self.ids = Ids(file)
        self.graph = SumProductGraph()
        self.lines: list[int] = []

    def read(self) -> None:
        header, announced = 0, -1
        for line, tokens in self.file.lines():
            if not header:
                if tokens[0].lower() != b"jpc" or len(tokens) != 2:
                    break
                header, announced = line, self.file.whole(tokens[1], line, "the number of nodes")
                continue
            node = self._read_node(tokens[0].upper(), tokens, line)
            self.ids.define(tokens[1], line, node)
            self.lines += [line] * (self.graph.n_nodes - len(self.lines))
            if len(self.ids) > announced:
                self.file.refuse(f"{announced} nodes were announced, but here are more", line)
        if not header:
            self.file.refuse("it does not start with a line 'jpc number-of-nodes'")
        if len(self.ids) != announced or not announced:
            self.file.refuse(
                f"{announced} nodes were announced, but {len(self.ids)} are here: is it cut short?",
                header,
            )

    def _read_node(self, kind: bytes, tokens: list[bytes], line: int) -> int:
        file, n_tokens = self.file, len(tokens)
        if kind == b"L" and n_tokens == 4:
            return self.graph.add_literal(file.literal(tokens[3], line))
        if kind in (b"P", b"S") and n_tokens >= 5:
            width = file.whole(tokens[3], line, "the number of children")
            each = 1 if kind == b"P" else 2
            if n_tokens != 4 + each * width:
                file.refuse(
                    f"{width} children should take {each * width} words, not {n_tokens - 4}", line
                )
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
            if n_tokens != 6:
                file.refuse(
                    f"a variable has two values here, but this one has {n_tokens - 4}", line
                )
            log_p = [file.real(token, line, "a log-parameter") for token in tokens[4:]]
            return self._add_input(file.variable(tokens[3], line), log_p[0], log_p[1])
        if kind == b"B" and n_tokens == 6:
            if file.whole(tokens[4], line, "the number of trials") != 1:
                file.refuse("a binomial input must have one trial, so that it has two values", line)
            log_one = file.real(tokens[5], line, "a log-parameter")
            return self._add_input(file.variable(tokens[3], line), log_complement(log_one), log_one)
        file.refuse(
            "a node should be L, P, S, I, C or B with its id, vtree and arguments, "
            f"but {n_tokens} words start with {show(tokens[0])}",
            line,
        )

    def _add_input(self, var: int, log_zero: float, log_one: float) -> int:
        pair = [self.graph.add_literal(2 * var + value) for value in (1, 0)]
        return self.graph.add_sum(pair, [log_one, log_zero])


def jpc_lines(circuit: Circuit) -> Iterator[str]:
    """The file, line by line."""
    names = inorder_ids(circuit.vtree).tolist()
    leaf = circuit.vtree.var_leaf.tolist()
    lines = list(
        sum_product_lines(
            circuit,
            literal=lambda n, node: f"L {n} {names[leaf[node // 2]]} {signed(node)}",
            product=lambda n, v, left, right: f"P {n} {names[v]} 2 {left} {right}",
            weighted_sum=lambda n, v, terms: (
                f"S {n} {names[v]} {len(terms)} "
                + " ".join(f"{term} {weight}" for term, weight in terms)
            ),
        )
    )
    yield from HEADER.splitlines()
    yield from names_lines(circuit.feature_names)
    yield f"jpc {len(lines)}"
    yield from lines
