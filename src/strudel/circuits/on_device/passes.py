"""Passes up and down through a circuit, for many rows and components at once, in log space.

In:  logs of the values of inputs `(n_inputs, n_rows, 1 or k)`, and logs of parameters
     `(n_parameters + 2, 1 or n_rows, k)`.
Out: the log of the root's value `(n_rows, k)`; its gradients, by a pass down.

`root_value` is one operation for PyTorch, with a formula for its gradient: linear in the edges, in
time and in memory, and safe inside `torch.compile` and CUDA graphs. On a GPU every level is one
kernel (`triton_passes`), elsewhere a few operations of PyTorch. If the table of all values would be
too large, rows go in blocks, and the way down computes it again.

`root_value_in_steps` is made of operations that can be differentiated again; it is slower, and for
what needs the gradient of a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from strudel.circuits.on_device.levels import Block, Graph, Level, choice_edges, pass_down, pass_up

MOST_BYTES = {"cpu": 2**30, "cuda": 2**34}  # of the values of all nodes; more go in blocks of rows
ALIGNED = 32  # a GPU reads so many numbers at a time


class Way(NamedTuple):
    """A pass as views of the one tensor that holds all index arrays."""

    out: Tensor
    theta: Tensor
    left: Tensor
    right: Tensor
    idle: Tensor
    levels: list[Level]
    n_slots: int
    input_level: int

    def blocks(self, n_levels: int | None = None) -> list[Block]:
        """The sums of some levels, by their number of terms."""
        return [block for level in self.levels[:n_levels] for block in level.blocks()]


class Plan(NamedTuple):
    """A structure, as passes take it."""

    up: Way
    down: Way
    edge_parent: Tensor  # of the edges with a parameter
    edge_left: Tensor
    edge_right: Tensor
    n_inputs: int
    n_nodes: int
    root: int


_PLAIN = ("out", "theta", "left", "right", "idle")  # the arrays of a pass


def packed(graph: Graph) -> tuple[Tensor, list[int]]:
    """All index arrays of a structure in one tensor, and where each is, in numbers."""
    chosen = choice_edges(graph)
    arrays = [graph.edge_parent[chosen], graph.edge_left[chosen], graph.edge_right[chosen]]
    layout = [graph.n_inputs, graph.n_nodes]
    for way in (pass_up(graph), pass_down(graph)):
        arrays += [getattr(way, name) for name in _PLAIN]
        layout += [way.n_slots, way.input_level, len(way.levels)]
        layout += [number for level in way.levels for number in level]
    padded = [np.append(array, np.zeros(-len(array) % 4)) for array in arrays]
    index = torch.from_numpy(np.concatenate(padded).astype(np.int32))
    return index, [*(len(array) for array in arrays), *layout]


def with_fixed(log_theta: Tensor) -> Tensor:
    """With the parameters one and zero, for edges without a choice and terms that are missing."""
    fixed = log_theta.new_zeros((2, *log_theta.shape[1:]))
    fixed[1] = -torch.inf
    return torch.cat([log_theta, fixed])


def plan_of(index: Tensor, layout: Sequence[int]) -> Plan:
    """What `packed` packed."""
    lengths, (n_inputs, n_nodes), *ways = _unpacked(tuple(layout))
    views, start = [], 0
    for length in lengths:
        views.append(index[start : start + length])
        start += length + -length % 4
    parent, left, right, *others = views
    up = Way(*others[: len(_PLAIN)], *ways[0])
    down = Way(*others[len(_PLAIN) :], *ways[1])
    return Plan(up, down, parent, left, right, n_inputs, n_nodes, n_nodes - 1)


@lru_cache(maxsize=64)
def _unpacked(layout: tuple[int, ...]) -> list[Any]:
    numbers = iter(layout)

    def take(n: int) -> list[int]:
        return [next(numbers) for _ in range(n)]

    found: list[Any] = [take(3 + 2 * len(_PLAIN)), take(2)]
    for _ in range(2):
        n_slots, input_level, n_levels = take(3)
        levels = [Level(*take(len(Level._fields))) for _ in range(n_levels)]
        found.append((levels, n_slots, input_level))
    return found


def root_value(inputs: Tensor, log_theta: Tensor, index: Tensor, layout: list[int]) -> Tensor:
    """The log-value of the root for every row and component, `(n_rows, k)`."""
    found: Tensor = _root_value(inputs, log_theta, index, layout)[0]
    return found


@torch.library.custom_op("strudel::root_value", mutates_args=())
def _root_value(
    inputs: Tensor, log_theta: Tensor, index: Tensor, layout: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """The root's values, and the table of all, unless rows go in blocks."""
    plan = plan_of(index, layout)
    blocks = _row_blocks(inputs, log_theta, plan.up.n_slots)
    if len(blocks) == 1:
        table = _values(inputs, log_theta, plan)
        return _root(table, inputs, log_theta, plan), table
    found = [
        _root(_values(*part, plan), *part, plan)
        for part in (_rows_of(inputs, log_theta, rows) for rows in blocks)
    ]
    return torch.cat(found), inputs.new_empty(0)


