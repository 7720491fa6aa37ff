"""Circuits as PyTorch modules.

In:  a `Circuit`.
Out: `CircuitModule`, an `nn.Module` with the same distribution, whose parameters can be trained;
     and `to_model`, which brings them back.

Where cells are known or unknown, leaves are looked up in a table of logs; where they have weights,
leaves are sums over their cells. The sums above them are one pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from strudel._types import FloatArray
from strudel.circuits.on_device.levels import choice_edges, graph_of
from strudel.circuits.on_device.passes import (
    Plan,
    best_inputs,
    drawn_inputs,
    packed,
    plan_of,
    reach,
    root_value,
    with_fixed,
)
from strudel.circuits.properties import why_not_deterministic
from strudel.errors import CircuitPropertyError
from strudel.tables.evidence import Evidence, evidence_of

if TYPE_CHECKING:
    from strudel.circuits.circuit import Circuit


class CircuitModule(nn.Module):
    """A circuit whose parameters are logits, normalised whenever they are used.

    Rows are tensors of shape `(n_rows, n_columns)` with the number of a cell, which is the value
    itself in a table of 0 and 1, and NaN where it is unknown; or anything that the queries take as
    `given`, such as a frame. Only what has a choice has a logit: cells of leaves in which several
    are possible, and edges of sums with several.

    Attributes
    ----------
    logits : Parameter of shape (n_parameters, n_components)
        Of the cells of leaves, and then of the edges.
    weight_logits : Parameter of shape (n_components,)
        Of the components' weights.

    Examples
    --------
    >>> from strudel import to_torch
    >>> from strudel.circuits import figure_1_circuit
    >>> module = to_torch(figure_1_circuit(), dtype=torch.float64)
    >>> round(module.log_prob([[1, 0, 1, 0]]).exp().item(), 4)
    0.0192
    """

    def __init__(self, circuit: Circuit, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        dtype = dtype or torch.get_default_dtype()
        self.circuit = circuit
        self.structure = _Structure(circuit)
        self.logits = nn.Parameter(torch.tensor(self.structure.parameters_of(circuit), dtype=dtype))
        self.weight_logits = nn.Parameter(torch.tensor(circuit.log_weight, dtype=dtype))

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.circuit.columns)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.weight_logits)

    @property
    def n_parameters(self) -> int:
        """Logits of one component: what `params` of `log_prob` has for each row."""
        return len(self.logits)

    def log_theta(self) -> Tensor:
        """The logs of the parameters, `(n_parameters, n_components)`."""
        return self.structure.normalise(self.logits)

    def log_weight(self) -> Tensor:
        """The logs of the components' weights."""
        return torch.log_softmax(self.weight_logits, dim=0)

    def forward(self, x: Any = None, **options: Any) -> Tensor:
        """The same as `log_prob`."""
        return self.log_prob(x, **options)

    def log_prob(
        self,
        x: Any = None,
        *,
        mask: Tensor | None = None,
        soft: Tensor | None = None,
        params: Tensor | None = None,
    ) -> Tensor:
        """Log-probability of every row, unknown values summed out.

        Parameters
        ----------
        x : tensor of shape (n_rows, n_columns)
            Cells, or NaN where unknown; without it, nothing is known. Of a frame, the density of
            numbers within their cells counts as in `log_marginal`, unless there is a `mask`.
        mask : tensor of bool, of the same shape, optional
            True where a value is known; all others are summed out.
        soft : tensor of shape (n_rows, n_columns, most_cells), optional
            Instead of `x`: the likelihoods of the cells of every column, of the values 0 and 1 in a
            table of these; those beyond the cells of a column do not matter. Each times its
            gradient is a marginal probability.
        params : tensor of shape (n_rows, n_parameters) or (n_rows, n_parameters, n_components)
            Logits for every row, as a network gives them, instead of the module's own.

        Returns
        -------
        tensor of shape (n_rows,)
        """
        if params is not None and x is None and soft is None:
            x = self.weight_logits.new_full((len(params), self.n_columns), torch.nan)
        codes, log_weight, log_density = self._known(x, mask, soft)
        table, log_theta = self._by_row(params, len(codes if log_weight is None else log_weight))
        if log_weight is None:
            leaves = self.structure.looked_up(table, codes)
        else:
            leaves = self.structure.weighed(table, log_weight)
        log_p = self._mix(self._roots(leaves, log_theta))
        return log_p if log_density is None else log_p + log_density

    def marginals(self, x: Any = None, *, mask: Tensor | None = None) -> Tensor:
        """How probable every value is given a row; NaN for an impossible row.

        In a table of 0 and 1 `P(X_i = 1 | row)`, `(n_rows, n_columns)`; otherwise of every cell,
        `(n_rows, n_columns, most_cells)`. It can be differentiated by the parameters.
        """
        is_trained = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        log_weight = self._log_weights(x, mask).detach().requires_grad_()
        with torch.enable_grad():
            table, log_theta = self._by_row(None, len(log_weight))
            leaves = self.structure.weighed(table, log_weight)
            log_p = self._mix(self._roots(leaves, log_theta))
            flow = torch.autograd.grad(log_p.sum(), log_weight, create_graph=is_trained)[0]
        found = torch.where(torch.isfinite(log_p).view(-1, 1, 1), flow, torch.nan)
        return found[:, :, 1] if self.circuit.columns.are_bits else found

    def most_probable_state(self, x: Any = None) -> tuple[Tensor, Tensor]:
        """The most probable completion of every row, and its log-probability.

        Exact for deterministic circuits. Of several components, ask the model that `to_model`
        gives.
        """
        if self.n_components > 1:
            raise ValueError(
                "The most probable state of several components needs a search: "
                "strudel.most_probable_state(module.to_model(), ...)."
            )
        self._check_deterministic("most_probable_state")
        with torch.no_grad():
            log_weight = self._log_weights(x)
            table, log_theta = self._by_row(None, len(log_weight))
            cells = self.structure.cell_logs(table[:, 0, 0], log_weight)  # (n_leaves, n_rows, most)
            value, taken = best_inputs(
                cells.amax(dim=2, keepdim=True), log_theta, self.structure.plan()
            )
            leaf = self.structure.leaves_taken(taken)
            row = torch.arange(len(log_weight), device=leaf.device)
            return cells.argmax(dim=2)[leaf, row].T.to(self.weight_logits.dtype), value

    def sample(
        self, n_samples: int = 1, given: Any = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Rows of cells drawn from the distribution, `(n_samples, n_columns)`; also given a row."""
        with torch.no_grad():
            log_weight = self._log_weights(given)
            if len(log_weight) != 1:
                raise ValueError(f"given must be one row, but has {len(log_weight)}.")
            table, theta = self._by_row(None, 1)
            leaves = self.structure.weighed(table, log_weight)
            joint = self._roots(leaves, theta)[0] + self.log_weight()
            if not torch.isfinite(joint).any():
                raise ValueError("What is given has probability zero.")
            component = torch.multinomial(
                torch.softmax(joint, dim=0), n_samples, replacement=True, generator=generator
            )
            rows = joint.new_empty((n_samples, self.n_columns))
            size = self.structure.rows_at_a_time(theta)
            for some in torch.split(torch.arange(n_samples, device=rows.device), size):
                own = component[some]
                taken = drawn_inputs(
                    leaves[:, 0, own].unsqueeze(2),
                    theta[:, 0, own].unsqueeze(2),
                    self.structure.plan(),
                    generator,
                )
                leaf = self.structure.leaves_taken(taken)
                logs = self.structure.cells_of(table[:, 0, own], leaf) + log_weight[0].unsqueeze(1)
                noise = torch.empty_like(logs).exponential_(generator=generator)
                rows[some] = (logs - torch.log(noise)).argmax(dim=2).T.to(rows.dtype)
        return rows

    def entropy(self) -> Tensor:
        """Entropy in nats, exact for a deterministic circuit; can be differentiated."""
        self._check_single("entropy")
        log_theta = self.log_theta()[:, 0]
        flow = self.structure.flows(log_theta)
        return -(flow * torch.where(log_theta > -torch.inf, log_theta, 0.0)).sum()

    def kl(self, other: CircuitModule) -> Tensor:
        """Kullback-Leibler divergence to a module on the same structure; can be differentiated."""
        self._check_single("kl")
        other._check_single("kl")
        if not is_same_structure(self.circuit, other.circuit):
            raise ValueError(
                "kl compares two modules on one structure; strudel.kl_divergence compares any two "
                "models on one vtree."
            )
        mine, theirs = self.log_theta()[:, 0], other.log_theta()[:, 0]
        flow = self.structure.flows(mine)
        is_used = flow > 0
        return torch.where(is_used, flow * torch.where(is_used, mine - theirs, 0.0), 0.0).sum()

    def to_model(self) -> Circuit:
        """The circuit with the parameters that the module has now."""
        log_theta = self.log_theta().detach()
        log_weight = _as_array(self.log_weight())
        edge_log_theta = np.zeros((self.circuit.n_edges, self.n_components))
        n_cells = self.structure.n_cells
        edge_log_theta[self.structure.edges] = _as_array(log_theta[n_cells:])
        return replace(
            self.circuit,
            leaf_log_p=_as_array(self.structure.leaf_table(log_theta)),
            edge_log_theta=edge_log_theta,
            log_weight=log_weight - np.log(np.exp(log_weight).sum()),
            log_total=0.0,
        )

    def to_model_of(self, circuit: Circuit) -> Circuit:
        """`to_model` with the columns of a circuit of the same structure."""
        if not is_same_structure(self.circuit, circuit):
            raise ValueError("The module was not made from a model of this structure.")
        return replace(self.to_model(), columns=circuit.columns, known=circuit.known)

    def _roots(self, leaves: Tensor, log_theta: Tensor) -> Tensor:
        """Log-probability of every row under every component."""
        return root_value(leaves, log_theta, self.structure.index, self.structure.layout)

    def _by_row(self, params: Tensor | None, n_rows: int) -> tuple[Tensor, Tensor]:
        """Logs of the cells of leaves `(n_leaf_cells, 1 or n_rows, k)`, and of the edges."""
        if params is None:
            log_theta = self.log_theta().unsqueeze(1)
        else:
            table = params.unsqueeze(2) if params.ndim == 2 else params
            if table.shape != (n_rows, *self.logits.shape):
                raise ValueError(
                    f"params must be of shape {(n_rows, *self.logits.shape)}, "
                    f"but got {tuple(params.shape)}."
                )
            log_theta = self.structure.normalise(table.to(self.weight_logits.dtype).transpose(0, 1))
        return (
            self.structure.leaf_table(log_theta),
            with_fixed(log_theta[self.structure.n_cells :]),
        )

    def _mix(self, log_p: Tensor) -> Tensor:
        if self.n_components == 1:
            return log_p[:, 0]
        return torch.logsumexp(log_p + self.log_weight(), dim=1)

    def _known(
        self, x: Any, mask: Tensor | None, soft: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Codes of cells, or else the logs of their weights; and the log-density of numbers.

        A code is a cell, or their number where the value is unknown, `(n_rows, n_columns)`. Weights
        are `(n_rows, n_columns, most_cells)`.
        """
        shape, unknown = (self.n_columns, self.structure.most), self.structure.unknown
        if soft is not None:
            if x is not None or mask is not None:
                raise ValueError("Give soft instead of x and mask, not with them.")
            if soft.ndim != 3 or soft.shape[1:] != shape:
                raise ValueError(
                    f"soft must be of shape (n_rows, {shape[0]}, {shape[1]}), "
                    f"but got {tuple(soft.shape)}."
                )
            return unknown, torch.log(soft.to(self.weight_logits)), None
        log_weight = log_density = None
        if x is None or isinstance(x, Tensor):
            x = torch.full((1, self.n_columns), torch.nan) if x is None else x
            rows = x.to(self.weight_logits)
            rows = rows.unsqueeze(0) if rows.ndim == 1 else rows
            if rows.ndim != 2 or rows.shape[1] != self.n_columns:
                raise ValueError(
                    f"x must be of shape (n_rows, {self.n_columns}), but got {tuple(x.shape)}."
                )
            codes = torch.where(torch.isnan(rows), unknown, rows).long()
        else:
            evidence = evidence_of(self.circuit.columns, x, "x")
            codes = torch.from_numpy(evidence.codes).to(unknown)
            if mask is None:
                log_density = torch.as_tensor(evidence.log_density()).to(self.weight_logits)
            if (codes > unknown).any():  # sets, intervals, and bounds inside cells
                log_weight = torch.log(self._weights_of(evidence)).to(self.weight_logits)
        if mask is not None:
            is_known = mask.to(codes.device, torch.bool)
            codes = torch.where(is_known, codes, unknown)
            if log_weight is not None:
                log_weight = torch.where(is_known.unsqueeze(2), log_weight, 0.0)
        return codes, log_weight, log_density

    def _weights_of(self, evidence: Evidence) -> Tensor:
        """The weights of all cells, `(n_rows, n_columns, most_cells)`."""
        found = np.zeros((len(evidence), self.n_columns, self.structure.most))
        for place, weights in enumerate(evidence.weights):
            n_cells = weights.shape[1]
            of_codes = np.vstack([np.eye(n_cells), weights])
            found[:, place, :n_cells] = of_codes[evidence.codes[:, place]]
        return torch.from_numpy(found)

    def _log_weights(self, x: Any, mask: Tensor | None = None) -> Tensor:
        """The logs of the weights of all cells, `(n_rows, n_columns, most_cells)`."""
        codes, log_weight, _ = self._known(x, mask)
        if log_weight is not None:
            return log_weight
        cells = torch.arange(self.structure.most, device=codes.device)
        is_possible = (codes.unsqueeze(2) == cells) | (codes == self.structure.unknown).unsqueeze(2)
        return torch.log(is_possible.to(self.weight_logits))

    def _check_single(self, query: str) -> None:
        if self.n_components > 1:
            raise ValueError(f"{query} is exact for one component, but these are several.")
        self._check_deterministic(query)

    def _check_deterministic(self, query: str) -> None:
        reason = why_not_deterministic(self.circuit)
        if reason is not None:
            raise CircuitPropertyError(f"{query} needs a deterministic circuit, but {reason}.")


class _Structure(nn.Module):
    """The arrays of a structure as buffers, which move with the module."""

    index: Tensor
    parent: Tensor
    cell_number: Tensor
    cell_leaf: Tensor
    leaf_column: Tensor
    leaf_cell: Tensor
    column_cell: Tensor
    unknown: Tensor

    def __init__(self, circuit: Circuit) -> None:
        super().__init__()
        self.circuit = circuit
        graph = graph_of(circuit)
        index, self.layout = packed(graph)
        width = np.diff(circuit.leaf_first)
        leaf = np.repeat(np.arange(circuit.n_leaves), width)
        is_possible = np.any(circuit.leaf_log_p > -np.inf, axis=1)
        n_possible = np.bincount(leaf[is_possible], minlength=circuit.n_leaves)
        is_choice = is_possible & (n_possible[leaf] > 1)
        self.cells = np.flatnonzero(is_choice)  # with a parameter
        self.edges = choice_edges(graph)
        self.n_cells = len(self.cells)
        # The parameter of every cell, or one of the two that `with_fixed` adds.
        number = np.where(is_possible, self.n_cells, self.n_cells + 1)
        number[self.cells] = np.arange(self.n_cells)
        # Leaves and sums with a choice, numbered, so that tables of them are as small as can be.
        owner = np.append(leaf[self.cells], circuit.n_leaves + circuit.edge_sum[self.edges])
        parent = np.unique(owner, return_inverse=True)[1]
        self.n_owners = int(parent.max(initial=-1)) + 1
        n_cells = np.array([column.n_cells for column in circuit.columns])
        self.most = int(n_cells.max())
        place = np.arange(self.most)
        # The cells of every leaf, as many as of the widest; behind the last one is -inf.
        padded = np.where(
            place < width[:, np.newaxis], circuit.leaf_first[:-1, np.newaxis] + place, len(leaf)
        )
        for name, array in {
            "index": index.numpy(),
            "parent": parent,
            "cell_number": number,
            "cell_leaf": leaf,
            "leaf_column": circuit.leaf_column,
            "leaf_cell": padded,
            "column_cell": circuit.leaf_column[leaf] * self.most
            + np.arange(len(leaf))
            - circuit.leaf_first[leaf],
            "unknown": n_cells,
        }.items():
            kept = array if name == "index" else array.astype(np.int64)
            self.register_buffer(name, torch.from_numpy(kept), persistent=False)

    def parameters_of(self, circuit: Circuit) -> FloatArray:
        """The logs of the parameters, `(n_parameters, k)`."""
        return np.vstack([circuit.leaf_log_p[self.cells], circuit.edge_log_theta[self.edges]])

    def plan(self) -> Plan:
        """The structure, as passes take it."""
        return plan_of(self.index, self.layout)

    def rows_at_a_time(self, log_theta: Tensor) -> int:
        """How many rows with parameters of their own fit into memory together."""
        size = len(log_theta) + self.circuit.n_nodes + int(self.circuit.leaf_first[-1])
        return max(1, 2**28 // (log_theta.element_size() * size))

    def normalise(self, logits: Tensor) -> Tensor:
        """Log-parameters from logits `(n_parameters, ...)`: those of a leaf or sum add up to 1."""
        logs = _log_sums(logits, self.parent, self.n_owners)
        logs = torch.where(logs > -torch.inf, logs, 0.0)  # where nothing can be chosen
        return logits - logs.index_select(0, self.parent)

    def leaf_table(self, log_theta: Tensor) -> Tensor:
        """The logs of all cells of leaves, `(n_leaf_cells, ...)`, from those of all parameters."""
        return with_fixed(log_theta[: self.n_cells]).index_select(0, self.cell_number)

    def looked_up(self, table: Tensor, codes: Tensor) -> Tensor:
        """The log-values of leaves, `(n_leaves, n_rows, k)`, for codes `(n_rows, n_columns)`."""
        whole = _log_sums(table, self.cell_leaf, self.circuit.n_leaves)  # one, if it can be
        own = codes.T[self.leaf_column]
        leaf = torch.arange(len(own), device=own.device).unsqueeze(1)
        is_known = own < self.unknown[self.leaf_column].unsqueeze(1)
        place = torch.where(is_known, self.leaf_cell[:, :1] + own, len(table) + leaf)
        rows = torch.cat([table, whole])
        if table.shape[1] == 1:
            return rows[:, 0][place]
        return rows[place, torch.arange(place.shape[1], device=place.device)]

    def weighed(self, table: Tensor, log_weight: Tensor) -> Tensor:
        """The same for weights of all cells, `(n_rows, n_columns, most)`, that are logs."""
        own = log_weight.flatten(1).T[self.column_cell]  # (n_leaf_cells, n_rows)
        return _log_sums(table + own.unsqueeze(2), self.cell_leaf, self.circuit.n_leaves)

    def cells_of(self, table: Tensor, leaf: Tensor) -> Tensor:
        """The logs of the cells `(n_columns, n_rows, most)` of the leaves `(n_columns, n_rows)`.

        The table has a column of its own for every row.
        """
        padded = torch.cat([table, table.new_full((1, table.shape[1]), -torch.inf)])
        row = torch.arange(leaf.shape[1], device=leaf.device).view(1, -1, 1)
        return padded[self.leaf_cell[leaf], row]

    def cell_logs(self, table: Tensor, log_weight: Tensor) -> Tensor:
        """The logs of cells of all leaves, weighed for every row, `(n_leaves, n_rows, most)`."""
        padded = torch.cat([table, table.new_full((1,), -torch.inf)])[self.leaf_cell]
        return padded.unsqueeze(1) + log_weight.transpose(0, 1)[self.leaf_column]

    def leaves_taken(self, taken: Tensor) -> Tensor:
        """The leaf of every column, `(n_columns, n_rows)`, of which one is taken."""
        number = torch.arange(len(taken), device=taken.device).unsqueeze(1) * taken
        found = number.new_zeros((len(self.unknown), taken.shape[1]))
        return found.index_add(0, self.leaf_column, number)

    def flows(self, log_theta: Tensor) -> Tensor:
        """How probable it is to take each parameter, `(n_parameters,)`."""
        leaf, edge = reach(with_fixed(log_theta[self.n_cells :]), self.plan())
        own = self.cell_leaf[torch.from_numpy(self.cells).to(self.cell_leaf.device)]
        return torch.cat([leaf[own] * torch.exp(log_theta[: self.n_cells]), edge])


def _log_sums(logs: Tensor, owner: Tensor, n_owners: int) -> Tensor:
    """Logs of sums of terms by owner, `(n_owners, ...)`; -inf, with gradient 0, where all are."""
    shape = (n_owners, *logs.shape[1:])
    index = owner.view(-1, *(1,) * (logs.ndim - 1)).expand_as(logs)
    top = logs.detach().new_full(shape, torch.finfo(logs.dtype).min)
    top = top.scatter_reduce(0, index, logs.detach(), "amax")
    whole = torch.exp(logs - top.index_select(0, owner))
    whole = logs.new_zeros(shape).index_add(0, owner, whole)
    is_possible = whole > 0
    return torch.where(
        is_possible, top + torch.log(torch.where(is_possible, whole, 1.0)), -torch.inf
    )


def _as_array(tensor: Tensor) -> FloatArray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def is_same_structure(one: Circuit, other: Circuit) -> bool:
    """Whether a module of one circuit can give parameters to the other."""
    same = all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in (
            "leaf_column",
            "leaf_first",
            "sum_vtree",
            "sum_edges",
            "edge_left",
            "edge_right",
        )
    )
    holds = [np.any(own.leaf_log_p > -np.inf, axis=1) for own in (one, other)]
    return same and one.n_components == other.n_components and np.array_equal(*holds)
