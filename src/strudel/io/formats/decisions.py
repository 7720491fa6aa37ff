"""Lines of decisions among pairs of a prime and a sub: `.psdd`, `.circuit` and `.glc` files.

In:  `.psdd`: probabilistic sentential decision diagrams, which are our normal form, in the dialects
     of Juice, LearnPsdd, pypsdd, PySDD and the UAI compiler of hahaXD/psdd. `.circuit` and `.glc`:
     logistic and regression circuits of mc2 and LogisticCircuit, terminals ``T`` and ``F``,
     decisions ``D`` with bracketed elements, and the bias ``B`` on the last line.
Out: `Circuit`, `PredictorCircuit`.

The vtree follows from the circuit itself, because every decision names what it splits: ids of vtree
nodes, which programs number in three different ways, are not needed and not read. Children are ids;
in some files of LearnPsdd they are places among the node lines, which shows by ids that are not
there. The first line of a `.circuit` file may call a regression circuit logistic, and usually
spells that "Logisitic". We write it in the same way, because programs expect it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from strudel._types import NONE, FloatArray
from strudel.circuits.builder import assemble, columns_of_values
from strudel.circuits.circuit import Circuit
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.io.formats.sum_product import (
    ReadOptions,
    check_sums,
    circuit_from_graph,
    finish,
    log_complement,
    names_lines,
)
from strudel.io.formats.text import Lines, TextFile, number, read_header, show, signed
from strudel.io.formats.trees import inorder_ids
from strudel.trees.vtree import Vtree, VtreeNodes


class DecisionNodes:
    """The node lines, column by column; a node is its place among them."""

    def __init__(self) -> None:
        self.name: list[int] = []
        self.line: list[int] = []
        self.kind: list[bytes] = []
        self.literals: dict[int, int] = {}  # L: node -> literal
        self.coins: dict[int, tuple[int, float, float]] = {}  # T: node -> variable, log P(0), P(1)
        self.decision: list[int] = []  # D: nodes
        self.width: list[int] = []  # D: number of elements
        self.prime: list[int] = []
        self.sub: list[int] = []
        self.log_theta: FloatArray = np.empty(0)

    def largest_variable(self) -> int:
        """Of all lines, whether the root is about it or not."""
        literals = (literal // 2 for literal in self.literals.values())
        return max((*literals, *(coin[0] for coin in self.coins.values())), default=NONE)


def resolve_children(file: TextFile, nodes: DecisionNodes) -> None:
    """Turn primes and subs into nodes that come before their parents."""
    place = {name: node for node, name in enumerate(nodes.name)}
    if len(place) < len(nodes.name):
        seen: set[int] = set()
        for name, line in zip(nodes.name, nodes.line, strict=True):
            if name in seen:
                file.refuse(f"id {name} is used for two nodes", line)
            seen.add(name)
    parent = np.repeat(np.array(nodes.decision, dtype=np.int64), nodes.width)
    n_nodes, late = len(nodes.name), []

    def by_id(child: int) -> int:
        return place.get(child, n_nodes)

    def by_place(child: int) -> int:
        return child if 0 <= child < n_nodes else n_nodes

    for find in (by_id, by_place):
        found = [[find(child) for child in column] for column in (nodes.prime, nodes.sub)]
        late.append(np.flatnonzero((np.array(found, dtype=np.int64) >= parent).any(axis=0)))
        if not len(late[-1]):
            nodes.prime, nodes.sub = found
            return
    bad = int(late[0][0])
    child = (
        nodes.prime[bad]
        if place.get(nodes.prime[bad], parent[bad]) >= parent[bad]
        else nodes.sub[bad]
    )
    file.refuse(f"child {child} is not the id of an earlier node", nodes.line[parent[bad]])


def recover(nodes: DecisionNodes) -> tuple[Vtree, list[int]] | None:
    """The vtree by which all decisions split, and the vtree node of every node; None if none.

    The vtree below a decision is a pair of those below its first prime and sub; equal pairs are
    one. The rest follows from the pair of the root.
    """
    shapes = VtreeNodes()
    number_of: dict[tuple[int, int], int] = {}  # by its two sides, or a variable and NONE
    shape: list[int] = []
    starts = np.concatenate([[0], np.cumsum(nodes.width)]).astype(np.int64).tolist()
    decisions = 0
    for node, kind in enumerate(nodes.kind):
        if kind == b"D":
            element = starts[decisions]
            decisions += 1
            split = (shape[nodes.prime[element]], shape[nodes.sub[element]])
        elif kind == b"L":
            split = (nodes.literals[node] // 2, NONE)
        else:
            split = (nodes.coins[node][0], NONE)
        if split not in number_of:
            number_of[split] = shapes.leaf(split[0]) if split[1] == NONE else shapes.inner(*split)
        shape.append(number_of[split])
    try:
        vtree, number = shapes.build_from(shape[-1])
    except ValueError:  # a variable is shared, or missing
        return None
    placed = number[shape]
    if nodes.decision:
        at = placed[np.repeat(nodes.decision, nodes.width)]
        is_wrong = (placed[nodes.prime] != vtree.node_left[at]) | (
            placed[nodes.sub] != vtree.node_right[at]
        )
        if np.any(is_wrong & (at != NONE)):
            return None
    return vtree, placed.tolist()


def node_arrays(nodes: DecisionNodes, vtree: Vtree, node_vtree: list[int]) -> dict[str, Any]:
    """The arrays that circuits are assembled of; nodes outside the vtree are not below the root."""
    n_literals = 2 * vtree.n_vars
    kinds = np.array(nodes.kind)
    is_inside = np.array(node_vtree) != NONE
    is_sum = is_inside & (kinds != b"L")
    index = np.full(len(kinds), NONE, dtype=np.int64)
    index[is_sum] = n_literals + np.arange(np.count_nonzero(is_sum))
    for node, literal in nodes.literals.items():
        if is_inside[node]:
            index[node] = literal
    coins = [(node, *coin) for node, coin in nodes.coins.items() if is_inside[node]]
    coin_parent = index[[coin[0] for coin in coins]] if coins else np.empty(0, dtype=np.int64)
    coin_var = np.array([coin[1] for coin in coins], dtype=np.int64)
    parent = np.repeat(np.array(nodes.decision, dtype=np.int64), nodes.width)
    kept = np.flatnonzero(is_inside[parent]) if len(parent) else np.empty(0, dtype=np.int64)
    prime, sub = (np.array(column, dtype=np.int64)[kept] for column in (nodes.prime, nodes.sub))
    one_and_zero = [np.array([coin[place] for coin in coins]) for place in (3, 2)]
    right = np.concatenate([np.full(2 * len(coins), NONE), index[sub]])
    return {
        "vtree": vtree,
        "node_vtree": np.concatenate(
            [np.repeat(vtree.var_leaf, 2), np.array(node_vtree, dtype=np.int32)[is_sum]]
        ),
        "edge_parent": np.concatenate([coin_parent, coin_parent, index[parent[kept]]]),
        "edge_left": np.concatenate([2 * coin_var + 1, 2 * coin_var, index[prime]]),
        "edge_right": right.astype(np.int32),
        "edge_log_theta": np.concatenate([*one_and_zero, nodes.log_theta[kept]])[:, np.newaxis],
        "root": int(index[-1]),
    }


PSDD_HEADER = """\
c ids of psdd nodes start at 0
c psdd nodes appear bottom-up, children before parents
c
c file syntax:
c psdd count-of-psdd-nodes
c L id-of-literal-psdd-node id-of-vtree literal
c T id-of-trueNode-psdd-node id-of-vtree variable log(litProb)
c D id-of-decomposition-psdd-node id-of-vtree number-of-elements {prime sub log(elementProb)}*
c"""

ROUNDING = 1e-14  # of a log-parameter that a T line gives by the other


def read_psdd(file: TextFile, options: ReadOptions) -> Circuit:
    """The circuit in a file; on a vtree, if one is given."""
    nodes, announced = _read_psdd_nodes(file)
    lines = [nodes.line[node] for node in (*nodes.decision, *nodes.coins)]
    coins = np.array([coin[1:] for coin in nodes.coins.values()]).ravel()
    width = [*nodes.width, *[2] * len(nodes.coins)]
    check_sums(file, np.concatenate([nodes.log_theta, coins]), width, lines, options)
    resolve_children(file, nodes)
    _check_is_whole(file, nodes, announced)
    recovered = recover(nodes)
    if recovered is None or options.vtree not in (None, recovered[0]):
        return circuit_from_graph(file, *_as_graph(nodes), options)
    columns = columns_of_values([2] * recovered[0].n_vars)
    circuit = assemble(columns, **node_arrays(nodes, *recovered))
    return finish(circuit, file, options, nodes.largest_variable())


def _check_is_whole(file: TextFile, nodes: DecisionNodes, announced: int | None) -> None:
    """Refuse an incomplete file."""
    n_nodes = len(nodes.kind)
    if announced is None or announced <= n_nodes:
        return
    # The number is often wrong, as some programs also count elements. But where the end is missing,
    # more nodes than the root have no parent; literals may always have none.
    loose = {*nodes.decision, *nodes.coins}.difference(nodes.prime, nodes.sub)
    if len(loose) > 1:
        file.refuse(f"{announced} nodes were announced, but there are {n_nodes}: it is incomplete")


def _read_psdd_nodes(file: TextFile) -> tuple[DecisionNodes, int | None]:
    nodes = DecisionNodes()
    lines = file.lines()
    header, announced = read_header(file, lines, b"psdd")
    names, primes, subs, log_thetas = [], [], [], []
    for line, tokens in lines:
        kind = tokens[0].upper()
        n_tokens = len(tokens)
        if kind == b"D" and n_tokens >= 7:
            width = file.width(tokens[3], n_tokens - 4, line, "elements", each=3)
            nodes.decision.append(len(nodes.kind))
            nodes.width.append(width)
            primes += tokens[4::3]
            subs += tokens[5::3]
            log_thetas += tokens[6::3]
        elif kind == b"L" and n_tokens == 4:
            nodes.literals[len(nodes.kind)] = file.literal(tokens[3], line)
        elif kind == b"T" and n_tokens in (5, 6):
            nodes.coins[len(nodes.kind)] = _read_coin(file, tokens, line)
        else:
            forms = (
                "'L id vtree literal', 'T id vtree variable log-probability' or "
                "'D id vtree k prime sub log-theta ...'"
            )
            file.refuse_line(forms, tokens, line)
        nodes.kind.append(kind)
        names.append(tokens[1])
        nodes.line.append(line)
    if not nodes.kind:
        file.refuse("it has no nodes", header)
    lines_of = np.repeat([nodes.line[node] for node in nodes.decision], nodes.width)
    where = lines_of.tolist()
    nodes.name = file.wholes(names, nodes.line, "an id")
    nodes.prime = file.wholes(primes, where, "a prime")
    nodes.sub = file.wholes(subs, where, "a sub")
    nodes.log_theta = file.reals(log_thetas, where, "a log-parameter")
    return nodes, announced


def _read_coin(file: TextFile, tokens: list[bytes], line: int) -> tuple[int, float, float]:
    """Variable, log P(0) and log P(1); the second is given alone, or after the first."""
    var = file.variable(tokens[3], line)
    log_one = file.real(tokens[-1], line, "a log-probability")
    if len(tokens) == 6:
        return var, file.real(tokens[4], line, "a log-probability"), log_one
    return var, log_complement(log_one), log_one


def _as_graph(nodes: DecisionNodes) -> tuple[SumProductGraph, list[int]]:
    """The nodes as sums and products, whose elements may be in any order, and their lines."""
    graph = SumProductGraph()
    number_of: list[int] = []
    line_of: list[int] = []
    starts = np.concatenate([[0], np.cumsum(nodes.width)]).astype(np.int64).tolist()
    decisions = 0
    log_theta = nodes.log_theta.tolist()
    for node, kind in enumerate(nodes.kind):
        if kind == b"L":
            number_of.append(graph.add_literal(nodes.literals[node]))
        elif kind == b"T":
            var, *log_p = nodes.coins[node]
            number_of.append(graph.add_table(var, log_p))
        else:
            elements = slice(starts[decisions], starts[decisions + 1])
            decisions += 1
            products = [
                graph.add_product([number_of[prime], number_of[sub]])
                for prime, sub in zip(nodes.prime[elements], nodes.sub[elements], strict=True)
            ]
            number_of.append(graph.add_sum(products, log_theta[elements]))
        line_of += [nodes.line[node]] * (graph.n_nodes - len(line_of))
    return graph, line_of


def psdd_lines(circuit: Circuit) -> Iterator[str]:
    """The file, line by line."""
    names = inorder_ids(circuit.vtree).tolist()
    at = [names[v] for v in circuit.node_vtree.tolist()]
    made: dict[str, int] = {}  # the lines of leaves without their ids; equal ones are one
    node_name: list[int] = []
    lines: list[str] = []
    tables = circuit.leaf_log_p.reshape(-1, 2).tolist()
    for place, var, (zero, one) in zip(at, circuit.leaf_column.tolist(), tables, strict=False):
        is_fixed = max(zero, one) == 0.0 and min(zero, one) == -np.inf
        words = f"{signed(2 * var + (one == 0.0))}" if is_fixed else f"{var + 1} {_coin(zero, one)}"
        kind = "L" if is_fixed else "T"
        key = f"{kind} {words}"
        if key not in made:
            made[key] = len(made)
            lines.append(f"{kind} {made[key]} {place} {words}")
        node_name.append(made[key])
    left, right = circuit.edge_left.tolist(), circuit.edge_right.tolist()
    log_theta, ends = circuit.edge_log_theta[:, 0].tolist(), circuit.sum_edges.tolist()
    for place, start, stop in zip(at[circuit.n_leaves :], ends, ends[1:], strict=False):
        node_name.append(len(lines))
        elements = " ".join(
            f"{node_name[left[e]]} {node_name[right[e]]} {number(log_theta[e])}"
            for e in range(start, stop)
        )
        lines.append(f"D {len(lines)} {place} {stop - start} {elements}")
    yield from PSDD_HEADER.splitlines()
    yield from names_lines(circuit.columns)
    yield f"psdd {len(lines)}"
    yield from lines


def _coin(log_zero: float, log_one: float) -> str:
    """The parameters of a T line: one where it says enough, as all readers know; else both."""
    # Near P(1) = 1 the log of P(0), kept apart in memory, is the finer of the two.
    for only in (log_one, log_complement(log_zero)):
        if _is_same(only, log_one) and _is_same(log_complement(only), log_zero):
            return number(only)
    return f"{number(log_zero)} {number(log_one)}"


def _is_same(a: float, b: float) -> bool:
    """Whether two logs are equal but for the rounding of their last digits."""
    return a == b or (np.isfinite(a) and abs(a - b) <= ROUNDING * max(1.0, abs(a)))


PREDICTOR_HEADER = """\
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
    reader = _PredictorReader(file)
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
    columns = columns_of_values([2] * recovered[0].n_vars)
    structure = assemble(columns, **node_arrays(nodes, *recovered))
    element = (-structure.edge_log_theta[:, 0]).astype(np.int64)
    literal_weight = np.zeros((2 * len(columns), reader.n_outputs))
    for node, literal in nodes.literals.items():
        literal_weight[literal] = reader.terminal_weight[node]
    of_cells = (2 * structure.leaf_column[:, np.newaxis] + np.array([0, 1])).ravel()
    return PredictorCircuit(
        structure=replace(structure, edge_log_theta=np.zeros_like(structure.edge_log_theta)),
        cell_weight=np.where(structure.leaf_log_p > -np.inf, literal_weight[of_cells], 0.0),
        edge_weight=reader.element_weight[element],
        bias=reader.bias,
        kind=reader.kind,
    )


