"""Models for other libraries: as a module of PyTorch; circuits for pyjuice, and back; for cirkit.

In:  a circuit over columns or a fitted estimator.
Out: a `CircuitModule`; the root of a pyjuice circuit; a symbolic circuit of cirkit.

pyjuice and cirkit have vectors of nodes where we have single ones. A vtree node is such a vector:
its sums are weighted sums of products, and each product takes one node of the vector of the left
vtree child, and one of the right.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.reweigh import normalized, pruned, side_by_side
from strudel.circuits.walks import edges_at, first_node
from strudel.errors import MissingDependencyError
from strudel.queries.given import circuit_of

if TYPE_CHECKING:
    from strudel.layers.module import CircuitModule


def to_torch(model: Any, *, dtype: Any = None) -> CircuitModule:
    """A model as a PyTorch module with the same distribution.

    Its parameters are logits, normalised whenever they are used. It can be trained by itself, be a
    layer of a network, or take its parameters from one; `from_torch` of the model brings trained
    parameters back.

    Parameters
    ----------
    model : Circuit or a fitted estimator
    dtype : torch.dtype, optional
        Of the parameters; PyTorch's default unless given.

    Returns
    -------
    CircuitModule
        With `log_prob`, `marginals`, `most_probable_state`, `sample`, `entropy` and `kl`.
    """
    if find_spec("torch") is None:
        raise MissingDependencyError("to_torch needs PyTorch: pip install 'strudel-pc[torch]'.")
    from strudel.layers.module import CircuitModule  # late: only this needs PyTorch

    return CircuitModule(circuit_of(model), dtype)


MOST_WEIGHTS = 10**7  # of a cirkit circuit, which has no sparse layers


class _Vector(NamedTuple):
    """The nodes of one vtree node, numbered; at a leaf, products are cells."""

    vtree: int
    sums: AnyArray  # (n_edges,) the number of each edge's sum
    left: AnyArray  # (n_edges,) numbers in the vector of the left vtree child; at a leaf the cell
    right: AnyArray  # (n_edges,) the same to the right
    theta: FloatArray  # (n_edges,)
    where: AnyArray  # (n_edges,) of the circuit, edges or rows of `leaf_log_p`
    n_sums: int


def to_pyjuice(model: Any) -> Any:
    """A model as a circuit of pyjuice.

    `pyjuice.compile` of the result needs CUDA. Its EM keeps the structure and so determinism:
    literals stay indicators. `from_pyjuice` brings its parameters back.

    Parameters
    ----------
    model : Circuit or a fitted estimator
        Several components become one circuit with a sum at the root.

    Returns
    -------
    pyjuice.nodes.SumNodes
        The root.
    """
    juice, torch = _needed("pyjuice", "to_pyjuice"), _needed("torch", "to_pyjuice")
    circuit = pruned(side_by_side(circuit_of(model)))
    literal = _needed("pyjuice.nodes.distributions", "to_pyjuice").Literal
    built: dict[int, Any] = {}
    with juice.set_block_size(1):
        for own in _vectors(circuit):
            v = own.vtree
            var = int(circuit.vtree.node_var[v])
            if var != NONE:
                products = [
                    juice.inputs(var, num_node_blocks=1, dist=literal(value))
                    for value in range(circuit.columns[var].n_cells)
                ]
                number = own.left
            else:
                sides = [built[int(side[v])] for side in _sides(circuit)]
                pairs = torch.from_numpy(np.stack([own.left, own.right], axis=1))
                products = [juice.multiply(*sides, edge_ids=pairs)]
                number = np.arange(len(own.sums))
            built[v] = juice.summate(
                *products,
                num_node_blocks=own.n_sums,
                edge_ids=torch.from_numpy(np.stack([own.sums, number])),
                params=torch.from_numpy(own.theta).float(),
            )
    return built[circuit.vtree.root]


def from_pyjuice(model: Any, root: Any) -> Circuit:
    """A model with the parameters of the circuit that `to_pyjuice` made of it.

    Parameters
    ----------
    model : Circuit or a fitted estimator
        The one that was exported.
    root : pyjuice.nodes.SumNodes
        What it became. After training a compiled circuit, call its `update_parameters` first.

    Returns
    -------
    Circuit
        With float32 parameters, normalised in float64. Several components come back as the one
        circuit that they became.
    """
    circuit = pruned(side_by_side(circuit_of(model)))
    vectors = {own.vtree: own for own in _vectors(circuit)}
    leaf_p = np.zeros(len(circuit.leaf_log_p))
    theta = np.zeros(circuit.n_edges)
    below = [(circuit.vtree.root, root)]
    while below:
        v, nodes = below.pop()
        own, weights = vectors[v], np.asarray(nodes.get_params(), dtype=np.float64).ravel()
        if len(weights) != len(own.sums):
            raise ValueError("This pyjuice circuit was not made from this model.")
        # They keep edges in an order of their own.
        order = np.lexsort(np.asarray(nodes.edge_ids)[::-1])
        is_leaf = circuit.vtree.node_var[v] != NONE
        mine = np.lexsort((own.left if is_leaf else own.where, own.sums))
        (leaf_p if is_leaf else theta)[own.where[mine]] = weights[order]
        if not is_leaf:
            children = nodes.chs[0].chs
            below += [
                (int(side[v]), child) for side, child in zip(_sides(circuit), children, strict=True)
            ]
    with np.errstate(divide="ignore"):
        leaf_log_p, log_theta = (np.log(p)[:, np.newaxis] for p in (leaf_p, theta))
    made, _ = normalized(replace(circuit, leaf_log_p=leaf_log_p, edge_log_theta=log_theta))
    assert made is not None
    return made


def to_cirkit(model: Any) -> Any:
    """A model as a symbolic circuit of cirkit.

    cirkit's layers are dense, so products take their children by matrices of 0 and 1: that is
    for small circuits.

    Parameters
    ----------
    model : Circuit or a fitted estimator
        Of at most ten million dense weights.

    Returns
    -------
    cirkit.symbolic.circuit.Circuit
        To be compiled by its `PipelineContext(backend="torch", semiring="lse-sum", ...)`.
    """
    layers = _needed("cirkit.symbolic.layers", "to_cirkit")
    scope = _needed("cirkit.utils.scope", "to_cirkit").Scope
    circuit = pruned(side_by_side(circuit_of(model)))
    vectors = _vectors(circuit)
    size = {own.vtree: own.n_sums for own in vectors}
    sides = _sides(circuit)
    inner = [own for own in vectors if circuit.vtree.node_var[own.vtree] == NONE]
    n_weights = sum(
        len(own.sums) * (own.n_sums + sum(size[int(side[own.vtree])] for side in sides))
        for own in inner
    )
    if n_weights > MOST_WEIGHTS:
        raise ValueError(
            f"cirkit has dense layers, and this circuit would need {n_weights:,} weights: "
            f"to_cirkit is for circuits of at most {MOST_WEIGHTS:,}. to_torch takes any size."
        )
    built: dict[int, Any] = {}
    inputs: dict[Any, list[Any]] = {}

    def dense(rows: AnyArray, columns: AnyArray, shape: tuple[int, int], weight: Any) -> Any:
        table = np.zeros(shape)
        table[rows, columns] = weight
        return _cirkit_constant(table)

    for own in vectors:
        v, n_edges = own.vtree, len(own.sums)
        var = int(circuit.vtree.node_var[v])
        if var != NONE:
            n_cells = circuit.columns[var].n_cells
            table = np.zeros((own.n_sums, n_cells))
            table[own.sums, own.left] = own.theta
            built[v] = layers.CategoricalLayer(
                scope([var]), own.n_sums, num_categories=n_cells, probs=_cirkit_constant(table)
            )
            inputs[built[v]] = []
            continue
        chosen = []
        for side, numbers in zip(sides, (own.left, own.right), strict=True):
            below = built[int(side[v])]
            n_below = size[int(side[v])]
            one_each = dense(np.arange(n_edges), numbers, (n_edges, n_below), 1.0)
            chosen.append(layers.SumLayer(n_below, n_edges, weight=one_each))
            inputs[chosen[-1]] = [below]
        product = layers.HadamardLayer(n_edges)
        inputs[product] = chosen
        weight = dense(own.sums, np.arange(n_edges), (own.n_sums, n_edges), own.theta)
        built[v] = layers.SumLayer(n_edges, own.n_sums, weight=weight)
        inputs[built[v]] = [product]
    symbolic = _needed("cirkit.symbolic.circuit", "to_cirkit").Circuit
    return symbolic(list(inputs), inputs, [built[circuit.vtree.root]])


def _cirkit_constant(table: FloatArray) -> Any:
    parameters = _needed("cirkit.symbolic.parameters", "to_cirkit")
    initializers = _needed("cirkit.symbolic.initializers", "to_cirkit")
    tensor = parameters.TensorParameter(
        *table.shape, initializer=initializers.ConstantTensorInitializer(table)
    )
    return parameters.Parameter.from_input(tensor)


def _needed(name: str, asker: str) -> Any:
    """A module of an optional package."""
    try:
        return import_module(name)
    except ImportError as error:
        package = {"cirkit": "libcirkit"}.get(name.split(".")[0], name.split(".")[0])
        raise MissingDependencyError(f"{asker} needs {package}: pip install {package}.") from error


def _sides(circuit: Circuit) -> tuple[AnyArray, AnyArray]:
    return circuit.vtree.node_left, circuit.vtree.node_right


def _vectors(circuit: Circuit) -> list[_Vector]:
    """The nodes by vtree node, children before parents; possible cells of leaves only."""
    found = []
    for v in range(circuit.vtree.n_nodes):
        place = int(circuit.vtree.node_var[v])
        if place != NONE:
            table = circuit.leaf_table(place)[:, :, 0]
            leaf, cell = np.nonzero(table > -np.inf)
            where = circuit.leaf_first[circuit.column_leaves[place] + leaf] + cell
            theta, nothing = np.exp(table[leaf, cell]), np.zeros(len(leaf), dtype=np.int64)
            found.append(_Vector(v, leaf, cell, nothing, theta, where, len(table)))
            continue
        edges, first = edges_at(circuit, v)
        l, r = (int(side[v]) for side in _sides(circuit))
        found.append(
            _Vector(
                v,
                circuit.edge_sum[edges].astype(np.int64) - circuit.vtree_sums[v],
                circuit.edge_left[edges].astype(np.int64) - first_node(circuit, l),
                circuit.edge_right[edges].astype(np.int64) - first_node(circuit, r),
                np.exp(circuit.edge_log_theta[edges, 0]),
                np.arange(edges.start, edges.stop),
                len(first),
            )
        )
    return found
