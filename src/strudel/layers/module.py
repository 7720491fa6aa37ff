"""Circuits and mixtures as PyTorch modules.

In:  a circuit, a mixture or a fitted estimator.
Out: `CircuitModule`, an `nn.Module` with the same distribution, whose parameters can be trained;
     and `to_model`, which brings them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.on_device.levels import choice_edges
from strudel.circuits.on_device.passes import (
    Plan,
    best_literals,
    choice_parameters,
    drawn_literals,
    literal_logs,
    packed,
    plan_of,
    reach,
    root_value,
    with_fixed,
)
from strudel.circuits.properties import check_properties
from strudel.queries.arguments import given_rows, log_density_in
from strudel.queries.model import log_weights_of, part_of

if TYPE_CHECKING:
    from strudel.queries.model import Model


class CircuitModule(nn.Module):
    """A circuit or mixture whose parameters are logits, normalised whenever they are used.

    Rows are of shape `(n_rows, n_vars)`, 0 or 1, NaN where unknown: tensors, or anything that the
    queries take, such as a frame for a model of a table. Only edges with a choice have a logit:
    those of sums with several.

    Attributes
    ----------
    logits : Parameter of shape (n_parameters, n_components)
        Of the edges with a choice.
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

    def __init__(self, model: Model, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        dtype = dtype or torch.get_default_dtype()
        self.model = model
        part = part_of(model)
        check_properties(part.structure, "to_torch", "smooth", "decomposable")
        self.structure = _Structure(part.structure)
        logs, _ = choice_parameters(part.structure, part.edge_log_theta)
        self.logits = nn.Parameter(torch.tensor(logs, dtype=dtype))
        self.weight_logits = nn.Parameter(torch.tensor(log_weights_of(model), dtype=dtype))

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.model.n_vars

    @property
    def n_components(self) -> int:
        """Number of components; 1 for a circuit."""
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
        x : tensor of shape (n_rows, n_vars)
            0, 1, or NaN where unknown; without it, nothing is known. Of a frame, the density of
            numbers within their cells counts as in `log_marginal`, unless there is a `mask`.
        mask : tensor of bool, of the same shape, optional
            True where a value is known; all others are summed out.
        soft : tensor of shape (n_rows, n_vars, 2), optional
            Instead of `x`: the likelihoods of the values 0 and 1 of every variable. Each times its
            gradient is a marginal probability.
        params : tensor of shape (n_rows, n_parameters) or (n_rows, n_parameters, n_components)
            Logits for every row, as a network gives them, instead of the module's own.

        Returns
        -------
        tensor of shape (n_rows,)
        """
        if params is not None and x is None and soft is None:
            x = self.weight_logits.new_full((len(params), self.n_vars), torch.nan)
        literals = self._literals(x, mask, soft)
        log_p = self._mix(self._component_log_prob(literals, self._by_row(params, literals)))
        if x is None or isinstance(x, Tensor) or mask is not None:
            return log_p
        return log_p + torch.as_tensor(log_density_in(self.model, x)).to(log_p)

    def marginals(self, x: Any = None, *, mask: Tensor | None = None) -> Tensor:
        """P(X_i = 1 | row) for every variable, `(n_rows, n_vars)`; NaN for an impossible row.

        It can be differentiated by the parameters.
        """
        literals = self._literals(x, mask, None).detach().requires_grad_()
        is_trained = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        with torch.enable_grad():
            log_p = self._mix(self._component_log_prob(literals, self._by_row(None, literals)))
            flow = torch.autograd.grad(log_p.sum(), literals, create_graph=is_trained)[0]
        is_possible = torch.isfinite(log_p).unsqueeze(1)
        return torch.where(is_possible, flow[1::2, :, 0].T, torch.nan)

    def most_probable_state(self, x: Any = None) -> tuple[Tensor, Tensor]:
        """The most probable completion of every row, and its log-probability.

        Exact for deterministic circuits. Of a mixture, ask the model that `to_model` gives.
        """
        if self.n_components > 1:
            raise ValueError(
                "The most probable state of a mixture needs a search: "
                "strudel.most_probable_state(module.to_model(), ...)."
            )
        check_properties(self.structure.circuit, "most_probable_state", "deterministic")
        with torch.no_grad():
            literals = self._literals(x, None, None)
            log_theta = self._by_row(None, literals)
            value, taken = best_literals(literals, log_theta, self.structure.plan())
        return taken[1::2].T.to(self.weight_logits.dtype), value

    def sample(
        self, n_samples: int = 1, given: Any = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Rows drawn from the distribution, `(n_samples, n_vars)`; given a row, conditionally."""
        literals = self._literals(given, None, None)
        if literals.shape[1] != 1:
            raise ValueError(f"given must be one row, but has {literals.shape[1]}.")
        with torch.no_grad():
            theta = self._by_row(None, literals)
            joint = self._component_log_prob(literals, theta)[0] + self.log_weight()
            if not torch.isfinite(joint).any():
                raise ValueError("What is given has probability zero.")
            component = torch.multinomial(
                torch.softmax(joint, dim=0), n_samples, replacement=True, generator=generator
            )
            rows = joint.new_empty((n_samples, self.n_vars))
            size = self.structure.rows_at_a_time(theta)
            for some in torch.split(torch.arange(n_samples, device=rows.device), size):
                taken = drawn_literals(
                    literals.expand(-1, len(some), -1),
                    theta[:, 0, component[some]].unsqueeze(2),
                    self.structure.plan(),
                    generator,
                )
                rows[some] = taken[1::2].T.to(rows.dtype)
        return rows

    def entropy(self) -> Tensor:
        """Entropy in nats, exact for a deterministic circuit; can be differentiated."""
        self._check_single("entropy")
        log_theta = self.log_theta()[:, 0]
        flow = reach(with_fixed(log_theta), self.structure.plan())
        return -(flow * torch.where(log_theta > -torch.inf, log_theta, 0.0)).sum()

    def kl(self, other: CircuitModule) -> Tensor:
        """Kullback-Leibler divergence to a module on the same structure; can be differentiated."""
        self._check_single("kl")
        other._check_single("kl")
        if not _is_same_structure(self.model, other.model):
            raise ValueError(
                "kl compares two modules on one structure; strudel.kl_divergence compares any two "
                "models on one vtree."
            )
        mine, theirs = self.log_theta()[:, 0], other.log_theta()[:, 0]
        flow = reach(with_fixed(mine), self.structure.plan())
        is_used = flow > 0
        return torch.where(is_used, flow * torch.where(is_used, mine - theirs, 0.0), 0.0).sum()

    def to_model(self) -> Model:
        """The circuit or mixture with the parameters that the module has now."""
        log_theta = self.structure.all_edges(self.log_theta())
        if isinstance(self.model, Circuit):
            return self.model.with_parameters(log_theta[:, 0])
        log_weight = _as_array(self.log_weight())
        log_weight = log_weight - np.log(np.exp(log_weight).sum())
        return Mixture(self.model.structure, log_theta, log_weight, self.model.known)

    def to_model_of(self, model: Model) -> Model:
        """`to_model` with the names and the code of a model on the same structure."""
        if not _is_same_structure(self.model, model):
            raise ValueError("The module was not made from a model of this structure.")
        return self.to_model().with_names(model.feature_names).with_table_code(model.table_code)

    def _component_log_prob(self, literals: Tensor, log_theta: Tensor) -> Tensor:
        """Log-probability of every row under every component."""
        return root_value(literals, log_theta, self.structure.index, self.structure.layout)

    def _by_row(self, params: Tensor | None, literals: Tensor) -> Tensor:
        """Log-parameters `(n_parameters + 2, 1 or n_rows, k)`."""
        if params is None:
            return with_fixed(self.log_theta().unsqueeze(1))
        table = params.unsqueeze(2) if params.ndim == 2 else params
        if table.shape != (literals.shape[1], *self.logits.shape):
            raise ValueError(
                f"params must be of shape {(literals.shape[1], *self.logits.shape)}, "
                f"but got {tuple(params.shape)}."
            )
        rows = table.to(self.weight_logits.dtype).transpose(0, 1)
        return with_fixed(self.structure.normalise(rows))

    def _mix(self, log_p: Tensor) -> Tensor:
        if self.n_components == 1:
            return log_p[:, 0]
        return torch.logsumexp(log_p + self.log_weight(), dim=1)

    def _literals(self, x: Any, mask: Tensor | None, soft: Tensor | None) -> Tensor:
        """Log-likelihoods of the literals, `(2 * n_vars, n_rows, 1)`."""
        if soft is not None:
            if x is not None or mask is not None:
                raise ValueError("Give soft instead of x and mask, not with them.")
            if soft.ndim != 3 or soft.shape[1:] != (self.n_vars, 2):
                raise ValueError(
                    f"soft must be of shape (n_rows, {self.n_vars}, 2), "
                    f"but got {tuple(soft.shape)}."
                )
            return torch.log(soft.to(self.weight_logits)).flatten(1).T.unsqueeze(2)
        rows = self.rows(x)
        is_unknown = torch.isnan(rows)
        if mask is not None:
            is_unknown = is_unknown | ~mask.to(rows.device, torch.bool)
        return literal_logs(rows, is_unknown)

    def rows(self, x: Any) -> Tensor:
        """Rows as a tensor `(n_rows, n_vars)` of 0, 1 and NaN, where the parameters are."""
        if x is None:
            return self.weight_logits.new_full((1, self.n_vars), torch.nan)
        if not isinstance(x, Tensor):
            values, _ = given_rows(self.model, x, "x")
            return torch.as_tensor(np.asarray(values, dtype=np.float64)).to(self.weight_logits)
        rows = x.to(self.weight_logits)
        rows = rows.unsqueeze(0) if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != self.n_vars:
            raise ValueError(
                f"x must be of shape (n_rows, {self.n_vars}), but got {tuple(x.shape)}."
            )
        return rows

    def _check_single(self, query: str) -> None:
        if self.n_components > 1:
            raise ValueError(f"{query} is exact for circuits, but this is a mixture.")
        check_properties(self.structure.circuit, query, "deterministic")


class _Structure(nn.Module):
    """The arrays of a structure as one buffer, which moves with the module."""

    index: Tensor
    parent: Tensor

    def __init__(self, circuit: Circuit) -> None:
        super().__init__()
        self.circuit = circuit
        self.edges = choice_edges(circuit)
        index, self.layout = packed(circuit)
        self.register_buffer("index", index, persistent=False)
        # Sums with a choice, numbered, so that tables of them are as small as they can be.
        parent = np.unique(circuit.edge_parent[self.edges], return_inverse=True)[1]
        self.register_buffer("parent", torch.from_numpy(parent), persistent=False)
        self.n_sums = int(parent.max(initial=-1)) + 1

    def plan(self) -> Plan:
        """The structure, as passes take it."""
        return plan_of(self.index, self.layout)

    def rows_at_a_time(self, log_theta: Tensor) -> int:
        """How many rows with parameters of their own fit into memory together."""
        return max(1, 2**28 // (log_theta.element_size() * (len(log_theta) + self.circuit.n_nodes)))

    def normalise(self, logits: Tensor) -> Tensor:
        """Log-parameters from logits `(n_parameters, ...)`: those of a sum add up to one."""
        shape = (self.n_sums, *logits.shape[1:])
        index = self.parent.view(-1, *(1,) * (logits.ndim - 1)).expand_as(logits)
        top = logits.detach().new_full(shape, torch.finfo(logits.dtype).min)
        top = top.scatter_reduce(0, index, logits.detach(), "amax")
        shifted = logits - top.index_select(0, self.parent)
        whole = logits.new_zeros(shape).index_add(0, self.parent, torch.exp(shifted))
        logs = torch.log(torch.where(whole > 0, whole, 1.0))  # zero where nothing can be chosen
        return shifted - logs.index_select(0, self.parent)

    def all_edges(self, log_theta: Tensor) -> FloatArray:
        """Log-parameters of all edges, those without a choice included."""
        found = np.zeros((self.circuit.n_edges, log_theta.shape[1]))
        found[self.edges] = _as_array(log_theta)
        return found


def _as_array(tensor: Tensor) -> FloatArray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def _is_same_structure(one: Model, other: Model) -> bool:
    mine, theirs = part_of(one), part_of(other)
    return mine.n_components == theirs.n_components and all(
        map(np.array_equal, mine.structure.edges, theirs.structure.edges)
    )