class _PredictorReader:
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
    """The file, line by line; edges carry what leaves weigh, which have literals only there."""
    structure = predictor.structure
    n_vars = len(structure.columns)
    if not structure.n_edges:
        raise ValueError("A predictor over one variable has no decisions, as the file needs them.")
    names = inorder_ids(structure.vtree).tolist()
    first = 2 * n_vars - structure.n_leaves  # literals come before the decisions

    def weights(row: FloatArray) -> str:
        return " ".join(map(number, row.tolist()))

    def below(node: int) -> list[tuple[int, FloatArray | float]]:
        """What stands for a child, and what it weighs."""
        if node >= structure.n_leaves:
            return [(first + node, 0.0)]
        at, var = structure.leaf_first[node], int(structure.leaf_column[node])
        cells = [cell for cell in (0, 1) if structure.leaf_log_p[at + cell, 0] > -np.inf]
        return [(2 * var + cell, predictor.cell_weight[at + cell]) for cell in cells]

    yield from PREDICTOR_HEADER.splitlines()
    yield "Logisitic Circuit" if predictor.kind == "logistic" else "Regression Circuit"
    nothing = weights(np.zeros(predictor.n_outputs))
    for letter, value in (("T", 1), ("F", 0)):
        for var in range(n_vars):
            leaf = names[structure.vtree.var_leaf[var]]
            yield f"{letter} {2 * var + value} {leaf} {var + 1} {nothing}"
    for s, v in enumerate(structure.sum_vtree.tolist()):
        elements = [
            f"({left} {right} {weights(predictor.edge_weight[e] + more + most)})"
            for e in range(structure.sum_edges[s], structure.sum_edges[s + 1])
            for left, more in below(int(structure.edge_left[e]))
            for right, most in below(int(structure.edge_right[e]))
        ]
        yield f"D {2 * n_vars + s} {names[v]} {len(elements)} {' '.join(elements)}"
    yield f"B {weights(predictor.bias)}"
