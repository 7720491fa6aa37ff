"""Models for other libraries: as a module of PyTorch; circuits for pyjuice, and back; for cirkit.

In:  a circuit, a mixture or a fitted estimator; for pyjuice and cirkit in normal form.
Out: a `CircuitModule`; the root of a pyjuice circuit; a symbolic circuit of cirkit.

pyjuice and cirkit have vectors of nodes where we have single ones. A vtree node is such a vector:
its sums are weighted sums of products, and each product takes one node of the vector of the left
vtree child, and one of the right.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import normalize
from strudel.circuits.on_device.levels import number_in_run
from strudel.circuits.properties import check_properties
from strudel.errors import MissingDependencyError
from strudel.queries.model import model_of

if TYPE_CHECKING:
    from strudel.layers.module import CircuitModule


def to_torch(model: Any, *, dtype: Any = None) -> CircuitModule:
    """A model as a PyTorch module with the same distribution.

    Its parameters are logits, normalised whenever they are used. It can be trained by itself, be a
    layer of a network, or take its parameters from one; `from_torch` of the model brings trained
    parameters back.

    Parameters
    ----------
    model : Circuit, Mixture or a fitted estimator
        Smooth and decomposable.
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

    return CircuitModule(model_of(model), dtype)


MOST_WEIGHTS = 10**7  # of a cirkit circuit, which has no sparse layers


class _Vector(NamedTuple):
    """The nodes of one vtree node, numbered; at a leaf, literals are sums of one edge."""

    vtree: int
    sums: AnyArray  # (n_edges,) the number of each edge's sum
    left: AnyArray  # (n_edges,) numbers in the vector of the left vtree child; at a leaf 0 or 1
    right: AnyArray  # (n_edges,) the same to the right
    edges: AnyArray  # (n_edges,) of the circuit, or NONE for the one edge of a literal
    n_sums: int


def to_pyjuice(model: Any) -> Any:
    """A model as a circuit of pyjuice.

    `pyjuice.compile` of the result needs CUDA. Its EM keeps the structure and so determinism:
    literals stay indicators. `from_pyjuice` brings its parameters back.

    Parameters
    ----------
    model : Circuit, Mixture or a fitted estimator
        In normal form, as learned ones are. A mixture becomes one circuit with a sum at the root.

    Returns
    -------
    pyjuice.nodes.SumNodes
        The root.
    """
    juice, torch = _needed("pyjuice", "to_pyjuice"), _needed("torch", "to_pyjuice")
    circuit = _one_circuit(model, "to_pyjuice")
    literal = _needed("pyjuice.nodes.distributions", "to_pyjuice").Literal
    theta = np.append(circuit.theta, 1.0)  # the last is for literals
    built: dict[int, Any] = {}
    with juice.set_block_size(1):
        for own in _vectors(circuit):
            v = own.vtree
            var = int(circuit.vtree.node_var[v])
            if var != NONE:
                products = [
                    juice.inputs(var, num_node_blocks=1, dist=literal(value)) for value in (0, 1)
                ]
                number = own.left
            else:
                sides = [built[int(side[v])] for side in _sides(circuit)]
                pairs = torch.from_numpy(np.stack([own.left, own.right], axis=1))
                products = [juice.multiply(*sides, edge_ids=pairs)]
                number = np.arange(len(own.edges))
            built[v] = juice.summate(
                *products,
                num_node_blocks=own.n_sums,
                edge_ids=torch.from_numpy(np.stack([own.sums, number])),
                params=torch.from_numpy(theta[own.edges]).float(),
            )
    return built[circuit.vtree.root]


def from_pyjuice(model: Any, root: Any) -> Circuit:
    """A model with the parameters of the circuit that `to_pyjuice` made of it.

    Parameters
    ----------
    model : Circuit, Mixture or a fitted estimator
        The one that was exported.
    root : pyjuice.nodes.SumNodes
        What it became. After training a compiled circuit, call its `update_parameters` first.

    Returns
    -------
    Circuit
        With float32 parameters, normalised in float64. A mixture comes back as the one circuit it
        became.
    """
    circuit = _one_circuit(model, "from_pyjuice")
    vectors = {own.vtree: own for own in _vectors(circuit)}
    theta = np.ones(circuit.n_edges + 1)
    below = [(circuit.vtree.root, root)]
    while below:
        v, nodes = below.pop()
        own, weights = vectors[v], np.asarray(nodes.get_params(), dtype=np.float64).ravel()
        if len(weights) != len(own.edges):
            raise ValueError("This pyjuice circuit was not made from this model.")
        # They keep edges in an order of their own.
        order = np.lexsort(np.asarray(nodes.edge_ids)[::-1])
        mine = np.lexsort((own.left if circuit.vtree.node_var[v] != NONE else own.edges, own.sums))
        theta[own.edges[mine]] = weights[order]
        if circuit.vtree.node_var[v] == NONE:
            children = nodes.chs[0].chs
            below += [
                (int(side[v]), child) for side, child in zip(_sides(circuit), children, strict=True)
            ]
    with np.errstate(divide="ignore"):
        return normalize(circuit.with_parameters(np.log(theta[:-1])))[0]