@_root_value.register_fake
def _(
    inputs: Tensor, log_theta: Tensor, index: Tensor, layout: Sequence[int]
) -> tuple[Tensor, Tensor]:
    shape = (inputs.shape[1], log_theta.shape[2])
    n_slots = plan_of(index, layout).up.n_slots
    is_whole = len(_row_blocks(inputs, log_theta, n_slots)) == 1
    table = (n_slots, _n_columns(inputs, log_theta)) if is_whole else (0,)
    return inputs.new_empty(shape), inputs.new_empty(table)


@torch.library.custom_op("strudel::root_gradient", mutates_args=())
def _root_gradient(
    grad: Tensor,
    inputs: Tensor,
    log_theta: Tensor,
    table: Tensor,
    index: Tensor,
    layout: Sequence[int],
    to_inputs: bool,
) -> tuple[Tensor, Tensor]:
    """The gradients by the inputs, if they are asked for, and by the parameters."""
    plan = plan_of(index, layout)
    grad_inputs = inputs.new_zeros(inputs.shape if to_inputs else 0)
    grad_theta = torch.zeros_like(log_theta, memory_format=torch.contiguous_format)
    for rows in _row_blocks(inputs, log_theta, plan.up.n_slots):
        own_inputs, own_theta = _rows_of(inputs, log_theta, rows)
        values = table if len(table) else _values(own_inputs, own_theta, plan)
        factors = _factors(values, own_theta, plan, to_inputs)
        own_grad = grad[rows]
        by_theta = _by_parameter(own_grad, values, factors, own_theta, plan)
        if log_theta.shape[1] == 1:
            grad_theta[:-2] += by_theta
        else:
            grad_theta[:-2, rows] = by_theta
        if to_inputs:
            n, shape = plan.n_inputs, (plan.n_inputs, *own_grad.shape)
            n_used = own_grad.numel()
            flow = torch.exp(factors[:n, :n_used] + values[:n, :n_used]).view(shape) * own_grad
            if inputs.shape[2] == 1:
                flow = flow.sum(dim=2, keepdim=True)
            grad_inputs[:, rows] = flow
    return grad_inputs, grad_theta


