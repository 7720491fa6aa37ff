"""Strudel as plainly as it can be written: node objects, and every flow recomputed after every
split.

Shares no code with the learner. Slow on purpose; see tests/learning/growing/test_growing_circuit.py
and tests/test_recorded_trace.py.
"""

from __future__ import annotations

import math

import numpy as np


class Literal:
    def __init__(self, var, value):
        self.var, self.value = var, value


class Sum:
    def __init__(self, vtree, elements):
        self.vtree, self.elements = vtree, elements  # elements: list of Product


class Product:
    def __init__(self, left, right):
        self.left, self.right = left, right  # right is None below a vtree leaf


def from_circuit(circuit):
    """Node objects of a `BitCircuit`, in its own order: the last one is the root."""
    nodes = [Literal(n // 2, n % 2) for n in range(2 * circuit.n_vars)]
    for n in range(2 * circuit.n_vars, circuit.n_nodes):
        edges = range(circuit.node_edges[n], circuit.node_edges[n + 1])
        elements = [
            Product(
                nodes[circuit.edge_left[e]],
                nodes[circuit.edge_right[e]] if circuit.edge_right[e] >= 0 else None,
            )
            for e in edges
        ]
        nodes.append(Sum(int(circuit.node_vtree[n]), elements))
    return nodes


def start(X):
    """The circuit of the Chow-Liu tree, by the rules of the authors' program."""
    parent = chow_liu_parents(X)
    literals = [(Literal(var, 1), Literal(var, 0)) for var in range(len(parent))]

    def compiled(vtree):
        """One node per value of the parent of the first variable, true before false."""
        if isinstance(vtree, int):
            if vtree in parent:
                return literals[vtree]
            return [
                Sum(None, [Product(literal, None) for literal in literals[vtree]])
                for _ in range(1 if parent[vtree] is None else 2)
            ]
        left, right = (compiled(child) for child in vtree)
        first, other = (first_variable(child) for child in vtree)
        if parent[first] == parent[other]:
            return [Sum(None, [Product(*pair)]) for pair in zip(left, right, strict=True)]
        return [
            Sum(None, [Product(*pair) for pair in zip(literals[first], right, strict=True)])
            for _ in range(1 if parent[first] is None else 2)
        ]

    return compiled(vtree_of(parent, parent.index(None)))[-1]


def chow_liu_parents(X):
    """The parent of every variable, None at the root: Kruskal, then the centre in hops."""
    n_vars = X.shape[1]
    pairs = [(a, b) for b in range(n_vars) for a in range(b)]  # ties go to the earlier pair
    information = {
        (a, b): information_sums(X[:, [a, b]], np.ones(len(X)), [0, 1])[0] for a, b in pairs
    }
    neighbours = [set() for _ in range(n_vars)]
    group = list(range(n_vars))
    for a, b in sorted(pairs, key=lambda pair: -round(information[pair], 12)):
        if group[a] != group[b]:
            group = [group[a] if g == group[b] else g for g in group]
            neighbours[a].add(b)
            neighbours[b].add(a)

    def reached(root):
        """Parent and hops of every variable, from one."""
        parent, hops, queue = [None] * n_vars, [0] * n_vars, [root]
        for var in queue:
            for other in sorted(neighbours[var] - {parent[var]}):
                parent[other], hops[other] = var, hops[var] + 1
                queue.append(other)
        return parent, max(hops)

    return min((reached(root) for root in range(n_vars)), key=lambda found: found[1])[0]


def vtree_of(parent, var):
    """Nested pairs: the variable left of its children, which are halved in order."""

    def halved(vtrees):
        middle = len(vtrees) // 2
        return vtrees[0] if middle == 0 else (halved(vtrees[:middle]), halved(vtrees[middle:]))

    children = [vtree_of(parent, child) for child in range(len(parent)) if parent[child] == var]
    return (var, halved(children)) if children else var


def first_variable(vtree):
    """The left-most variable."""
    return vtree if isinstance(vtree, int) else first_variable(vtree[0])


def post_order(root):
    """All nodes, children first, left before right, each once."""
    seen, order = set(), []

    def visit(node):
        if node is None or id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, Sum):
            for product in node.elements:
                visit(product.left)
                visit(product.right)
        order.append(node)

    visit(root)
    return order


def satisfied(root, X):
    """For every node, the rows that satisfy it."""
    value = {id(None): np.ones(len(X), dtype=bool)}
    for node in post_order(root):
        if isinstance(node, Literal):
            value[id(node)] = X[:, node.var] == node.value
        else:
            value[id(node)] = np.any(
                [value[id(p.left)] & value[id(p.right)] for p in node.elements], axis=0
            )
    return value


def edge_rows(root, X):
    """For every (sum, position of product), the rows that flow through it."""
    value = satisfied(root, X)
    flow = {id(node): np.zeros(len(X), dtype=bool) for node in post_order(root)}
    flow[id(root)] = value[id(root)].copy()
    rows = {}
    for node in reversed(post_order(root)):
        if isinstance(node, Sum):
            for i, p in enumerate(node.elements):
                through = flow[id(node)] & value[id(p.left)] & value[id(p.right)]
                rows[id(node), i] = through
                flow[id(p.left)] |= through
                if p.right is not None:
                    flow[id(p.right)] |= through
    return rows


def literals_below(node, cache):
    """The set of (variable, value) below a node."""
    if node is None:
        return frozenset()
    if id(node) not in cache:
        if isinstance(node, Literal):
            cache[id(node)] = frozenset([(node.var, node.value)])
        else:
            cache[id(node)] = frozenset().union(
                *(
                    literals_below(p.left, cache) | literals_below(p.right, cache)
                    for p in node.elements
                )
            )
    return cache[id(node)]


def undecided(product, cache):
    below = literals_below(product.left, cache) | literals_below(product.right, cache)
    return sorted(var for var, value in below if value == 1 and (var, 0) in below)


def candidates(root, X, weight):
    """(sum, position, weight of its rows, its rows, undecided variables) in post-order."""
    rows, cache, found = edge_rows(root, X), {}, []
    for node in post_order(root):
        if isinstance(node, Sum):
            for i, p in enumerate(node.elements):
                if p.right is not None and undecided(p, cache):
                    through = rows[id(node), i]
                    found.append((node, i, weight[through].sum(), through, undecided(p, cache)))
    return found


def information_sums(X, weight, variables, alpha=1.0):
    """Sum over the other variables of the smoothed mutual information, cell by cell."""
    total = weight.sum()
    sums = []
    for a in variables:
        score = 0.0
        for b in variables:
            if a == b:
                continue
            for x in (0, 1):
                for y in (0, 1):
                    joint = (weight[(X[:, a] == x) & (X[:, b] == y)].sum() + alpha) / (
                        total + 4 * alpha
                    )
                    px = (weight[X[:, a] == x].sum() + 2 * alpha) / (total + 4 * alpha)
                    py = (weight[X[:, b] == y].sum() + 2 * alpha) / (total + 4 * alpha)
                    score += joint * math.log(joint / (px * py))
        sums.append(score)
    return np.array(sums)


def restrict(node, var, value, cache):
    """The node given `var == value`: None in contradiction, itself where nothing changes."""
    if node is None:
        return None
    if id(node) not in cache:
        cache[id(node)] = _restrict(node, var, value, cache)
    return cache[id(node)]


def _restrict(node, var, value, cache):
    if isinstance(node, Literal):
        return None if node.var == var and node.value != value else node
    kept = []
    for p in node.elements:
        left = restrict(p.left, var, value, cache)
        right = restrict(p.right, var, value, cache)
        if left is None or (p.right is not None and right is None):
            continue
        kept.append(p if left is p.left and right is p.right else Product(left, right))
    if len(kept) == len(node.elements) and all(
        a is b for a, b in zip(kept, node.elements, strict=True)
    ):
        return node
    if not kept:
        return None
    if len(kept) == 1 and kept[0].right is None:
        return kept[0].left  # one literal left
    return Sum(node.vtree, kept)


def copy_below(product, levels):
    """Fresh copies of the next sums below, as a tree."""
    if product.right is None:
        return Product(product.left, None)
    if levels == 0:
        return Product(product.left, product.right)

    def fresh(node):
        if isinstance(node, Literal):
            return node
        return Sum(node.vtree, [copy_below(p, levels - 1) for p in node.elements])

    return Product(fresh(product.left), fresh(product.right))


def split(node, position, var, levels=0):
    """Replace one product of a sum by its two restrictions."""
    old = node.elements[position]
    new = []
    for value in (1, 0):
        cache = {}
        product = Product(
            restrict(old.left, var, value, cache), restrict(old.right, var, value, cache)
        )
        new.append(copy_below(product, levels))
    node.elements = new + node.elements[:position] + node.elements[position + 1 :]


def log_likelihood(root, train, weight, valid, valid_weight, pseudocount):
    """Mean log-likelihoods with closed-form parameters."""
    train_rows, valid_rows = edge_rows(root, train), edge_rows(root, valid)
    totals = [0.0, 0.0]
    for node in post_order(root):
        if not isinstance(node, Sum) or len(node.elements) < 2:
            continue
        counts = [weight[train_rows[id(node), i]].sum() for i in range(len(node.elements))]
        for i, count in enumerate(counts):
            theta = (count + pseudocount / len(counts)) / (sum(counts) + pseudocount)
            log_theta = math.log(theta) if theta > 0 else -math.inf
            for k, passed in enumerate((count, valid_weight[valid_rows[id(node), i]].sum())):
                if passed > 0:
                    totals[k] += passed * log_theta
    return totals[0] / weight.sum(), totals[1] / valid_weight.sum()


def canonical(root, X, weight):
    """The circuit as numbers: nodes in post-order, with the weight of the rows on every edge."""
    rows = edge_rows(root, X)
    number, lines = {}, []
    for node in post_order(root):
        number[id(node)] = len(number)
        if isinstance(node, Literal):
            lines.append((node.var, node.value))
        else:
            lines.append(
                [
                    (
                        number[id(p.left)],
                        p.right and number[id(p.right)],
                        weight[rows[id(node), i]].sum(),
                    )
                    for i, p in enumerate(node.elements)
                ]
            )
    return lines


def size(root):
    """Nodes, edges and parameters as the authors' code counts them: products may be shared."""
    nodes = post_order(root)
    products = {
        id(p): p for n in nodes if isinstance(n, Sum) for p in n.elements if p.right is not None
    }
    n_parameters = sum(len(n.elements) for n in nodes if isinstance(n, Sum))
    return len(nodes) + len(products), n_parameters + 2 * len(products), n_parameters
