"""`.jpc` files: probabilistic circuits as ProbabilisticCircuits.jl writes them.

In:  literals, products and sums (version 0.3); indicators, categorical and binomial inputs (0.4).
Out: `Circuit`, products in pairs on the vtree that they follow. Inputs must have two values.

pyjuice gives the same extension to Python pickles, which run code when they are read; we do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from strudel.circuits.circuit import Circuit
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.io.formats.psdd import log_complement
from strudel.io.formats.shared import (
    ReadOptions,
    circuit_from_graph,
    names_lines,
    sum_product_lines,
)
from strudel.io.formats.text import Ids, TextFile, show, signed
from strudel.io.formats.vtree import inorder_ids, read_header

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


def read_jpc(file: TextFile, options: ReadOptions) -> Circuit:
    """The circuit in a file; on a vtree, if one is given."""
    if file.content[:1] == b"\x80":
        file.refuse(
            "it is a Python pickle, as pyjuice writes it, and reading one could run any program. "
            "Write a text .jpc file with ProbabilisticCircuits.jl instead"
        )
    reader = _Reader(file)
    reader.read()
    return circuit_from_graph(file, reader.graph, reader.lines, options)


class _Reader:
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
        forms = "L, P, S, I, C or B with its id, vtree and arguments"
        file.refuse_line(forms, tokens, line)

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
