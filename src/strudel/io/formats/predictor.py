"""`.circuit` and `.glc` files: logistic and regression circuits.

In:  the format of mc2 and LogisticCircuit: terminals ``T`` and ``F``, decisions ``D`` with
     bracketed elements, and the bias ``B`` on the last line.
Out: `PredictorCircuit`.

The vtree follows from the decisions. The first line may call a regression circuit logistic, and
usually spells that "Logisitic". We write it in the same way, because programs expect it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.io.formats.decision_lines import (
    DecisionNodes,
    assemble_nodes,
    recover,
    resolve_children,
)
from strudel.io.formats.shared import ReadOptions
from strudel.io.formats.text import Lines, TextFile, number, show
from strudel.io.formats.vtree import inorder_ids

HEADER = """\
c variables (from inputs) start from 1
c ids of logistic circuit nodes start from 0
c nodes appear bottom-up, children before parents
c the last line of the file records the bias parameter
c three types of nodes:
c	T (terminal nodes that correspond to true literals)
c	F (terminal nodes that correspond to false literals)
c	D (OR gates)
c
c file syntax:
c Logisitic Circuit
c T id-of-true-literal-node id-of-vtree variable parameters
c F id-of-false-literal-node id-of-vtree variable parameters
c D id-of-or-gate id-of-vtree number-of-elements (id-of-prime id-of-sub parameters)s
c B bias-parameters
c"""

TITLES: dict[bytes, Literal["logistic", "regression"]] = {
    b"logisitic circuit": "logistic",
    b"logistic circuit": "logistic",
    b"regression circuit": "regression",
}


def read_predictor(file: TextFile, options: ReadOptions) -> PredictorCircuit:
    """The predictor in a file; a vtree, if one is given, must be the one it follows."""
    reader = _Reader(file)
    reader.read()
    nodes = reader.nodes
    resolve_children(file, nodes)
    recovered = recover(nodes)
    if recovered is None:
        file.refuse("its decisions do not split the variables 1 to n by one vtree", nodes.line[-1])
    if nodes.largest_variable() >= recovered[0].n_vars:
        file.refuse(
            f"it mentions variable {nodes.largest_variable() + 1}, but its root has "
            f"{recovered[0].n_vars}",
            nodes.line[-1],
        )
    if options.vtree not in (None, recovered[0]):
        file.refuse("it does not follow the given vtree", nodes.line[-1])
    # Every edge carries its place among the elements through the sorting of nodes.
    nodes.log_theta = -np.arange(len(nodes.prime), dtype=np.float64)
    structure = assemble_nodes(nodes, *recovered)
    element = (-structure.edge_log_theta).astype(np.int64)
    literal_weight = np.zeros((2 * structure.n_vars, reader.n_outputs))
    for node, literal in nodes.literals.items():
        literal_weight[literal] = reader.terminal_weight[node]
    return PredictorCircuit(
        structure=structure.with_parameters(np.zeros(structure.n_edges)),
        literal_weight=literal_weight,
        edge_weight=reader.element_weight[element],
        bias=reader.bias,
        kind=reader.kind,
    )


class _Reader:
    """The lines of a file, collected."""

    def __init__(self, file: TextFile) -> None:
        self.file = file
        self.nodes = DecisionNodes()
        self.kind: Literal["logistic", "regression"] = "logistic"
        self.n_outputs = 0
        self.terminal_weight: dict[int, FloatArray] = {}
        self.element_weight: FloatArray = np.empty((0, 0))
        self.bias: FloatArray = np.empty(0)

    def read(self) -> None:
        file, nodes = self.file, self.nodes
        lines = file.lines()
        self._read_title(lines)
        primes, subs, weights, at = [], [], [], []
        taken: set[int] = set()
        for line, tokens in lines:
            kind = tokens[0].upper()
            if kind == b"B":
                self.bias = self._weights(tokens[1:], line)
                break
            if len(tokens) < 5 or kind not in (b"T", b"F", b"D"):
                forms = (
                    "'T|F id vtree variable weights', 'D id vtree k (prime sub weights) ...' or "
                    "'B weights'"
                )
                file.refuse_line(forms, tokens, line)
            node = len(nodes.kind)
            if kind == b"D":
                words = b" ".join(tokens[4:]).replace(b"(", b" ").replace(b")", b" ").split()
                each = 2 + self.n_outputs
                width = file.width(tokens[3], len(words), line, "elements", each)
                if width < 1 or not self.n_outputs:
                    file.refuse("a decision should have elements, and literals before it", line)
                nodes.decision.append(node)
                nodes.width.append(width)
                primes += words[::each]
                subs += words[1::each]
                weights += [
                    word for k in range(width) for word in words[k * each + 2 : (k + 1) * each]
                ]
                at += [line] * width
            else:
                literal = 2 * file.variable(tokens[3], line) + (kind == b"T")
                if literal in taken:
                    file.refuse("this literal has a second line with weights", line)
                taken.add(literal)
                nodes.literals[node] = literal
                self.terminal_weight[node] = self._weights(tokens[4:], line)
            nodes.kind.append(b"D" if kind == b"D" else b"L")
            nodes.name.append(file.whole(tokens[1], line, "an id"))
            nodes.line.append(line)
        else:
            file.refuse("it does not end with a line 'B weights': is it incomplete?")
        for line, _ in lines:
            file.refuse("the line of the bias, B, should be the last", line)
        if not nodes.kind or nodes.kind[-1] != b"D":
            file.refuse("its last node, the root, should be a decision")
        nodes.prime = file.wholes(primes, at, "a prime")
        nodes.sub = file.wholes(subs, at, "a sub")
        where = [line for line in at for _ in range(self.n_outputs)]
        flat = self._finite(weights, where)
        self.element_weight = flat.reshape(-1, self.n_outputs)

    def _read_title(self, lines: Lines) -> None:
        for line, tokens in lines:
            title = b" ".join(tokens).lower()
            if title not in TITLES:
                self.file.refuse(
                    "it should start with 'Logistic Circuit' or 'Regression Circuit', "
                    f"but starts with {show(title)}",
                    line,
                )
            self.kind = TITLES[title]
            return
        self.file.refuse("it is empty")

    def _weights(self, tokens: list[bytes], line: int) -> FloatArray:
        """As many weights as there are outputs, as on the first line with weights."""
        self.n_outputs = self.n_outputs or len(tokens)
        if len(tokens) != self.n_outputs:
            self.file.refuse(
                f"there should be {self.n_outputs} weights as before, but there are {len(tokens)}",
                line,
            )
        return self._finite(tokens, [line] * len(tokens))

    def _finite(self, tokens: list[bytes], lines: list[int]) -> FloatArray:
        values = self.file.reals(tokens, lines, "a weight")
        for place in np.flatnonzero(np.isinf(values))[:1]:
            self.file.refuse(f"a weight should be finite, but is {values[place]}", lines[place])
        return values


def predictor_lines(predictor: PredictorCircuit) -> Iterator[str]:
    """The file, line by line."""
    structure = predictor.structure
    n_literals = 2 * predictor.n_vars
    leaf_sums = structure.vtree.node_var[structure.node_vtree[n_literals:]] != -1
    if np.any(leaf_sums):
        raise ValueError(
            "A .circuit file has no sums over one variable, but this predictor has "
            f"{np.count_nonzero(leaf_sums)} of them. Write without_leaf_sums(predictor)."
        )
    names = inorder_ids(structure.vtree).tolist()
    node_vtree = structure.node_vtree.tolist()
    start = structure.node_edges.tolist()
    left, right = structure.edge_left.tolist(), structure.edge_right.tolist()

    def weights(row: FloatArray) -> str:
        return " ".join(map(number, row.tolist()))

    yield from HEADER.splitlines()
    yield "Logisitic Circuit" if predictor.kind == "logistic" else "Regression Circuit"
    for letter, value in (("T", 1), ("F", 0)):
        for var in range(predictor.n_vars):
            node = 2 * var + value
            row = weights(predictor.literal_weight[node])
            yield f"{letter} {node} {names[node_vtree[node]]} {var + 1} {row}"
    for node in range(n_literals, structure.n_nodes):
        edges = range(start[node], start[node + 1])
        elements = " ".join(
            f"({left[e]} {right[e]} {weights(predictor.edge_weight[e])})" for e in edges
        )
        yield f"D {node} {names[node_vtree[node]]} {len(edges)} {elements}"
    yield f"B {weights(predictor.bias)}"
