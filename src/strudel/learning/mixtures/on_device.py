"""The EM of `em_steps` on a device of torch, as matrix products, and where it begins there.

In:  `Choices` and `Bag`s of the rows, as the kernels of the CPU get them.
Out: `EnsembleOnDevice`, which learns what `Ensemble` learns, up to the rounding of float32;
     its first responsibilities are those of all groups at once.

Rows go bag by bag. What a row takes is kept on the device in two bytes (four in large structures)
for each entry of a bag; the 0/1 matrix of `flow_products` is kept where all bags together need at
most KEPT_BYTES, and made again for every product where they need more. Everything stays on the
device between steps: a few numbers per step come back. A step of small tables takes as long as its
kernels take to be called, so there are few of them.

k-means runs on all rows that it looks at in every step; random numbers differ from those of the
CPU, and a seed gives the same ones each time. A small table starts as it does on the CPU: there,
k-means by batches finds a few large clusters besides tiny ones, and overfits less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.on_device.flow_products import (
    FlowBlock,
    Parameters,
    aligned,
    in_parts,
    log_products,
    log_sums,
    shares_in_parts,
    transposed_products,
)
from strudel.data.bits import BitMatrix
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.mixtures.em import CLUSTERED_ROWS, UNEVEN
from strudel.learning.mixtures.em_steps import Bag, Choices, Counts, Prior
from strudel.learning.options import InitParams

KEPT_BYTES = 2**30  # of the 0/1 matrices of all bags
STEPS = 10  # of k-means
FEW_ROWS = 4096  # dna, with 1,600 rows, gains 0.8 nats by the start of the CPU
LONGEST = 32  # lines that are added one after the other


@dataclass(frozen=True, eq=False)
class ChoicesOnDevice(Choices):
    """Choices whose components learn on a device, with the blocks of rows that are there.

    Columns of the 0/1 matrix are the listed states, by place.
    """

    _blocks: dict[int, tuple[Bag, FlowBlock]] = field(default_factory=dict)

    @classmethod
    def of(cls, choices: Choices, device: Any) -> ChoicesOnDevice:
        """The same choices, on a device."""
        own = {one.name: getattr(choices, one.name) for one in fields(Choices)}
        return cls(**own | {"device": device})

    def block(self, bag: Bag) -> FlowBlock:
        """The rows of a bag on the device; they stay there."""
        if id(bag) not in self._blocks:
            column = np.empty(self.n_states, dtype=np.int32)
            column[self.listed] = np.arange(self.n_listed)
            length = np.diff(bag.row_first)
            codes = np.full((bag.n_rows, max(1, length.max(initial=0))), self.n_listed, np.int32)
            codes[np.arange(codes.shape[1]) < length[:, np.newaxis]] = column[bag.row_state]
            kept = sum(block.kept_bytes for _, block in self._blocks.values())
            is_kept = kept + FlowBlock.matrix_bytes(bag.n_rows, self.n_listed) <= KEPT_BYTES
            block = FlowBlock.of(codes, self.n_listed, self.device, is_kept)
            self._blocks[id(bag)] = bag, block
        return self._blocks[id(bag)][1]

    def index(self, numbers: AnyArray) -> Tensor:
        """Indices on the device."""
        return torch.from_numpy(np.asarray(numbers, dtype=np.int64)).to(self.device)

    def numbers(self, values: Any) -> Tensor:
        """Numbers in float64 on the device."""
        return torch.tensor(values, dtype=torch.float64, device=self.device)

    @property
    def n_listed(self) -> int:
        """Number of states that bags hold: those that are no default."""
        return len(self.listed)

    @cached_property
    def listed(self) -> IntArray:
        """The state of every column."""
        return self.place_state[self.is_listed[self.place_state]]

    @cached_property
    def defaults(self) -> IntArray:
        """The defaults, one per place; none where bags list all states."""
        return self.default[self.default != NONE]

    @cached_property
    def lines(self) -> Lines:
        """Where the numbers of a step are."""
        n_edges, n_listed = len(self.edge), self.n_listed
        row = np.empty(self.n_states, dtype=np.int64)
        row[self.listed] = np.arange(n_listed)
        row[self.defaults] = n_listed + np.arange(len(self.defaults))
        place_default = np.empty(self.n_states, dtype=np.int64)
        place_default[self.place_state] = np.repeat(self.default, np.diff(self.place_first))
        place_listed = np.add.reduceat(self.is_listed[self.place_state], self.place_first[:-1])

        states = np.concatenate([self.listed, self.defaults])
        if len(self.defaults):
            states = np.concatenate([states, place_default[self.listed]])
        n_each = np.diff(self.node_first)
        return Lines(
            Segments.of(self, place_listed) if len(self.defaults) else None,
            self.index(row[:n_edges]),
            Segments.of(self, n_each),
            self.index(np.repeat(np.arange(len(n_each)), n_each)),
            self.index(np.minimum(states, n_edges)),  # all of "no choice" have the last line
        )


class Lines(NamedTuple):
    """Indices on the device, by which `EnsembleOnDevice.maximise` finds its numbers.

    Edges are those with a parameter; the line after the last stands for "no choice".
    """

    by_place: Segments | None  # of the columns; None where there are no defaults
    row: Tensor  # of every edge, among the columns and then the defaults
    by_node: Segments  # of the edges
    node: Tensor  # the sum of every edge
    edge: Tensor  # of every column, of every default, and again of the default of every column


@dataclass(frozen=True, eq=False)
class Segments:
    """Lines that follow one another and are added, in a fixed order, unlike by `index_add`."""

    first: Tensor  # piece p has the lines first[p]:first[p + 1]
    piece_first: Tensor | None  # the same for the pieces of every segment, if some have several

    @classmethod
    def of(cls, choices: ChoicesOnDevice, length: AnyArray) -> Segments:
        """Segments of some lengths; long ones in pieces, which are added side by side."""
        if len(length) == 0 or length.max() <= LONGEST:
            return cls(choices.index(_starts(length)), None)
        n_pieces = np.maximum(-(-length // LONGEST), 1)
        pieces = np.full(n_pieces.sum(), LONGEST)
        pieces[np.cumsum(n_pieces) - 1] = length - LONGEST * (n_pieces - 1)
        return cls(choices.index(_starts(pieces)), choices.index(_starts(n_pieces)))

    def sums(self, lines: Tensor) -> Tensor:
        """The sum of every segment."""
        sums = _segment_sums(lines, self.first)
        return sums if self.piece_first is None else _segment_sums(sums, self.piece_first)


def _starts(length: AnyArray) -> AnyArray:
    return np.append(0, np.cumsum(length))


def _segment_sums(lines: Tensor, first: Tensor) -> Tensor:
    sums: Tensor = torch.segment_reduce(lines, "sum", offsets=first, axis=0, unsafe=True)
    return sums


@dataclass(frozen=True, eq=False)
class CountsOnDevice(Counts):
    """Counts that stay on the device: `count` has a line per column, not per state."""

    choices: ChoicesOnDevice

    def columns(self, chosen: IntArray) -> CountsOnDevice:
        """Those of some components."""
        mine = self.choices.index(chosen)
        return CountsOnDevice(self.count[:, mine], self.total[mine], self.choices)

    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """Both as arrays, with a line per state."""
        choices = self.choices
        count = np.empty((choices.n_states, len(self.total)))
        count[choices.listed] = self.count.cpu().numpy()
        if choices.lines.by_place is not None:
            left = _left_over(choices.lines.by_place, self.count, self.total)
            count[choices.defaults] = left.cpu().numpy()
        return count, self.total.cpu().numpy()


def _left_over(by_place: Segments, count: Tensor, total: Tensor) -> Tensor:
    """What the other states of a place leave for its default; rounding may leave a little less."""
    return (total - by_place.sums(count)).clamp_(min=0.0)


class RowWeights(NamedTuple):
    """Weights of the rows of a bag, `(n_padded, 1)` or `(n_padded, n_groups)`."""

    exact: Tensor  # float64
    share: Tensor  # float32, of the largest
    largest: float


class EnsembleOnDevice:
    """`Ensemble` with its tables on a device.

    `count` and `total` are in float64, and a step makes new ones, so that counts are never copied.
    """

    def __init__(
        self,
        choices: ChoicesOnDevice,
        prior: Prior,
        n_groups: int,
        size: int,
        counts: Counts | None = None,
    ) -> None:
        self.choices = choices
        self.prior = prior
        self.n_groups = n_groups
        self.size = size
        self._mean = choices.numbers(prior.mean[choices.edge]).unsqueeze(1)
        self._prior = self.prior.strength * self._mean
        # Its last line stays 0, for "no choice here".
        self._log_theta = self._mean.new_zeros((len(choices.edge) + 1, self.n_columns))
        self._parameters: Parameters | None = None
        self._weights: dict[int, tuple[FloatArray, RowWeights]] = {}
        self._set(self._mean.new_zeros((choices.n_listed + 1, self.n_columns)))
        if isinstance(counts, CountsOnDevice):
            self.count, self.total = counts.count, counts.total
        elif counts is not None:
            count, total = counts.arrays()
            self.count, self.total = choices.numbers(count[choices.listed]), choices.numbers(total)

    @property
    def n_columns(self) -> int:
        """Number of components of all groups."""
        return self.n_groups * self.size

    def counts(self) -> Counts:
        """The counts, on the device."""
        return CountsOnDevice(self.count, self.total, self.choices)

    def maximise(self) -> None:
        """M-step: the best parameters for the counts, in float64."""
        lines, n_edges = self.choices.lines, len(self.choices.edge)
        theta = torch.index_select(self._all_counts(), 0, lines.row, out=self._log_theta[:n_edges])
        self._take_logs(theta, lines.by_node, lines.node, self._mean, self._prior)
        n_listed, n_defaults = self.choices.n_listed, len(self.choices.defaults)
        picked, base = self._log_theta.index_select(0, lines.edge), self._log_weight()
        logs = picked[:n_listed]
        if lines.by_place is not None:
            logs.sub_(picked[n_listed + n_defaults :])
            base.add_(picked[n_listed : n_listed + n_defaults].sum(dim=0))
        room = None if self._parameters is None else self._parameters.parts
        self._parameters = Parameters.of(logs, base, lines.by_place is None, room)

    def _all_counts(self) -> Tensor:
        """The counts of columns, and of the defaults."""
        by_place = self.choices.lines.by_place
        if by_place is None:
            return self.count
        return torch.cat([self.count, _left_over(by_place, self.count, self.total)])

    def _take_logs(
        self, count: Tensor, by_node: Segments, node: Tensor, mean: Tensor, prior: Tensor
    ) -> None:
        """Make counts of edges the logs of their parameters."""
        total = by_node.sums(count).add_(self.prior.strength).index_select(0, node)
        count.add_(prior).div_(total)
        if self.prior.strength == 0.0:  # a component may never reach a sum
            count.copy_(torch.where(total > 0.0, count, mean))
        count.log_()

    def mixtures(self) -> list[BitMixture]:
        """Every group as a mixture, also with the edges that no row takes."""
        choices, circuit = self.choices, self.choices.circuit
        counts = self._all_counts()
        row = np.full(circuit.n_edges, len(counts))  # of an edge without rows
        row[choices.edge] = choices.lines.row.cpu().numpy()
        count = torch.cat([counts, counts.new_zeros((1, self.n_columns))])[choices.index(row)]
        n_each = np.diff(circuit.node_edges[2 * circuit.n_vars :])
        node = choices.index(np.repeat(np.arange(len(n_each)), n_each))
        mean = choices.numbers(self.prior.mean).unsqueeze(1)
        self._take_logs(count, Segments.of(choices, n_each), node, mean, self.prior.strength * mean)
        log_theta, log_weight = count.cpu().numpy(), self._log_weight().cpu().numpy()
        columns = [slice(g * self.size, (g + 1) * self.size) for g in range(self.n_groups)]
        return [BitMixture(circuit, log_theta[:, own], log_weight[own]) for own in columns]

    def _log_weight(self) -> Tensor:
        # One virtual row per group keeps every weight above zero.
        mass = self.total.view(self.n_groups, self.size) + 1.0 / self.size
        return mass.div_(mass.sum(dim=1, keepdim=True)).log_().ravel()

    def expect(
        self, bags: Sequence[Bag], weights: Sequence[FloatArray]
    ) -> tuple[FloatArray, float]:
        """E-step: the counts under the parameters; returns what `Ensemble.expect` returns."""
        assert self._parameters is not None
        found = []
        sums: Tensor | None = None
        for bag, weight in zip(bags, weights, strict=True):
            mine = self._weight(bag, weight)
            matrix = self.choices.block(bag).matrix()
            log_p, *parts = shares_in_parts(
                log_products(matrix, self._parameters),
                self._parameters.base,
                self.n_groups,
                mine.share,
            )
            more = transposed_products(matrix, *parts).mul_(mine.largest)
            sums = more if sums is None else sums.add_(more)
            found.append(weighted_sums(mine.exact, log_p))
            by_row = self._weight(bag, bag.weight[np.newaxis], bag.weight).exact
            found.append(weighted_sums(by_row, log_mean(log_p)))
        assert sums is not None
        self._set(sums)
        by_group = torch.cat(found).cpu().numpy().reshape(len(bags), -1).sum(axis=0)
        return by_group[:-1], float(by_group[-1])

    def add(self, bag: Bag, share: Any, weight: FloatArray) -> None:
        """Add the rows of a bag to the counts: component c gets `share[r, c]` of row r.

        `share` is an array, or a tensor `(n_padded, n_columns)` on the device.
        """
        block = self.choices.block(bag)
        if isinstance(share, np.ndarray):
            share = block.padded(share, torch.float32)
        mine = self._weight(bag, weight)
        n_weights = mine.share.shape[1]
        shares = torch.zeros((block.n_padded, aligned(self.n_columns)), device=share.device)
        grouped = share.unflatten(1, (n_weights, -1)) * mine.share.unsqueeze(2)
        shares[:, : self.n_columns] = grouped.flatten(1)
        sums = transposed_products(block.matrix(), *in_parts(shares)).mul_(mine.largest)
        count, total = self.count, self.total
        self._set(sums)
        self.count, self.total = self.count + count, self.total + total

    def start(
        self,
        rows: BitMatrix,
        bags: Sequence[Bag],
        weights: Sequence[FloatArray],
        init_params: InitParams,
        rng: np.random.Generator,
    ) -> bool:
        """The counts of the first responsibilities, if there are many rows."""
        if rows.n_rows <= FEW_ROWS:
            return False
        shares = self._first_shares(rows, bags, init_params, rng)
        for bag, weight, share in zip(bags, weights, shares, strict=True):
            self.add(bag, share, weight)
        return True

    def _first_shares(
        self,
        rows: BitMatrix,
        bags: Sequence[Bag],
        init_params: InitParams,
        rng: np.random.Generator,
    ) -> Iterator[Tensor]:
        """For the rows of every bag, the shares of all components."""
        choices, n_groups, size = self.choices, self.n_groups, self.size
        generator = torch.Generator(choices.device).manual_seed(int(rng.integers(2**63)))
        blocks = [choices.block(bag) for bag in bags]
        if init_params == "random":
            for block in blocks:
                shape = (block.n_padded, n_groups, size)
                uniform = torch.rand(shape, generator=generator, device=choices.device)
                # A power of a uniform number has about the shape of a gamma variate near zero.
                share = uniform.pow_(1.0 / UNEVEN).add_(1e-30)
                yield share.div_(share.sum(dim=2, keepdim=True)).flatten(1)
            return
        table, weight = rows.unpack(), rows.weights
        chosen = np.arange(len(table))
        if len(table) > CLUSTERED_ROWS:
            chosen = np.sort(rng.choice(len(table), CLUSTERED_ROWS, replace=False))
        sample = _on(table[chosen], choices.device)
        by_row = _on(weight[chosen], choices.device)
        n_clusters = min(size, len(sample))
        if init_params == "kmeans":
            first = _some_rows(by_row, n_groups, n_clusters, generator)
        else:
            first = _far_rows(sample, by_row, n_groups, n_clusters, generator)
        centres = k_means(sample, by_row, sample[first])
        start = 0
        for block in blocks:
            own = _on(block.padded(table[start : start + block.n_rows], torch.uint8), None)
            label = nearest(own, centres) + size * torch.arange(n_groups, device=own.device)
            share = torch.zeros((len(own), n_groups * size), device=own.device)
            yield share.scatter_(1, label, 1.0)
            start += block.n_rows

    def scores(
        self, bags: Sequence[Bag], weight: FloatArray, n_init: int
    ) -> tuple[FloatArray, float]:
        """What `Ensemble.scores` returns."""
        logs, by_row = self.logs(bags), self.choices.numbers(weight).unsqueeze(1)
        score = weighted_sums(by_row, logs)
        best = score.view(-1, n_init).argmax(dim=1, keepdim=True)
        mine = logs.unflatten(1, (-1, n_init)).gather(2, best.expand(len(logs), -1, 1)).squeeze(2)
        mean = weighted_sums(by_row, log_mean(mine)) / weight.sum()
        found = torch.cat([score, mean]).cpu().numpy()
        return found[:-1], float(found[-1])

    def log_likelihoods(self, bags: Sequence[Bag]) -> FloatArray:
        """Log-likelihood of each row under each group."""
        logs: FloatArray = self.logs(bags).double().cpu().numpy()
        return logs

    def logs(self, bags: Sequence[Bag]) -> Tensor:
        """The same in float32, on the device."""
        parameters = self._parameters
        assert parameters is not None
        found = []
        for bag in bags:
            logs = log_products(self.choices.block(bag).matrix(), parameters)
            found.append(log_sums(logs, parameters.base, self.n_groups)[: bag.n_rows])
        return torch.cat(found)

    def _set(self, sums: Tensor) -> None:
        """Take over sums over rows, one line per column of the 0/1 matrix."""
        n_listed, n_columns = self.choices.n_listed, self.n_columns
        self.count, self.total = sums[:n_listed, :n_columns], sums[n_listed, :n_columns]

    def _weight(self, bag: Bag, weight: FloatArray, key: FloatArray | None = None) -> RowWeights:
        """Weights of the rows of a bag, `(1, n_rows)` or `(n_groups, n_rows)`; they stay."""
        key = weight if key is None else key
        if id(key) not in self._weights:
            exact = self.choices.block(bag).padded(weight.T)
            largest = float(weight.max(initial=0.0)) or 1.0
            self._weights[id(key)] = key, RowWeights(exact, (exact / largest).float(), largest)
        return self._weights[id(key)][1]


def log_mean(log_p: Tensor) -> Tensor:
    """Log-likelihood of each row under the average of the groups, `(n_rows, 1)`."""
    if log_p.shape[1] == 1:
        return log_p
    return torch.logsumexp(log_p.double(), dim=1, keepdim=True) - np.log(log_p.shape[1])


def weighted_sums(weight: Tensor, log_p: Tensor) -> Tensor:
    """Log-likelihood of every group; a row of weight zero may be impossible."""
    sums: Tensor = torch.nansum(weight * log_p, dim=0)  # 0 * -inf is not a number
    return sums


def k_means(rows: Tensor, weight: Tensor, centres: Tensor) -> Tensor:
    """Centres `(n_groups, n_clusters, n_vars)` after some steps; one without rows stays."""
    n_groups, n_clusters, _ = centres.shape
    for _ in range(STEPS):
        label = nearest(rows, centres) + n_clusters * torch.arange(n_groups, device=rows.device)
        share = torch.zeros((len(rows), n_groups * n_clusters), device=rows.device)
        share.scatter_(1, label, weight.unsqueeze(1).expand(label.shape))
        mass = share.sum(dim=0).view(n_groups, n_clusters, 1)
        mean = (share.T @ rows).view(centres.shape) / mass
        centres = torch.where(mass > 0.0, mean, centres)
    return centres


def nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every row, `(n_rows, n_groups)`."""
    n_groups, n_clusters, _ = centres.shape
    flat = centres.flatten(0, 1)
    closeness = torch.addmm(-0.5 * flat.square().sum(dim=1), rows, flat.T)
    label: Tensor = closeness.view(-1, n_groups, n_clusters).argmax(dim=2)
    return label


