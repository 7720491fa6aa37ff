"""Tilted components: one circuit, in which the values of columns count more or less.

In:  a deterministic `BitCircuit` with its parameters, the columns of its variables, and rows.
Out: `TiltedChoices`, `TiltedBag`s and `TiltedEnsemble`, which EM improves like components whose
     parameters are all their own.

A component gives a row what the circuit gives it, times a weight for the value of every column,
divided by what all that adds up to. So it keeps all dependences that the circuit knows, and adds
only one number per value: however large the structure, little has to be learned from the rows of a
component. With parameters of their own, components of a large structure learn rows by heart.

E-step: the log-weights of a row's values add up. M-step: the weights with which values are as
frequent as among the rows of the component (iterative scaling: Darroch and Ratcliff 1972). How
frequent they are, one pass up the circuit and one down say, for eight components at a time.

Smoothing draws a value to how frequent it would be if its own column had no weights, so that a
component without rows is the circuit itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.passes import LANES, Plan, log_of, pass_down, pass_up, working_memory
from strudel.circuits.reweigh import normalized_columns
from strudel.data.bits import BitMatrix
from strudel.data.validation import slices
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.likelihood import plan, rows_log_likelihood
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.mixtures.em_steps import (
    BLOCK_ROWS,
    Bag,
    Choices,
    Counts,
    Ensemble,
    Prior,
    bag_of,
)
from strudel.tables.column_codes import (
    ColumnCode,
    as_column_codes,
    column_values,
    complete_columns,
    free_bit,
)

FEW_STEPS, MOST_STEPS = 3, 10  # of scaling: after an E-step, and for the parameters that are kept
FIRST_STEP, LONGER, SHORTER = 0.5, 1.2, 0.5  # length of a step, and how it changes
MOST_CHANGE = 2.0  # of a log-weight in a step of length one
TINY = 1e-300


@dataclass(frozen=True, eq=False, kw_only=True)
class TiltedChoices(Choices):
    """The values of all columns, numbered one column after the other: states without a choice.

    The table of an ensemble has a line for every value, how much weight of rows takes it, then one
    for its log-weight, and a last one for the length of the next step: where an M-step ended is
    where the next one goes on.
    """

    var: IntArray  # (n_values,) the variable that is 1 from this value on, or for it alone; or NONE
    is_ordered: AnyArray  # (n_values,) whether it is 1 from this value on
    n_free: IntArray  # (n_values,) how many values the column has besides

    @property
    def n_values(self) -> int:
        """Values of all columns."""
        return len(self.var)

    @property
    def n_states(self) -> int:
        """Lines of the table."""
        return 2 * self.n_values + 1

    @property
    def is_listed(self) -> AnyArray:
        """Whether each value is in the bags: all that are no default."""
        is_listed = np.ones(self.n_values, dtype=np.bool_)
        is_listed[self.default] = False
        return is_listed

    def by_variable(self, log_weight: FloatArray) -> FloatArray:
        """Log-weights `(n_vars, n_components)` of 1, where 0 has none, from those of the values."""
        before = np.vstack([np.zeros(log_weight.shape[1]), log_weight[:-1]])
        change = log_weight - np.where(self.is_ordered[:, np.newaxis], before, 0.0)
        found = np.zeros((self.circuit.n_vars, log_weight.shape[1]))
        has_var = self.var != NONE
        found[self.var[has_var]] = change[has_var]
        return found

    def by_value(self, ones: FloatArray) -> FloatArray:
        """Probabilities of the values, from those that variables are 1."""
        reached = np.where((self.var != NONE)[:, np.newaxis], ones[self.var], 1.0)
        beyond = np.vstack([reached[1:], np.zeros(ones.shape[1])])
        # A value of an ordered column is reached where the next one is not.
        is_followed = np.append(self.is_ordered[1:], False)
        found: FloatArray = reached - np.where(is_followed[:, np.newaxis], beyond, 0.0)
        return np.maximum(found, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class TiltedBag(Bag):
    """The values of a block of rows, and what the circuit gives to each row."""

    log_p: FloatArray  # (n_rows,)


def tilt(
    single: BitCircuit, columns: Sequence[ColumnCode] | None, *tables: BitMatrix
) -> tuple[TiltedChoices, list[list[TiltedBag]]]:
    """What components may choose, and for each table the bags of its rows."""
    codes = _columns_to_tilt(columns, single.n_vars)
    width = np.array([code.n_values for code in codes])
    first = np.append(0, np.cumsum(width)).astype(np.int32)
    values = [column_values(bits, codes) + first[:-1, np.newaxis] for bits in tables]
    count = np.sum([np.bincount(one.ravel(), minlength=first[-1]) for one in values], axis=0)
    usual = [a + np.argmax(count[a:b]) for a, b in pairwise(first)]
    var = np.full(first[-1], NONE, dtype=np.int32)
    is_ordered = np.zeros(first[-1], dtype=np.bool_)
    for code, (a, b) in zip(codes, pairwise(first), strict=True):
        has_bits = code.is_ordered
        var[a + has_bits : b] = np.arange(code.start, code.stop)
        is_ordered[a + 1 : b] = has_bits
    none = np.zeros(0, dtype=np.int32)
    choices = TiltedChoices(
        single,
        edge=none,
        node_first=np.zeros(1, dtype=np.int32),
        place_first=first,
        place_state=np.arange(first[-1], dtype=np.int32),
        default=np.array(usual, dtype=np.int32),
        state_of=none,
        var=var,
        is_ordered=is_ordered,
        n_free=np.repeat(width - 1, width),
    )
    return choices, [_bags(choices, bits, one) for bits, one in zip(tables, values, strict=True)]


def _columns_to_tilt(columns: Sequence[ColumnCode] | None, n_vars: int) -> list[ColumnCode]:
    """The columns; their single variables where no weights of these say those of all values."""
    found: list[ColumnCode] = []
    for code in complete_columns(as_column_codes(columns or ()), n_vars):
        if code.is_ordered or _is_one_hot(code):
            found.append(code)
        else:
            found += [free_bit(var) for var in range(code.start, code.stop)]
    return found


def _is_one_hot(code: ColumnCode) -> bool:
    return np.array_equal(code.codewords, np.eye(code.n_values))


def _bags(choices: TiltedChoices, bits: BitMatrix, values: IntArray) -> list[TiltedBag]:
    rows, bags = bits.unpack(), []
    for block in slices(bits.n_rows, BLOCK_ROWS):
        bag = bag_of(values[:, block], choices.is_listed, bits.weights[block])
        log_p = rows_log_likelihood(choices.circuit, rows[block])
        bags.append(TiltedBag(**vars(bag), log_p=log_p))
    return bags


class TiltedEnsemble(Ensemble):
    """Groups of tilted components, each group a mixture of its own."""

    choices: TiltedChoices

    def __init__(
        self,
        choices: TiltedChoices,
        prior: Prior,
        n_groups: int,
        size: int,
        counts: Counts | None = None,
    ) -> None:
        super().__init__(choices, prior, n_groups, size, counts)
        n = choices.n_values
        self._log_weight_of_value = self.count[n : 2 * n]
        self._step = self.count[-1]
        if counts is None:
            self._step[:] = FIRST_STEP
        self._n_steps = FEW_STEPS if counts is None else MOST_STEPS

    def clear(self) -> None:
        """Forget the counts, but not the weights."""
        self.count[: self.choices.n_values] = 0.0
        self.total[:] = 0.0

    def maximise(self) -> None:
        """M-step: weights that are closer to the best ones for the counts."""
        choices = self.choices
        self.complete()
        log_z = self._scale()
        weight = self._log_weight_of_value
        self._log_theta[: choices.n_values] = weight
        self._base[:] = weight[choices.default].sum(axis=0) - log_z + self._log_weight()
        self.find_differences()

    def shares(self, bag: Bag) -> tuple[AnyArray, FloatArray]:
        """Responsibilities of all components, and the log-likelihood under every group, by row."""
        assert isinstance(bag, TiltedBag)
        share, log_p = super().shares(bag)
        return share, log_p + bag.log_p[:, np.newaxis]

    def mixtures(self) -> list[BitMixture]:
        """Every group as a mixture on the structure of the circuit."""
        self.maximise()
        circuit = self.choices.circuit
        by_variable = self.choices.by_variable(self._log_weight_of_value)
        literal = np.zeros((2 * circuit.n_vars, self.n_columns))
        literal[1::2] = by_variable
        weight = np.repeat(circuit.edge_log_theta[:, np.newaxis], self.n_columns, axis=1)
        log_theta, _ = normalized_columns(circuit.edges, weight, circuit.n_vars, literal)
        return self.split(log_theta)

    def _scale(self) -> FloatArray:
        """Some steps of scaling; returns the log of what each component adds up to."""
        choices, n = self.choices, self.choices.n_values
        count, weight, step = self.count[:n], self._log_weight_of_value, self._step
        first = choices.place_first[:-1]
        virtual = self.prior.strength * choices.n_free[:, np.newaxis]
        log_z, share = self._frequencies(weight)
        for _ in range(self._n_steps):
            # How frequent values would be without the weights of their own column.
            without = share * np.exp(np.minimum(-weight, -np.log(TINY)))
            total = np.maximum(np.add.reduceat(without, first), TINY)
            without /= np.repeat(total, np.diff(choices.place_first), axis=0)
            wanted = (count + virtual * without) / np.maximum(self.total + virtual, TINY)
            is_possible = (share > 0.0) & (wanted > 0.0)
            change = np.log(wanted, out=np.zeros_like(wanted), where=is_possible)
            change -= np.log(share, out=np.zeros_like(share), where=is_possible)
            better = weight + step * np.clip(change, -MOST_CHANGE, MOST_CHANGE)
            better -= np.repeat(better[first], np.diff(choices.place_first), axis=0)
            new_log_z, new_share = self._frequencies(better)
            gain = (wanted * (better - weight)).sum(axis=0) - (new_log_z - log_z)
            is_better = gain >= 0.0  # not where digits were lost: nan
            weight[:] = np.where(is_better, better, weight)
            share = np.where(is_better, new_share, share)
            log_z = np.where(is_better, new_log_z, log_z)
            step[:] = np.where(is_better, np.minimum(LONGER * step, 1.0), SHORTER * step)
        return log_z

    def _frequencies(self, log_weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The log of what components add up to, and how frequent values are in each."""
        circuit = self.choices.circuit
        log_z, ones = np.empty(self.n_columns), np.empty((circuit.n_vars, self.n_columns))
        in_threads(
            _pass_up_and_down,
            -(-self.n_columns // LANES),
            plan(circuit),
            circuit.root,
            circuit.theta,
            self.choices.by_variable(log_weight),
            log_z,
            ones,
        )
        return log_z, self.choices.by_value(ones)


@kernel
def _pass_up_and_down(
    first: int,
    last: int,
    p: Plan,
    root: int,
    theta: FloatArray,
    log_weight: FloatArray,
    log_z: FloatArray,
    ones: FloatArray,
) -> None:
    """Fill `log_z` and `ones` for blocks of components; nan where digits were lost."""
    n_vars, n_columns = log_weight.shape
    value, scale, exponent = working_memory(p)
    flow = np.zeros_like(value)
    apart = np.empty(LANES)  # the larger weight of every pair of literals, taken out
    for block in range(first, last):
        start = block * LANES
        width = min(LANES, n_columns - start)
        apart[:] = 0.0
        for var in range(n_vars):
            for b in range(LANES):
                log_one = log_weight[var, start + b] if b < width else 0.0
                larger = max(log_one, 0.0)
                apart[b] += larger
                value[2 * var, b] = np.exp(-larger)
                value[2 * var + 1, b] = np.exp(log_one - larger)
        lost = pass_up(p, theta, value, scale, exponent)
        pass_down(p, root, theta, value, scale, flow)
        for b in range(width):
            log_z[start + b] = log_of(value[root, b], exponent[-1, b]) + apart[b]
            if lost >> b & 1:
                log_z[start + b] = np.nan
            for var in range(n_vars):
                one = flow[2 * var + 1, b]
                both = one + flow[2 * var, b]
                ones[var, start + b] = one / both if both > 0.0 else 0.0