def to_cirkit(model: Any) -> Any:
    """A model as a symbolic circuit of cirkit.

    cirkit's layers are dense, so products take their children by matrices of 0 and 1: that is
    for small circuits.

    Parameters
    ----------
    model : Circuit, Mixture or a fitted estimator
        In normal form, and of at most ten million dense weights.

    Returns
    -------
    cirkit.symbolic.circuit.Circuit
        To be compiled by its `PipelineContext(backend="torch", semiring="lse-sum", ...)`.
    """
    layers = _needed("cirkit.symbolic.layers", "to_cirkit")
    scope = _needed("cirkit.utils.scope", "to_cirkit").Scope
    circuit = _one_circuit(model, "to_cirkit")
    vectors = _vectors(circuit)
    size = {own.vtree: own.n_sums for own in vectors}
    sides = _sides(circuit)
    inner = [own for own in vectors if circuit.vtree.node_var[own.vtree] == NONE]
    n_weights = sum(
        len(own.edges) * (own.n_sums + sum(size[int(side[own.vtree])] for side in sides))
        for own in inner
    )
    if n_weights > MOST_WEIGHTS:
        raise ValueError(
            f"cirkit has dense layers, and this circuit would need {n_weights:,} weights: "
            f"to_cirkit is for circuits of at most {MOST_WEIGHTS:,}. to_torch takes any size."
        )
    theta = np.append(circuit.theta, 1.0)
    built: dict[int, Any] = {}
    inputs: dict[Any, list[Any]] = {}

    def dense(rows: AnyArray, columns: AnyArray, shape: tuple[int, int], weight: Any) -> Any:
        table = np.zeros(shape)
        table[rows, columns] = weight
        return _cirkit_constant(table)

    for own in vectors:
        v, n_edges = own.vtree, len(own.edges)
        var = int(circuit.vtree.node_var[v])
        if var != NONE:
            table = np.zeros((own.n_sums, 2))
            np.add.at(table, (own.sums, own.left), theta[own.edges])
            built[v] = layers.CategoricalLayer(
                scope([var]), own.n_sums, num_categories=2, probs=_cirkit_constant(table)
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
        weight = dense(own.sums, np.arange(n_edges), (own.n_sums, n_edges), theta[own.edges])
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


def _one_circuit(model: Any, asker: str) -> Circuit:
    own = model_of(model)
    circuit = own.to_circuit() if isinstance(own, Mixture) else own
    check_properties(circuit, asker, "in_normal_form")
    return normalize(circuit)[0]


def _sides(circuit: Circuit) -> tuple[AnyArray, AnyArray]:
    return circuit.vtree.node_left, circuit.vtree.node_right


def _vectors(circuit: Circuit) -> list[_Vector]:
    """The nodes that the root reaches, by vtree node, children before parents."""
    is_reached = np.zeros(circuit.n_nodes + 1, dtype=bool)  # one more for a missing child
    is_reached[circuit.root] = True
    right = np.where(circuit.edge_right == NONE, circuit.n_nodes, circuit.edge_right)
    for node in range(circuit.root, 2 * circuit.n_vars - 1, -1):
        if is_reached[node]:
            own = slice(circuit.node_edges[node], circuit.node_edges[node + 1])
            is_reached[circuit.edge_left[own]] = is_reached[right[own]] = True
    number = np.zeros(circuit.n_nodes + 1, dtype=np.int64)  # of a node in its vector
    found = []
    for v in range(circuit.vtree.n_nodes):
        nodes = np.flatnonzero((circuit.node_vtree == v) & is_reached[:-1])
        if v == circuit.vtree.root:  # literals of a single variable are below it, not beside it
            nodes = np.array([circuit.root])
        number[nodes] = np.arange(len(nodes))
        width = np.diff(circuit.node_edges)[nodes]
        sums = np.repeat(np.arange(len(nodes)), width)
        edges = np.repeat(circuit.node_edges[nodes], width) + number_in_run(sums)
        left, own_right = circuit.edge_left[edges], right[edges]
        if circuit.vtree.node_var[v] == NONE:
            found.append(_Vector(v, sums, number[left], number[own_right], edges, len(nodes)))
            continue
        literals = nodes[nodes < 2 * circuit.n_vars]  # each a sum of itself
        found.append(
            _Vector(
                v,
                np.append(number[literals], sums),
                np.append(literals, left) % 2,
                np.zeros(len(literals) + len(edges), dtype=np.int64),
                np.append(np.full(len(literals), NONE), edges),
                len(nodes),
            )
        )
    return found