@_root_gradient.register_fake
def _(
    grad: Tensor,
    inputs: Tensor,
    log_theta: Tensor,
    table: Tensor,
    index: Tensor,
    layout: Sequence[int],
    to_inputs: bool,
) -> tuple[Tensor, Tensor]:
    shape = inputs.shape if to_inputs else (0,)
    return inputs.new_empty(shape), log_theta.new_empty(log_theta.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    values, log_theta, index, layout = inputs
    ctx.save_for_backward(values, log_theta, index, output[1])
    ctx.layout = layout
    ctx.set_materialize_grads(False)


def _backward(
    context: Any, grad: Tensor | None, _table: Tensor | None
) -> tuple[Tensor | None, Tensor | None, None, None]:
    inputs, log_theta, index, table = context.saved_tensors
    to_inputs, to_theta = context.needs_input_grad[:2]
    if grad is None:
        return None, None, None, None
    if torch.is_grad_enabled():  # somebody will differentiate the gradient
        value = root_value_in_steps(inputs, log_theta, index, context.layout)
        wanted = [one for one in (inputs, log_theta) if one.requires_grad]
        found = iter(torch.autograd.grad(value, wanted, grad, create_graph=True, allow_unused=True))
        return (
            next(found) if inputs.requires_grad else None,
            next(found) if log_theta.requires_grad else None,
            None,
            None,
        )
    by_inputs, by_theta = _root_gradient(
        grad.contiguous(), inputs, log_theta, table, index, context.layout, to_inputs
    )
    return by_inputs if to_inputs else None, by_theta if to_theta else None, None, None


_root_value.register_autograd(_backward, setup_context=_keep)


def _n_columns(inputs: Tensor, log_theta: Tensor) -> int:
    """Rows times components, filled up where that makes reading faster."""
    n_columns = inputs.shape[1] * log_theta.shape[2]
    return n_columns + (-n_columns % ALIGNED if inputs.is_cuda else 0)


def _row_blocks(inputs: Tensor, log_theta: Tensor, n_slots: int) -> list[slice]:
    """Blocks of rows whose values fit into memory together."""
    n_rows = inputs.shape[1]
    per_row = n_slots * log_theta.shape[2] * inputs.element_size()
    most = MOST_BYTES["cuda" if inputs.is_cuda else "cpu"]
    size = max(1, most // max(per_row, 1))
    return [slice(first, min(first + size, n_rows)) for first in range(0, max(n_rows, 1), size)]


def _rows_of(inputs: Tensor, log_theta: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    own = log_theta if log_theta.shape[1] == 1 else log_theta[:, rows]
    return inputs[:, rows], own.contiguous()


def _root(table: Tensor, inputs: Tensor, log_theta: Tensor, plan: Plan) -> Tensor:
    shape = (inputs.shape[1], log_theta.shape[2])
    return table[plan.root, : shape[0] * shape[1]].view(shape).clone()


def _values(inputs: Tensor, log_theta: Tensor, plan: Plan, reduce: Any = None) -> Tensor:
    """The log-values of all nodes, `(n_slots, n_columns)`."""
    n_rows, k = inputs.shape[1], log_theta.shape[2]
    table = inputs.new_empty((plan.up.n_slots, _n_columns(inputs, log_theta)))
    table.index_fill_(0, plan.up.idle.long(), -torch.inf)
    table[: plan.n_inputs, : n_rows * k] = inputs.expand(-1, -1, k).flatten(1)
    table[plan.n_nodes] = 0.0
    _sum_levels(table, table, log_theta, plan.up, len(plan.up.levels), reduce or _log_sum_exp)
    return table


def _factors(values: Tensor, log_theta: Tensor, plan: Plan, to_inputs: bool) -> Tensor:
    """The logs of the factors of all nodes, those of the root divided by its value."""
    table = values.new_empty((plan.down.n_slots, values.shape[1]))
    table.index_fill_(0, plan.down.idle.long(), -torch.inf)
    top = values[plan.root]
    table[plan.root] = torch.where(torch.isfinite(top), -top, 0.0)  # all flows of -inf are zero
    n_levels = len(plan.down.levels) if to_inputs else plan.down.input_level
    _sum_levels(table, values, log_theta, plan.down, n_levels, _log_sum_exp)
    return table


def _sum_levels(
    table: Tensor,
    base: Tensor,
    log_theta: Tensor,
    way: Way,
    n_levels: int,
    reduce: Callable[[Tensor], Tensor],
) -> None:
    """Fill a table level by level; left nodes of terms are in it, right ones in `base`."""
    if table.is_cuda and reduce is _log_sum_exp and _has_triton():
        from strudel.circuits.on_device import triton_passes

        triton_passes.sum_levels(table, base, log_theta, way, n_levels)
        return
    for block in way.blocks(n_levels):
        table[way.out[block.sums]] = reduce(_terms(table, base, log_theta, way, block))


def _terms(table: Tensor, base: Tensor, log_theta: Tensor, way: Way, block: Block) -> Tensor:
    """The logs of all terms of a block, `(n_sums, width, n_columns)`."""
    terms = table[way.left[block.terms]]
    terms += base[way.right[block.terms]]
    n_rows, k = log_theta.shape[1:]
    own = log_theta[way.theta[block.terms]]
    n_used = terms.shape[1] // (n_rows * k) * n_rows * k  # without columns that only fill up
    terms[:, :n_used].view(len(terms), -1, n_rows * k).add_(own.flatten(1).unsqueeze(1))
    return terms.view(-1, block.width, terms.shape[1])


def _log_sum_exp(terms: Tensor) -> Tensor:
    return terms[:, 0] if terms.shape[1] == 1 else torch.logsumexp(terms, dim=1)


def _by_parameter(
    grad: Tensor, values: Tensor, factors: Tensor, log_theta: Tensor, plan: Plan
) -> Tensor:
    """The gradient by the log-parameters: how much of the root's value goes through each edge."""
    if values.is_cuda and _has_triton():
        from strudel.circuits.on_device import triton_passes

        return triton_passes.by_parameter(grad, values, factors, log_theta, plan)
    (n_rows, k), n_used = grad.shape, grad.numel()
    found = log_theta.new_empty((len(log_theta) - 2, *log_theta.shape[1:]))
    size = max(1, MOST_BYTES["cpu"] // 8 // max(n_used * values.element_size(), 1))
    for first in range(0, len(found), size):
        edges = slice(first, first + size)
        flow = factors[plan.edge_parent[edges], :n_used]
        flow += values[plan.edge_left[edges], :n_used]
        flow += values[plan.edge_right[edges], :n_used]
        flow = torch.exp(flow.view(-1, n_rows, k) + log_theta[:-2][edges]) * grad
        found[edges] = flow.sum(dim=1, keepdim=True) if log_theta.shape[1] == 1 else flow
    return found


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def root_value_in_steps(
    inputs: Tensor, log_theta: Tensor, index: Tensor, layout: Sequence[int]
) -> Tensor:
    """The same as `root_value`, of operations that can be differentiated twice."""
    plan = plan_of(index, layout)
    n_rows, k = inputs.shape[1], log_theta.shape[2]
    place = torch.zeros(plan.up.n_slots, dtype=torch.long, device=inputs.device)
    place[plan.up.idle] = 1
    place[: plan.n_inputs] = torch.arange(2, plan.n_inputs + 2, device=inputs.device)
    place[plan.n_nodes] = 0
    fixed = torch.tensor([0.0, -torch.inf]).to(inputs).view(2, 1, 1)
    known = [fixed.expand(-1, n_rows, k), inputs.expand(-1, -1, k)]
    n_known = 2 + plan.n_inputs
    for block in plan.up.blocks():
        values = torch.cat(known)
        left, right = place[plan.up.left[block.terms]], place[plan.up.right[block.terms]]
        terms = log_theta[plan.up.theta[block.terms]] + values[left] + values[right]
        known = [values, _safe_log_sum_exp(terms.view(-1, block.width, n_rows, k))]
        n_sums = block.last_sum - block.first_sum
        new = torch.arange(n_known, n_known + n_sums, device=inputs.device)
        place[plan.up.out[block.sums]] = new
        n_known += n_sums
    return torch.cat(known)[place[plan.root]]


def _safe_log_sum_exp(terms: Tensor) -> Tensor:
    """With gradient zero, and not NaN, where all terms are -inf."""
    top = terms.detach().amax(dim=1, keepdim=True).clamp(min=torch.finfo(terms.dtype).min)
    whole = torch.exp(terms - top).sum(dim=1)
    is_possible = whole > 0
    logs = torch.log(torch.where(is_possible, whole, 1.0))
    return torch.where(is_possible, top[:, 0] + logs, -torch.inf)


def best_inputs(inputs: Tensor, log_theta: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """The best value of the root `(n_rows,)`, and which inputs reach it."""
    table = _values(inputs, log_theta, plan, lambda terms: terms.amax(dim=1))
    taken = _walk_down(table, log_theta, plan, lambda terms: terms.argmax(dim=1))
    return table[plan.root, : inputs.shape[1]], taken[:, : inputs.shape[1]]


def drawn_inputs(
    inputs: Tensor, log_theta: Tensor, plan: Plan, generator: torch.Generator | None
) -> Tensor:
    """Which inputs a random row of each has, drawn from the distribution below the root."""

    def draw(terms: Tensor) -> Tensor:
        noise = torch.empty_like(terms).exponential_(generator=generator)  # the Gumbel trick
        return (terms - torch.log(noise)).argmax(dim=1)

    table = _values(inputs, log_theta, plan)
    return _walk_down(table, log_theta, plan, draw)[:, : inputs.shape[1]]


def _walk_down(
    values: Tensor, log_theta: Tensor, plan: Plan, choose: Callable[[Tensor], Tensor]
) -> Tensor:
    """Follow one term of every sum that is reached; returns which inputs are reached."""
    way = plan.up
    reached = torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
    reached[plan.root] = 1
    for block in reversed(way.blocks()):
        chosen = choose(_terms(values, values, log_theta, way, block))
        is_here = reached[way.out[block.sums]]
        for i in range(block.width):
            is_taken = is_here * (chosen == i)
            terms = slice(block.terms.start + i, block.terms.stop, block.width)
            for nodes in (way.left[terms], way.right[terms]):
                reached.index_add_(0, nodes, is_taken)
    return reached[: plan.n_inputs]


def reach(log_theta: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """How probable it is to reach each input, and to take each edge with a parameter.

    It can be differentiated again.
    """
    theta, way = torch.exp(log_theta), plan.up
    flow = theta.new_zeros(way.n_slots)
    flow = flow.index_add(0, torch.tensor([plan.root], device=theta.device), theta.new_ones(1))
    through = torch.zeros_like(theta)
    for block in reversed(way.blocks()):
        number = way.theta[block.terms]
        share = theta[number] * flow[way.out[block.sums]].repeat_interleave(block.width)
        flow = flow.index_add(0, way.left[block.terms], share)
        flow = flow.index_add(0, way.right[block.terms], share)
        through = through.index_add(0, number, share)
    return flow[: plan.n_inputs], through[:-2]