def _some_rows(weight: Tensor, n_groups: int, n_clusters: int, generator: Any) -> Tensor:
    """Different rows for the centres of every group, by weight, `(n_groups, n_clusters)`."""
    race = torch.empty((n_groups, len(weight)), device=weight.device)
    race.exponential_(generator=generator)
    rows: Tensor = (race / weight).topk(n_clusters, largest=False).indices
    return rows


def _far_rows(
    rows: Tensor, weight: Tensor, n_groups: int, n_clusters: int, generator: Any
) -> Tensor:
    """The same with rows far from one another (k-means++)."""
    race = torch.empty((n_groups, len(rows)), device=rows.device)
    far = torch.ones_like(race)
    chosen = []
    for _ in range(n_clusters):
        race.exponential_(generator=generator)
        row = (race / (weight * far).clamp(min=1e-30)).argmin(dim=1)
        chosen.append(row)
        centre = rows[row]
        # Squared distances of 0/1 rows are whole numbers.
        distance = rows.sum(dim=1) + centre.sum(dim=1, keepdim=True) - 2.0 * centre @ rows.T
        far = distance if len(chosen) == 1 else torch.minimum(far, distance)
    return torch.stack(chosen, dim=1)


def _on(array: AnyArray | Tensor, device: Any) -> Tensor:
    return torch.as_tensor(array, device=device).float()
