"""Entropy, and mutual information between sets of variables: exact, in nats, or refused.

One pass answers where the circuit's choices show in the variables asked about. Few variables are
answered from the table of their states, and otherwise `SubsetEntropy` looks at as few states as the
hidden choices allow. Which component of a mixture made a row is hidden from every row, so a mixture
is answered from tables alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from strudel._names import names_of, quote
from strudel._types import AnyArray, FloatArray
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import UNKNOWN, decode, distinct_rows, encode
from strudel.circuits.properties import check_properties, why_not_deterministic
from strudel.circuits.walks import raise_if_impossible
from strudel.data.bits import x_log_x_of
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError
from strudel.queries.arguments import given_rows, variable_indices
from strudel.queries.by_block import by_block
from strudel.queries.columns.joint_table import (
    code_of_model,
    find_columns,
    joint_table,
    joint_table_of_row,
)
from strudel.queries.columns.value_probabilities import value_probabilities
from strudel.queries.conditional_parameters import conditional_parameters
from strudel.queries.model import Model, model_of, structure_of
from strudel.queries.node_distributions import BLOCK_BYTES, NodeDistributions, distributions_given
from strudel.queries.probabilities import (
    component_log_probabilities,
    log_mean,
    log_probabilities,
)
from strudel.queries.subset_entropy import SubsetEntropy
from strudel.tables.coded_column import CodedColumn

MAX_STATES = 2**20
FAINT = 1e-290  # of a probability: floats below have fewer digits
SMALL_JOINT = 2**12  # combinations of values of columns that are tabulated in any model
BINARY_JOINT = 2**6  # the same of 0/1 variables
SMALL_TABLE = 16  # variables whose states are tabulated rather than searched for hidden choices
BLOCK_STATES = 2**14  # states evaluated at a time
STATES_PER_STEP = 64  # states that a table evaluates while `SubsetEntropy` looks at one


@by_block("given")
def entropy(model: Model, given: Any = None, *, max_states: int = MAX_STATES) -> float | FloatArray:
    """Entropy of all variables, given what is known.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable. A deterministic circuit takes one pass.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    max_states : int
        For a mixture, or a circuit that is not deterministic, the limit on the states that are
        looked at.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` has an axis of rows
        In nats.

    Raises
    ------
    CircuitPropertyError
        If the model is a mixture or a circuit that is not deterministic, with too many states.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> round(entropy(figure_1_circuit()), 4)
    2.3381
    """
    model = model_of(model)
    everything = np.arange(model.n_vars)
    found = _for_each_row(model, given, "entropy", lambda row: row.entropy(everything, max_states))
    return found + _entropy_within(model, given)


def _entropy_within(model: Model, given: Any) -> float | FloatArray:
    """What rare categories of one cell add to the entropy: each of them is a value of its own."""
    columns = [] if model.table_code is None else model.table_code.columns
    columns = [column for column in columns if column.is_shared]
    if not columns:
        return 0.0
    rows, is_single = given_rows(model, given)
    _, chances = value_probabilities(model, columns, rows, "entropy")
    total = np.zeros(len(rows))
    for column, chance in zip(columns, chances, strict=True):
        is_open = np.isnan(rows[:, column.start : column.stop]).any(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = -np.nan_to_num(chance * np.log(column.value_share), nan=0.0).sum(axis=1)
        total += np.where(is_open, own, 0.0)
    return float(total[0]) if is_single else total


@by_block("given", about=("a", "b", "beyond"))
def mutual_information(
    model: Model,
    a: Any,
    b: Any,
    given: Any = None,
    *,
    beyond: Any = None,
    max_states: int = MAX_STATES,
) -> float | FloatArray:
    """How much two sets of variables tell about each other, given what is known.

    This is ``H(a) + H(b) - H(a, b)``; it is exact, even if other variables are summed out.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    a, b : names or numbers of variables
        Two disjoint sets.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    beyond : name of a column, or a list of names, optional
        What `a` and `b` tell about each other beyond these columns, on average over their values;
        `given` is then at most one row.
    max_states : int
        Limit on the states of the two sets that are looked at. At worst that is all of them, when
        summing out the other variables hides the choices that the circuit makes, and always in a
        mixture.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` has an axis of rows
        In nats, zero or more.

    Raises
    ------
    CircuitPropertyError
        If more states would be needed. There is no approximation.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> round(mutual_information(figure_1_circuit(), "X3", "X4"), 4)
    0.1284
    >>> round(mutual_information(figure_1_circuit(), ["X1", "X2"], "X4", given={"X3": 1}), 4)
    0.0
    >>> round(mutual_information(figure_1_circuit(), "X1", "X4", beyond="X3"), 4)  # all of it
    0.0
    """
    model = model_of(model)
    if beyond is not None:
        return _information_beyond(model, a, b, beyond, given, max_states)
    first, second = variable_indices(model, a, "a"), variable_indices(model, b, "b")
    both = np.intersect1d(first, second)
    if len(both):
        name = names_of(model.n_vars, model.feature_names)[both[0]]
        raise ValueError(f"a and b must have no variable in common, but both have {name!r}.")
    return _for_each_row(
        model,
        given,
        "mutual_information",
        lambda row: row.mutual_information(first, second, max_states),
    )


def _whole_columns(model: Model, variables: AnyArray) -> list[CodedColumn] | None:
    """The columns that these are all the variables of; None if some are only a part of one."""
    asked = set(variables.tolist())
    found = [c for c in code_of_model(model).columns if asked.issuperset(c.variables)]
    return found if sum(len(column.variables) for column in found) == len(asked) else None


def _information_beyond(
    model: Model, a: Any, b: Any, beyond: Any, given: Any, max_states: int
) -> float:
    """The mutual information of some columns given others, from the table of all their values."""
    first, second = find_columns(model, a, "a"), find_columns(model, b, "b")
    others = find_columns(model, beyond, "beyond")
    columns = [*first, *second, *others]
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"a, b and beyond must have no column in common, but {twice!r} is in two of them."
        )
    joint = joint_table(model, columns, given, "mutual_information", max_states)
    sizes = [math.prod(column.n_values for column in part) for part in (first, second)]
    tables = joint.reshape(*sizes, -1).transpose(2, 0, 1)
    chance = tables.sum(axis=(1, 2))
    return float(
        sum(p * _table_information(table / p) for p, table in zip(chance, tables, strict=True) if p)
    )


def _for_each_row(
    model: Model, given: Any, query: str, answer: Callable[[_Given], float]
) -> float | FloatArray:
    """`answer(row)` for every distinct row of evidence: a float for one row, else an array."""
    structure = structure_of(model)
    check_properties(structure, query, "smooth", "decomposable")
    rows, is_single = given_rows(model, given)
    codes, place = distinct_rows(encode(rows))
    by_component = component_log_probabilities(model, codes, query)
    raise_if_impossible(log_mean(model, by_component)[place])
    answers = np.empty(len(codes))
    for index in range(len(codes)):
        answers[index] = answer(_Given(model, codes[index], by_component[index], query))
    return float(answers[0]) if is_single else answers[place]


class _Given:
    """A model and one row of evidence."""

    def __init__(self, model: Model, codes: AnyArray, by_component: FloatArray, query: str) -> None:
        self.model, self.codes, self.query = model, codes, query
        self.log_p = float(log_mean(model, by_component[np.newaxis])[0])
        if isinstance(model, Mixture):
            possible = np.flatnonzero(by_component + model.log_weight > -np.inf)
            if len(possible) == 1:  # nothing is hidden: one circuit is left
                self.model = model.component(int(possible[0]))
                self.log_p = float(by_component[possible[0]])
        self.circuit = structure_of(self.model)

    def mutual_information(self, a: AnyArray, b: AnyArray, max_states: int) -> float:
        first, second = (_whole_columns(self.model, part) for part in (a, b))
        a, b = self._unknown(a), self._unknown(b)
        if len(a) == 0 or len(b) == 0:
            return 0.0
        if first is not None and second is not None:
            # Given their cells, numbers tell nothing about each other: cells are enough.
            sizes = [math.prod([c.n_values for c in part]) for part in (first, second)]
            is_binary = math.prod(sizes) == 2 ** (len(a) + len(b))  # for which there is another way
            limit = max_states if isinstance(self.model, Mixture) else SMALL_JOINT
            limit = BINARY_JOINT if is_binary else limit
            if math.prod(sizes) <= min(limit, max_states):
                row = decode(self.codes[np.newaxis])
                both = [*first, *second]
                joint = joint_table_of_row(self.model, both, row, self.log_p, self.query)
                return _table_information(joint.reshape(sizes))
        if len(a) + len(b) <= SMALL_TABLE and 2 ** (len(a) + len(b)) <= max_states:
            joint = self._table(np.concatenate([a, b])).reshape(2 ** len(a), 2 ** len(b))
            return _table_information(joint)
        parts = [self.entropy(part, max_states) for part in (a, b, np.concatenate([a, b]))]
        return max(0.0, parts[0] + parts[1] - parts[2])  # rounding may leave -1e-16

    def entropy(self, variables: AnyArray, max_states: int) -> float:
        variables = self._unknown(variables)
        if len(variables) == 0:
            return 0.0
        may_tabulate = 2 ** len(variables) <= max_states
        if self.circuit.is_in_normal_form and not isinstance(self.model, Mixture):
            is_kept = np.zeros(self.circuit.n_vars, dtype=np.bool_)
            is_kept[variables] = True
            search = SubsetEntropy(self.circuit, self._theta, is_kept, self.codes != UNKNOWN)
            if search.is_one_pass or len(variables) > SMALL_TABLE or not may_tabulate:
                limit = min(max_states, 2 ** len(variables) if may_tabulate else max_states)
                found = search.of_root(max(1, limit // STATES_PER_STEP))
                if found is not None:
                    return found
        if not may_tabulate:
            self._refuse(variables, max_states)
        return float(-x_log_x_of(self._table(variables)).sum())

    def _unknown(self, variables: AnyArray) -> AnyArray:
        """What is known has no entropy."""
        return variables[self.codes[variables] == UNKNOWN]

    @cached_property
    def _theta(self) -> FloatArray:
        codes = self.codes[np.newaxis]
        return conditional_parameters(self.circuit, codes, self.query)[:, 0].copy()

    def _table(self, variables: AnyArray) -> FloatArray:
        """The probability of every state of some variables, the last one changing fastest.

        The first few are set one state after another if the tables of the nodes need the room.
        """
        circuit, n_set = self.circuit, 0
        if not circuit.is_in_normal_form:
            return self._probabilities(variables)
        while True:
            is_asked = np.zeros(circuit.n_vars, dtype=np.bool_)
            is_asked[variables[n_set:]] = True
            tables = NodeDistributions(circuit, is_asked, of="states")
            if tables.peak <= BLOCK_BYTES or n_set == len(variables):
                break
            n_set += 1
        p_set = self._probabilities(variables[:n_set])
        out = np.empty((len(p_set), 2 ** (len(variables) - n_set)))
        possible = np.flatnonzero(p_set > 0.0)
        out[p_set == 0.0] = 0.0
        for part in slices(len(possible), BLOCK_STATES):
            state = possible[part]
            codes = self._with_states(variables[:n_set], state)
            states = distributions_given(self.model, codes, tables, self.query)
            out[state] = p_set[state, np.newaxis] * states
        # From the order of the vtree's leaves to the order asked for.
        leaves = circuit.vtree.node_span[0][circuit.vtree.var_leaf[variables[n_set:]]]
        axes = np.argsort(np.argsort(leaves)) + 1
        cube = out.reshape(-1, *(2,) * (len(variables) - n_set))
        return cube.transpose(0, *axes).ravel()

    def _probabilities(self, variables: AnyArray) -> FloatArray:
        """The probability of every state of some variables, by evaluating each."""
        p = np.empty(2 ** len(variables))
        for part in slices(len(p), BLOCK_STATES):
            rows = decode(self._with_states(variables, np.arange(part.start, part.stop)))
            p[part] = np.exp(log_probabilities(self.model, rows, self.query) - self.log_p)
        return p

    def _with_states(self, variables: AnyArray, state: AnyArray) -> AnyArray:
        """The evidence with some variables set to states given by number."""
        rows = np.repeat(self.codes[np.newaxis], len(state), axis=0)
        rows[:, variables] = state[:, np.newaxis] >> np.arange(len(variables))[::-1] & 1
        return rows

    def _refuse(self, variables: AnyArray, max_states: int) -> NoReturn:
        """Say why the entropy of these variables is out of reach."""
        circuit = self.circuit
        names = names_of(circuit.n_vars, circuit.feature_names)
        if isinstance(self.model, Mixture):
            raise CircuitPropertyError(
                f"{self.query} of a mixture needs all states of {len(variables)} variables "
                f"({quote([names[var] for var in variables])}), more than max_states = "
                f"{max_states}: the log of a sum over components cannot be split. Ask about fewer "
                "variables or one component, give more evidence, allow more states with "
                "max_states, or average -log_likelihood over samples for an estimate."
            )
        n_summed = int((self.codes == UNKNOWN).sum()) - len(variables)
        reason = None if n_summed else why_not_deterministic(circuit)
        if reason is not None:
            raise CircuitPropertyError(
                f"{self.query} needs a deterministic circuit, but {reason}, and there are more "
                f"than max_states = {max_states} states to look at one by one. "
                "Allow more with max_states, or give more evidence."
            )
        raise CircuitPropertyError(
            f"{self.query} needs the entropy of {len(variables)} variables "
            f"({quote([names[var] for var in variables])}), but summing out the other {n_summed} "
            "hides choices of the circuit, too many to follow one by one within "
            f"max_states = {max_states} states. Ask about fewer variables, allow more with "
            "max_states, or give more evidence."
        )


def _table_information(joint: FloatArray) -> float:
    """Mutual information of the row and the column of a table of probabilities."""
    row, column = joint.sum(axis=1, keepdims=True), joint.sum(axis=0, keepdims=True)
    independent = row * column
    is_there = joint > 0.0
    p, q = joint[is_there], independent[is_there]
    # The log of p / q is exact near zero; where q is nearly the smallest float, it is 0 or rough.
    with np.errstate(divide="ignore", over="ignore"):
        apart = (np.log(row) + np.log(column))[is_there]
        log_ratio = np.where(q > FAINT, np.log(p / q), np.log(p) - apart)
    # p log(p / q) - p + q is never negative, and the sums of p and of q are equal.
    return max(0.0, float((p * log_ratio - p + q).sum() + independent[~is_there].sum()))
