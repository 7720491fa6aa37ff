"""`.psdd` files: probabilistic sentential decision diagrams, which are our normal form.

In:  the dialects of Juice, LearnPsdd, pypsdd, PySDD and the UAI compiler of hahaXD/psdd.
Out: `Circuit`.

The vtree follows from the circuit itself, because every decision names what it splits: ids of vtree
nodes, which programs number in three different ways, are not needed and not read. Children are ids;
in some files of LearnPsdd they are places among the node lines, which shows by ids that are not
there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strudel._types import NONE
from strudel.circuits.circuit import Circuit
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.io.formats.decision_lines import (
    DecisionNodes,
    assemble_nodes,
    recover,
    resolve_children,
)
from strudel.io.formats.shared import (
    ReadOptions,
    check_sums,
    circuit_from_graph,
    finish,
    names_lines,
)
from strudel.io.formats.text import TextFile, number, signed
from strudel.io.formats.vtree import inorder_ids, read_header

HEADER = """\
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
    nodes, announced = _read_nodes(file)
    lines = [nodes.line[node] for node in (*nodes.decision, *nodes.coins)]
    coins = np.array([coin[1:] for coin in nodes.coins.values()]).ravel()
    width = [*nodes.width, *[2] * len(nodes.coins)]
    check_sums(file, np.concatenate([nodes.log_theta, coins]), width, lines, options)
    resolve_children(file, nodes)
    _check_is_whole(file, nodes, announced)
    recovered = recover(nodes)
    if recovered is None or options.vtree not in (None, recovered[0]):
        return circuit_from_graph(file, *_as_graph(nodes), options)
    return finish(assemble_nodes(nodes, *recovered), file, options, nodes.largest_variable())


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


def _read_nodes(file: TextFile) -> tuple[DecisionNodes, int | None]:
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


def log_complement(log_p: float) -> float:
    """`log(1 - exp(log_p))` to the last digits on both sides."""
    if log_p >= 0.0:
        return -np.inf
    if log_p > -0.6931471805599453:
        return float(np.log(-np.expm1(log_p)))
    return float(np.log1p(-np.exp(log_p)))


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
            var, log_zero, log_one = nodes.coins[node]
            pair = [graph.add_literal(2 * var + value) for value in (1, 0)]
            number_of.append(graph.add_sum(pair, [log_one, log_zero]))
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
    n_literals = 2 * circuit.n_vars
    vtree_ids = inorder_ids(circuit.vtree).tolist()
    node_vtree = [vtree_ids[v] for v in circuit.node_vtree.tolist()]
    start = circuit.node_edges.tolist()
    left, right = circuit.edge_left.tolist(), circuit.edge_right.tolist()
    log_theta = circuit.edge_log_theta.tolist()
    is_leaf = (circuit.vtree.node_var[circuit.node_vtree] != NONE).tolist()

    # A sum at a leaf is a literal if it fixes the variable, and a T line otherwise.
    coins: dict[int, tuple[float, float]] = {}
    alias = list(range(circuit.n_nodes))
    for node in range(n_literals, circuit.n_nodes):
        if is_leaf[node]:
            weights = [-np.inf, -np.inf]
            for edge in range(start[node], start[node + 1]):
                value = left[edge] % 2
                weights[value] = float(np.logaddexp(weights[value], log_theta[edge]))
            if start[node + 1] - start[node] == 1 and max(weights) == 0.0:
                alias[node] = left[start[node]]
            else:
                coins[node] = (weights[0], weights[1])
    used = {alias[circuit.root]}
    for node in range(n_literals, circuit.n_nodes):
        if not is_leaf[node]:
            for edge in range(start[node], start[node + 1]):
                used.update((alias[left[edge]], alias[right[edge]]))
    literals = [node for node in range(n_literals) if node in used]
    sums = [node for node in range(n_literals, circuit.n_nodes) if alias[node] == node]

    yield from HEADER.splitlines()
    yield from names_lines(circuit.feature_names)
    yield f"psdd {len(literals) + len(sums)}"
    name: dict[int, int] = {}
    for node in [*literals, *sums]:
        name[node] = len(name)
        head = f"{name[node]} {node_vtree[node]}"
        if node < n_literals:
            yield f"L {head} {signed(node)}"
        elif node in coins:
            var = left[start[node]] // 2
            yield f"T {head} {var + 1} {_coin(*coins[node])}"
        else:
            edges = range(start[node], start[node + 1])
            elements = " ".join(
                f"{name[alias[left[e]]]} {name[alias[right[e]]]} {number(log_theta[e])}"
                for e in edges
            )
            yield f"D {head} {len(edges)} {elements}"


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
