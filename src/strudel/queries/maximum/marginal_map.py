"""Marginal MAP: the most probable state of some variables, the others summed out.

In:  a `Circuit` or `Mixture`, the variables in question, and what is given.
Out: `MarginalMap`, a state, its probability, and a proven bound on that of every other state.

A `Relaxation` bounds all states at once. Where the variables in question decide every choice above
the others, its bound is the answer. Otherwise the search branches, always from the assignment with
the largest bound, and on the variable that lowers it most: a few are tried, both values of each,
side by side. A mixture is searched as one circuit whose root chooses the component, or by its own
search if nothing is summed out. Of columns, only states that are values count: where a model that
was learned without respect for its code finds another one, the table of all values is looked at.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np

from strudel._compiling import now
from strudel._names import names_of, places_of
from strudel._types import AnyArray, FloatArray
from strudel.algebra.evidence import Absorbed, takes_evidence
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import (
    SMALLEST_LOG_THETA,
    UNKNOWN,
    decode,
    encode,
)
from strudel.circuits.properties import check_properties
from strudel.circuits.walks import raise_if_impossible
from strudel.data.argument_checks import check_count
from strudel.queries.arguments import check_limits, given_rows, variable_indices
from strudel.queries.columns.joint_table import FEW_STATES, find_columns, log_joint_table
from strudel.queries.maximum.mixture_search import ROUNDING, MixtureSearch
from strudel.queries.maximum.relaxation import relax
from strudel.queries.maximum.relaxation_pass import RelaxationPass
from strudel.queries.model import Model, model_of, structure_of
from strudel.queries.probabilities import log_probabilities
from strudel.queries.soft_evidence import with_commonest
from strudel.tables.coded_column import CodedColumn
from strudel.tables.table_code import code_of_bits

MAX_STATES = 2**20  # of which the k best are found
N_TAKEN = 4  # assignments looked at together
N_TRIED = 4  # variables tried for each: eight rows, one block of a pass
MOST_GAIN = 50.0  # nats; an impossible value counts as much
MEMORY = 0.7  # of what a variable gained before, when it is tried again


class MarginalMap(NamedTuple):
    """The best state found, and how much better another one could be."""

    state: dict[Any, int]  # the query variables as they were named, and their values
    log_probability: float  # log p(state, given)
    upper_bound: float  # no state has a larger log-probability
    is_optimal: bool  # whether the two are equal
    n_nodes: int  # partial assignments the search had to look at; 0 if the first bound was reached


def _joint(answer: Any, facts: Absorbed) -> Any:
    """The state with its log-probability together with what else is given."""
    if isinstance(answer, list):
        return [_joint(one, facts) for one in answer]
    return _with_log(answer, facts.log_probability)


def _with_log(answer: MarginalMap, log_p: float) -> MarginalMap:
    logs = answer.log_probability + log_p, answer.upper_bound + log_p
    return answer._replace(log_probability=logs[0], upper_bound=logs[1])


@takes_evidence("given", with_facts=_joint)
def marginal_map(
    model: Model,
    query: Any,
    given: Any = None,
    k: int = 1,
    *,
    max_seconds: float | None = None,
    max_nodes: int | None = None,
    max_states: int = MAX_STATES,
) -> MarginalMap | list[MarginalMap]:
    """The most probable state of some variables, or the k most probable, with the rest summed out.

    Exact, by one pass if the vtree puts the query variables on top, otherwise by branch and bound.
    For all variables it is the most probable state.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        In normal form, and so smooth and structured-decomposable; deterministic or not.
    query : name or number of a variable, or several; or columns of a table
        Those that are also given keep their value.
    given : evidence in any form, as in `probability`, of one row, optional
        Nothing is known by default.
    k : int
        How many states, such as the five most probable profiles over some columns.
    max_seconds, max_nodes : optional
        Stop the search after this many seconds or partial assignments. The result is then the best
        state so far, with a bound on all others.
    max_states : int
        With k above 1, all states of the columns are looked at; this is the limit. So they are
        if the model was learned with ``TableEncoder(respect_one_hot=False)`` and the best state
        of the 0/1 variables is no value of a column.

    Returns
    -------
    MarginalMap, or a list of them with k above 1
        `state`, `log_probability` of the state and what is given, `upper_bound`, `is_optimal` and
        `n_nodes`. If several states are best, any one of them.

    Raises
    ------
    ValueError
        If `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> best = marginal_map(figure_1_circuit(), ["X1", "X2"], given={"X4": 1})
    >>> best.state, round(best.log_probability, 4), best.is_optimal
    ({'X1': 1, 'X2': 1}, -1.9576, True)
    >>> [best.state for best in marginal_map(figure_1_circuit(), ["X1", "X2"], k=2)]
    [{'X1': 0, 'X2': 1}, {'X1': 1, 'X2': 1}]
    """
    model = model_of(model)
    check_count("k", k)
    if k > 1:
        asked = [query] if isinstance(query, str | int | np.integer) else list(query)
        columns = find_columns(model, asked, "query")
        return _best_profiles(model, asked, columns, given, int(k), max_states)
    structure = structure_of(model)
    check_properties(structure, "marginal_map", "in_normal_form")
    if model.edge_log_theta.max(initial=0.0) > -SMALLEST_LOG_THETA:
        raise ValueError("marginal_map needs parameters below 1e60. Normalise the circuit first.")
    limits = check_limits(max_seconds, max_nodes)
    names = [query] if isinstance(query, str | int | np.integer) else list(query)
    variables = variable_indices(model, names, "query")
    rows, _ = given_rows(model, given)
    if len(rows) != 1:
        raise ValueError(f"given must be one row, but has {len(rows)}. Ask for one row at a time.")
    raise_if_impossible(log_probabilities(model, rows, "marginal_map"))
    columns = _columns(model, names)
    n_states = math.prod(column.n_values for column in columns)
    if isinstance(model, Mixture) and columns and n_states <= min(FEW_STATES, max_states):
        found = _best_profiles(model, names, columns, rows, 1, max_states)
        if found:  # none if what is given is no value
            return found[0]
    codes = encode(rows)[0]
    columns = _columns(model, names)
    own_model = model
    model, log_total = with_commonest(model, columns)
    n_hidden = int((codes == UNKNOWN).sum()) - int((codes[variables] == UNKNOWN).sum())
    search: _Search | MixtureSearch
    if isinstance(model, Mixture) and n_hidden == 0:
        search = MixtureSearch(model, codes, 1)
        search.run(*limits)
        best_state = search.states()[0][0]
    else:
        circuit = model.to_circuit() if isinstance(model, Mixture) else model
        search = _Search(circuit, codes, variables)
        search.run(*limits)
        best_state = search.best_state
    if not all(_is_value(column, best_state, codes) for column in columns):
        found = _best_profiles(own_model, names, columns, rows, 1, max_states)
        if found:  # none if what is given is no value
            return found[0]._replace(n_nodes=search.n_nodes)
    return _with_log(_report(model, names, variables, best_state, search), log_total)


def _columns(model: Model, names: list[Any]) -> list[CodedColumn]:
    """What was asked for as columns; a 0/1 variable is one of its own. None without a table."""
    code = model.table_code
    if code is None:
        return []
    bits = code_of_bits(list(code.variable_names), "pandas").columns
    places = places_of(names_of(model.n_vars, model.feature_names))
    return [
        code.column(name)
        if name in code.names and name not in places
        else bits[places.get(name, name)]
        for name in names
    ]


def _is_value(column: CodedColumn, state: AnyArray, codes: AnyArray) -> bool:
    """Whether a state is a value of a column, or what is given of the column is none."""
    own = slice(column.start, column.stop)
    agrees = (codes[own] == column.codewords) | (codes[own] == UNKNOWN)
    same = state[own] == column.codewords
    return bool(same.all(axis=1).any() or not agrees.all(axis=1).any())


def _best_profiles(
    model: Model, asked: list[Any], columns: list[CodedColumn], given: Any, k: int, max_states: int
) -> list[MarginalMap]:
    """The k most probable combinations of values, from the table of all of them."""
    joint, _ = log_joint_table(model, columns, given, "marginal_map", max_states)
    order = np.argsort(-joint.ravel(), kind="stable")[:k]
    found = []
    for flat in order[joint.ravel()[order] > -np.inf].tolist():
        places = np.unravel_index(flat, joint.shape)
        state = {
            name: column.values[place]
            for name, column, place in zip(asked, columns, places, strict=True)
        }
        log_p = float(joint.ravel()[flat])
        found.append(MarginalMap(state, log_p, log_p, True, 0))
    return found


def _report(
    model: Model,
    names: list[Any],
    variables: AnyArray,
    best_state: AnyArray,
    search: _Search | MixtureSearch,
) -> MarginalMap:
    """What the user gets for the best state of a search."""
    state = _state(model, names, variables, best_state)
    log_p = float(log_probabilities(model, decode(best_state[np.newaxis]), "marginal_map")[0])
    is_optimal = search.upper_bound <= search.enough
    upper_bound = log_p if is_optimal else search.upper_bound
    return MarginalMap(state, log_p, upper_bound, is_optimal, search.n_nodes)


def _state(
    model: Model, names: list[Any], variables: AnyArray, best_state: AnyArray
) -> dict[Any, Any]:
    """The values by name; of a column, its value or the median of its cell."""
    code = model.table_code
    if code is None:
        return dict(zip(names, best_state[variables].tolist(), strict=True))
    state: dict[Any, Any] = {}
    value_of = dict(zip(variables.tolist(), best_state[variables].tolist(), strict=True))
    places = places_of(names_of(model.n_vars, model.feature_names))
    for name in names:
        if name in code.names and name not in places:
            column = code.column(name)
            bits = np.array([[value_of[var] for var in column.variables]], dtype=np.float64)
            state[name] = column.decoded_bits(bits)[0]
        else:
            state[name] = value_of[places.get(name, name)]
    return state


class _Search:
    """Best-first branch and bound over the open variables: the query without what is given."""

    def __init__(self, circuit: Circuit, codes: AnyArray, variables: AnyArray) -> None:
        self.circuit = circuit
        self.codes = codes
        self.open_vars = variables[codes[variables] == UNKNOWN]
        self.best = -math.inf  # log-probability
        self.best_state = codes
        self.upper_bound = math.inf
        self.n_nodes = 0
        self._started = now()
        self._pass = RelaxationPass(relax(circuit, codes, self.open_vars))
        self._heap: list[tuple[float, int, AnyArray]] = []  # minus bound, number, codes
        self._n_pushed = 0
        self._var_gain = np.full(circuit.n_vars, np.inf)  # nats a variable took off bounds lately
        self._seen: set[bytes] = set()  # states that were scored

    @property
    def enough(self) -> float:
        """No assignment with a bound up to this can be better than the best state."""
        return self.best + ROUNDING

    def run(self, max_seconds: float, max_nodes: float) -> None:
        """Search until the bound is reached, or a limit."""
        self.upper_bound = float(self._try(self.codes[np.newaxis])[0])
        if self.upper_bound > self.enough:
            self._improve()
            self._push(self.codes, self.upper_bound)
        while self._heap and -self._heap[0][0] > self.enough:
            self.upper_bound = -self._heap[0][0]
            is_late = now() - self._started >= max_seconds
            if is_late or self.n_nodes >= max_nodes:
                return
            before = self.best
            self._branch(min(N_TAKEN, max_nodes - self.n_nodes))
            if self.best > before:
                self._improve()
        self.upper_bound = self.best

    def _try(self, rows: AnyArray) -> FloatArray:
        """Log upper bounds of partial assignments; scores the states they lead to."""
        log_bound, states, _ = self._pass.bounds(rows)
        self._score(states)
        return log_bound

    def _score(self, states: AnyArray) -> None:
        """Remember the best state, if there is a better one among these."""
        keys = [state[self.open_vars].tobytes() for state in states]
        new = {key: row for row, key in enumerate(keys) if key not in self._seen}
        if not new:
            return
        self._seen.update(new)
        states = states[list(new.values())]
        log_p, _, is_rough = self._pass.bounds(states)
        if is_rough.any():
            exact = log_probabilities(self.circuit, decode(states[is_rough]), "marginal_map")
            log_p[is_rough] = exact
        row = int(np.argmax(log_p))
        if log_p[row] > self.best:
            self.best, self.best_state = float(log_p[row]), states[row]

    def _improve(self) -> None:
        """Change single values of the best state for as long as that helps."""
        before = -math.inf
        while self.best > before:
            before = self.best
            changed = np.repeat(self.best_state[np.newaxis], len(self.open_vars), axis=0)
            changed[np.arange(len(changed)), self.open_vars] ^= 1
            self._score(changed)

    def _push(self, codes: AnyArray, bound: float) -> None:
        """Keep an assignment for later; a complete one is done with."""
        if np.any(codes[self.open_vars] == UNKNOWN):
            heapq.heappush(self._heap, (-bound, self._n_pushed, codes))
            self._n_pushed += 1  # of equal bounds the first comes first
        else:
            self._score(codes[np.newaxis])

    def _branch(self, n_taken: float) -> None:
        """Take the assignments with the largest bounds and split each on its best variable."""
        taken: list[tuple[float, int, AnyArray]] = []
        while self._heap and len(taken) < n_taken and -self._heap[0][0] > self.enough:
            taken.append(heapq.heappop(self._heap))
        self.n_nodes += len(taken)
        tried = [self._promising(codes) for _, _, codes in taken]
        rows = [_children(codes, v) for (_, _, codes), v in zip(taken, tried, strict=True)]
        bounds = self._try(np.concatenate(rows))
        ends = np.cumsum([len(children) for children in rows])
        for (minus_bound, _, codes), variables, child_bound in zip(
            taken, tried, np.split(bounds, ends[:-1]), strict=True
        ):
            child_bound = np.minimum(child_bound, -minus_bound).reshape(-1, 2)
            self._split(codes, -minus_bound, variables, child_bound)

    def _promising(self, codes: AnyArray) -> AnyArray:
        """The open variables that gained most when they were last tried; at first all of them."""
        rest = self.open_vars[codes[self.open_vars] == UNKNOWN]
        gain = self._var_gain[rest]
        n_tried = len(rest) if np.any(gain == np.inf) else N_TRIED
        return rest[np.argsort(-gain, kind="stable")[:n_tried]]

    def _split(
        self, codes: AnyArray, bound: float, variables: AnyArray, child_bound: FloatArray
    ) -> None:
        """Fix the variables that cannot have one of their values, or branch on the best one."""
        drop = np.minimum(bound - child_bound, MOST_GAIN)
        gain = drop.sum(axis=1) + 3.0 * drop.min(axis=1)  # better to lower both than one
        before = self._var_gain[variables]
        mean = MEMORY * before + (1.0 - MEMORY) * gain
        self._var_gain[variables] = np.where(before == np.inf, gain, mean)
        is_ruled_out = child_bound <= self.enough
        is_fixed = is_ruled_out.any(axis=1)
        if is_ruled_out.all(axis=1).any():
            return
        if is_fixed.any():
            fixed = codes.copy()
            fixed[variables[is_fixed]] = is_ruled_out[is_fixed, 0]
            self._push(fixed, float(child_bound[is_fixed].max(axis=1).min()))
            return
        best = int(np.argmax(gain))
        for value, child in enumerate(_children(codes, variables[best : best + 1])):
            self._push(child, float(child_bound[best, value]))


def _children(codes: AnyArray, variables: AnyArray) -> AnyArray:
    """The codes with each of the variables set to 0, then to 1, in turn."""
    rows = np.repeat(codes[np.newaxis], 2 * len(variables), axis=0)
    rows[np.arange(len(rows)), np.repeat(variables, 2)] = np.arange(len(rows)) % 2
    return rows
