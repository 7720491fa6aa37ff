"""Rows with classes -> a mixture that holds classes, chosen by cross-validation.

In:  0/1 rows, NaN where a value is unknown, the class of each, and what their columns hold, under
     each of the encoders to be compared.
Out: the best `Setting` with its smoothing, and every trial; the `ClassModel` fitted to all rows,
     which says how probable each class is together with what is known of a row.

**Classes side by side.** The components of all classes stand in one `BitMixture`, whose weights
hold the share of each class: the probability of a class given a row, complete or not, is the
responsibility of its components. Or the class is a variable of a joint mixture. Parameters are
smoothed in two steps: those of a component towards those of its class, and those of a class towards
those of all rows. So a class with few rows borrows from the others.

**A logistic regression as a distribution.** The regression has a weight for every class and every
value of a column; cells of numbers have a slope and steps, so that neighbours are alike. It says
how probable the classes of a complete row are. Many distributions agree with it on all complete
rows. As in Khosravi et al. 2019, who look for the best naive Bayes model among them, the one taken
here gives the rows the highest likelihood; it is a mixture, whose components keep what columns tell
about each other. Missing inputs are then summed out exactly. With weights ``w``, component k has
``P(x, c | k) ~ exp(bias[c]) * prod_j base[k, x_j] * exp(w[c, x_j])``: all columns are independent
given k and c. EM finds `base`, whose shares make every component expect the values that its rows
have.

**The choice.** All settings are tried on the first fold, and on large tables only the better half
of them on each further one. Smoothing is read off the counts of a fit: all strengths cost one fit.
Where a logistic model is among them, which has little to choose, another is taken only if it is
better by two standard errors: the best of a hundred is better than one by chance alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy  # which loads its parts when they are used

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import with_class
from strudel.data.bits import BitMatrix, merge_equal_rows, pack_columns
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.compile import bits_of_tree, compile_column_tree, independent_bits
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import folded, over_columns
from strudel.learning.bits.likelihood import class_logs, class_logs_of_joint
from strudel.learning.bits.mixture import BitMixture
from strudel.learning.incomplete import expected_flows
from strudel.learning.mixtures.em import MixtureData, cluster_labels, train_runs
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.learning.search.learn_structure import grow
from strudel.queries.sampling import sample
from strudel.tables.column import Column
from strudel.tables.column_codes import ColumnCode, column_values, complete_columns
from strudel.tables.table_code import CodedColumn, TableCode
from strudel.trees.chow_liu import learn_class_tree
from strudel.trees.column_tree import learn_class_column_tree
from strudel.trees.vtree import vtree_from_chow_liu

LEAST_GAIN = 1e-3  # nats per row of a step of EM that is not the last
MOST_STEPS = 30  # of EM: smoothing, chosen afterwards, matters more than the last of the likelihood
ROWS_PER_COMPONENT = 2  # a class with fewer rows has fewer components
POOLED = 1.0  # virtual rows per sum node that draw the parameters of all rows to even shares
COMPLETIONS = 3  # rounds of drawing unknown values from a tree and learning the tree again
STRENGTHS = (5.0, 3.0)  # of the smoothing in these rounds
REFINEMENTS = 10  # steps of EM on rows with unknown values, once all is chosen

JUMPS = 10.0  # how much stronger steps between cells are penalised than slopes and categories
LOGISTIC_STEPS, MORE_STEPS = 25, 3  # of EM: from clusters, and from the end of another penalty
TOLERANCE = 1e-3  # of the regression
MOST_WEIGHTS = 2**24  # rows times weights of a regression; more rows are sampled
HEAVIEST = 1e12  # weight of all rows, beyond which a regression overflows

MANY_CELLS = 50_000  # with more, half of the settings are dropped after every fold
LEAST_KEPT = 3
SCORES = ("log_loss", "brier", "accuracy")
CERTAIN = 2.0  # standard errors by which a setting must be better than a logistic model


class ClassRows(NamedTuple):
    """Rows, the class of each, and how often it counts."""

    X: FloatArray  # (n_rows, n_vars) 0, 1 or NaN
    label: IntArray  # (n_rows,) number of the class
    weight: FloatArray  # (n_rows,) positive
    columns: tuple[ColumnCode, ...] | None = None  # of a table, whose codes are respected
    middles: tuple[FloatArray | None, ...] | None = None  # the mean of every cell, of numbers

    @property
    def n_classes(self) -> int:
        """Number of classes, all of which have rows."""
        return int(self.label.max()) + 1

    @property
    def is_complete(self) -> bool:
        """Whether everything is known."""
        return not np.isnan(self.X).any()

    def take(self, rows: AnyArray) -> ClassRows:
        """Some of the rows."""
        return self._replace(X=self.X[rows], label=self.label[rows], weight=self.weight[rows])

    def members(self) -> list[AnyArray]:
        """Which rows each class has."""
        return [self.label == c for c in range(self.n_classes)]

    def by_class(self) -> list[BitMatrix]:
        """The complete rows of every class, equal ones merged."""
        table = self.X.astype(np.uint8)
        return [_merged(table[own], self.weight[own]) for own in self.members()]


def _merged(table: ByteArray, weight: FloatArray) -> BitMatrix:
    return merge_equal_rows(pack_columns(table, weight))[0]


def fold_of_rows(label: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """The fold in which each row is held out, evenly for every class; -1 for never.

    The only row of a class is always learned from.
    """
    fold = np.full(len(label), -1, dtype=np.int32)
    for c in np.unique(label):
        rows = rng.permutation(np.flatnonzero(label == c))
        if len(rows) > 1:
            fold[rows] = np.arange(len(rows)) % n_folds
    return fold


def complete_rows(
    rows: ClassRows, rng: np.random.Generator, n_rounds: int = COMPLETIONS
) -> ClassRows:
    """Draw what is unknown, given what is known and the class.

    The draws are exact under a tree per class, which is learned from the completed rows in turn.
    Unlike the most probable values, drawn ones leave the dependence of the columns as it is.
    """
    if rows.is_complete:
        return rows
    columns = complete_columns(rows.columns or (), rows.X.shape[1])
    values = column_values(rows.X, columns)
    table = np.empty(rows.X.shape, dtype=np.uint8)
    for column, value in zip(columns, values, strict=True):
        is_value = value[:, np.newaxis] == np.arange(column.n_values)
        count = rows.weight[:, np.newaxis] * is_value
        everywhere = (count.sum(axis=0) + 1.0) / (count.sum() + column.n_values)
        for own in rows.members():
            share = np.cumsum(count[own].sum(axis=0) + everywhere)
            number = rng.random(int(own.sum())) * share[-1]
            drawn = np.searchsorted(share[:-1], number, side="right")
            place = np.where(value[own] == NONE, drawn, value[own])
            table[own, column.start : column.stop] = column.codewords[place]
    for _ in range(n_rounds):
        classes = rows._replace(X=table.astype(np.float64)).by_class()
        circuit = first_structure(classes, rows.columns)
        every = folded(count_classes(circuit, classes, 1, rng=rng).mixture(*STRENGTHS))
        for c, own in enumerate(rows.members()):
            of_class = every.components(np.array([c]))
            table[own] = sample(of_class, given=rows.X[own], random_state=rng)[:, 0]
    return rows._replace(X=table.astype(np.float64))


def first_structure(
    classes: Sequence[BitMatrix],
    columns: tuple[ColumnCode, ...] | None,
    *,
    is_independent: bool = False,
    alpha: float = 0.5,
) -> BitCircuit:
    """The best tree within the classes, or all columns independent, as a circuit."""
    if columns is not None:
        return compile_column_tree(
            *learn_class_column_tree(classes, columns, is_independent=is_independent, alpha=alpha)
        )
    tree = learn_class_tree(classes, alpha=alpha)
    vtree = vtree_from_chow_liu(tree)
    return independent_bits(vtree) if is_independent else bits_of_tree(tree, vtree)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A mixture that holds classes."""

    mixture: BitMixture
    component_class: IntArray | None  # the class of every component, or
    codewords: ByteArray | None  # what the last variables say for every class

    def joint_logs(self, rows: FloatArray) -> FloatArray:
        """Log-probability of the known values of a row together with each class."""
        if self.component_class is not None:
            return class_logs(self.mixture, self.component_class, rows)
        assert self.codewords is not None
        return class_logs_of_joint(self.mixture, self.codewords, rows)

    def over_columns(self, code: TableCode) -> Circuit:
        """The distribution of the columns of a code, of which the last one is the class."""
        columns, own = code.as_columns.shown, self.component_class
        if own is None:
            return over_columns(self.mixture, columns, code)
        inputs = replace(code, columns=code.columns[:-1])
        of_inputs = over_columns(self.mixture, inputs.as_columns.shown, inputs)
        return with_class(of_inputs, columns, own)


def class_codewords(n_classes: int) -> ByteArray:
    """One variable for one or two classes, one per class for more."""
    words = np.eye(n_classes, dtype=np.uint8)
    return words[:, 1:] if n_classes == 2 else words


def code_with_class(code: TableCode, classes: Sequence[Any], name: str = "class") -> TableCode:
    """The code with the class as the last column."""
    words = class_codewords(len(classes))
    column = class_column(classes, name, code.names)
    own: dict[str, Any] = {field.name: getattr(column, field.name) for field in fields(Column)}
    own |= {"start": code.n_vars, "stop": code.n_vars + words.shape[1], "codewords": words}
    names = tuple(f"{column.name}={label}" for label in column.labels[-words.shape[1] :])
    return replace(code, columns=(*code.columns, CodedColumn(**own, variable_names=names)))


def class_column(classes: Sequence[Any], name: str, taken: Sequence[str]) -> Column:
    """The column of the class, whose name no other column has."""
    while name in taken:
        name += "_"
    return Column(name, "category", tuple(map(str, classes)), tuple(classes))


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How much weight every component sends through every edge."""

    circuit: BitCircuit
    edge_count: FloatArray  # (n_edges, n_components)
    total: FloatArray  # (n_components,) weight of all rows of a component
    component_class: IntArray  # (n_components,) the class of each component, from 0 and in order

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.component_class[-1]) + 1

    def mixture(self, class_strength: float, strength: float) -> BitMixture:
        """The mixture of all classes.

        The strengths are virtual rows per sum node that draw a class to all rows, and a component
        to its class.
        """
        width = np.diff(self.circuit.node_edges)[self.circuit.edge_parent]
        of_class = np.arange(self.n_classes)[:, np.newaxis] == self.component_class
        class_count = self.edge_count @ of_class.T
        count = class_count.sum(axis=1, keepdims=True)
        everywhere = self._shares(count, 1.0 / width[:, np.newaxis], POOLED)
        by_class = self._shares(class_count, everywhere, class_strength)
        theta = self._shares(self.edge_count, by_class[:, self.component_class], strength)
        class_total = of_class @ self.total
        prior = class_total / class_total.sum()
        # One virtual row per class keeps every weight above zero.
        size = of_class.sum(axis=1)[self.component_class]
        weight = (self.total + 1.0 / size) / (class_total[self.component_class] + 1.0)
        with np.errstate(divide="ignore"):
            return BitMixture(
                self.circuit, np.log(theta), np.log(weight * prior[self.component_class])
            )

    def _shares(self, count: FloatArray, mean: FloatArray, strength: float) -> FloatArray:
        """The share of every edge in its sum, with virtual rows that are divided as in `mean`."""
        node_edges = self.circuit.node_edges
        first = node_edges[:-1][np.diff(node_edges) > 0]
        total = np.add.reduceat(count, first, axis=0)
        below = np.repeat(total, np.diff(first, append=len(count)), axis=0) + strength
        share = np.broadcast_to(mean, count.shape).copy()
        np.divide(count + strength * mean, below, out=share, where=below > 0.0)
        return share


def count_classes(
    circuit: BitCircuit,
    classes: Sequence[BitMatrix],
    n_components: int,
    *,
    rng: np.random.Generator | int | None = None,
) -> ClassCounts:
    """Fit a mixture to the fully observed rows of every class by EM.

    Every class has `n_components`, fewer where it has few rows. The parameters of the circuit,
    which is deterministic, do not matter.
    """
    rng = np.random.default_rng(rng)
    counts, totals, component_class = [], [], []
    for c, rows in enumerate(classes):
        size = max(1, min(n_components, rows.n_rows // ROWS_PER_COMPONENT))
        options = MixtureOptions(
            n_components=size,
            init_params="kmeans" if size > 1 else "random",  # which is the same, and quick
            smoothing="single",
            pseudocount=2.0,
            max_iter=MOST_STEPS,
            tol=LEAST_GAIN,
        )
        runs = train_runs(MixtureData.of(circuit, rows, None, options), options, rng)
        count, total = runs.counts.arrays()
        counts.append(np.zeros((circuit.n_edges, len(total))))  # also of edges that no row takes
        counts[-1][runs.choices.edge] = count[: len(runs.choices.edge)]
        totals.append(runs.counts.total)
        component_class.append(np.full(len(total), c, dtype=np.int32))
    return ClassCounts(circuit, *map(np.hstack, (counts, totals, component_class)))


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Counts, from which the model is read off for any smoothing."""

    counts: ClassCounts
    codewords: ByteArray | None  # of a joint model

    def model(self, class_pseudocount: float, pseudocount: float) -> ClassModel:
        """The model with this smoothing."""
        mixture = self.counts.mixture(class_pseudocount, pseudocount)
        own = self.counts.component_class if self.codewords is None else None
        return ClassModel(mixture, own, self.codewords)

    scorer = model  # what predicts held-out rows

    def refined(self, rows: ClassRows, class_pseudocount: float, pseudocount: float) -> ClassFit:
        """EM on the rows as they are, with unknown values, instead of the completed ones."""
        if rows.is_complete:
            return self
        groups = [(rows.X[own], rows.weight[own]) for own in rows.members()]
        if self.codewords is not None:
            table = np.hstack([rows.X, self.codewords[rows.label].astype(np.float64)])
            groups = [(table, rows.weight)]
        counts = self.counts
        for _ in range(REFINEMENTS):
            mixture = counts.mixture(class_pseudocount, pseudocount)
            edge_count, total = counts.edge_count.copy(), counts.total.copy()
            for c, (table, weight) in enumerate(groups):
                own = counts.component_class == c
                log_weight = mixture.log_weight[own] - scipy.special.logsumexp(
                    mixture.log_weight[own]
                )
                part = BitMixture(mixture.structure, mixture.edge_log_theta[:, own], log_weight)
                flows = expected_flows(part, table, sample_weight=weight)
                edge_count[:, own], total[own] = flows.edge_count, flows.component_weight
            counts = replace(counts, edge_count=edge_count, total=total)
        return replace(self, counts=counts)


class Regression(NamedTuple):
    """Log-odds of the classes, up to what is the same for all of them."""

    weight: FloatArray  # (n_classes, n_values) of every value of every column
    bias: FloatArray  # (n_classes,)


class Tables(NamedTuple):
    """A mixture of independent columns, all of whose values stand side by side."""

    log_theta: FloatArray  # (n_classes, n_components, n_values) of a column, given both
    log_weight: FloatArray  # (n_classes, n_components)

    def class_logs(self, held: scipy.sparse.csr_array) -> FloatArray:
        """Log-probability of the known values of a row together with each class."""
        n_classes, n_components, n_values = self.log_theta.shape
        logs = held @ self.log_theta.reshape(-1, n_values).T
        logs = logs.reshape(-1, n_classes, n_components) + self.log_weight
        return np.asarray(scipy.special.logsumexp(logs, axis=2))


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Rows, complete for the regression and as they are for the mixture."""

    circuit: BitCircuit  # over the columns, all independent
    rows: ClassRows  # complete
    known: ClassRows  # as they are
    n_components: int
    seed: int
    _shares: list[FloatArray] = field(default_factory=list)  # of the last mixture's components

    @property
    def columns(self) -> tuple[ColumnCode, ...]:
        """All columns that have variables."""
        return complete_columns(self.rows.columns or (), self.rows.X.shape[1])

    def refined(self, rows: ClassRows, penalty: float, strength: float) -> LogisticFit:
        """EM on the rows as they are, with unknown values."""
        return replace(self, known=rows, _shares=[])

    def scorer(self, penalty: float, strength: float) -> LogisticScorer:
        """What predicts held-out rows, quickly if they are complete."""
        return LogisticScorer(self, self._regression(penalty), strength)

    def model(self, penalty: float, strength: float) -> ClassModel:
        """The mixture with this penalty; `strength` draws a component to all rows."""
        tables = self.tables(self._regression(penalty), strength)
        n_classes, n_components = tables.log_weight.shape
        own = np.arange(n_classes, dtype=np.int32).repeat(n_components)
        return ClassModel(self._mixture(tables), own, None)

    def _regression(self, penalty: float) -> Regression:
        """The penalised regression on the complete rows."""
        rows = self.rows
        if rows.n_classes == 1:
            n_values = sum(column.n_values for column in self.columns)
            return Regression(np.zeros((1, n_values)), np.zeros(1))
        held = values_held(rows.X, self.columns)
        table, strengths = _features(self.columns, rows.middles, held.T @ rows.weight)
        n_most = MOST_WEIGHTS // max(1, table.shape[1])
        if held.shape[0] > n_most:
            some = np.random.default_rng(self.seed).permutation(held.shape[0])[:n_most]
            # Every class has a row among them.
            first = np.unique(rows.label, return_index=True)[1]
            some = np.union1d(some, first)
            held, rows = held[some], rows.take(some)
        scaled = table / np.sqrt(penalty * strengths)
        weight = rows.weight * min(1.0, HEAVIEST / float(rows.weight.sum()))
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=1.0, max_iter=500, tol=TOLERANCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is good enough even so
            model.fit(held @ scaled, rows.label, sample_weight=weight)
        found, bias = model.coef_, model.intercept_
        if rows.n_classes == 2:  # log-odds that add up to zero
            found, bias = np.vstack([-found, found]) / 2.0, np.append(-bias, bias) / 2.0
        return Regression((scaled @ found.T).T, bias.astype(np.float64))

    def tables(self, regression: Regression, strength: float) -> Tables:
        """EM: of all mixtures that agree with the regression, one of high likelihood."""
        columns, rows = self.columns, self.known
        held = values_held(rows.X, columns)
        n_components = max(1, min(self.n_components, held.shape[0] // 2))
        shares, n_steps = self._first_shares(held, n_components)
        parts = _slices(columns)
        count = held.T @ rows.weight + 1.0
        even = np.concatenate([count[part] / count[part].sum() for part in parts])
        base = [np.tile(even[part], (n_components, 1)) for part in parts]
        found = [_tilted(base[j], regression, part) for j, part in enumerate(parts)]
        last = -np.inf
        for step in range(n_steps):
            weighted = shares * rows.weight[:, np.newaxis]
            total = weighted.sum(axis=0)
            log_share = np.log((total + 1.0) / (total.sum() + n_components))
            counts = (held.T @ weighted).T + strength * even
            for _ in range(MORE_STEPS if step == 0 else 1):
                for j, part in enumerate(parts):
                    wanted = counts[:, part] / counts[:, part].sum(axis=1, keepdims=True)
                    chance = scipy.special.softmax(
                        regression.bias[:, np.newaxis] + _sum(found), axis=0
                    )
                    model = np.einsum("ck,ckv->kv", chance, np.exp(found[j][0]))
                    base[j] *= wanted / model
                    base[j] /= base[j].sum(axis=1, keepdims=True)
                    found[j] = _tilted(base[j], regression, part)
            log_weight = scipy.special.log_softmax(
                regression.bias[:, np.newaxis] + _sum(found), axis=0
            )
            tables = Tables(
                np.concatenate([log_theta for log_theta, _ in found], axis=2),
                log_weight + log_share,
            )
            logs = np.empty((held.shape[0], n_components))
            for c, own in enumerate(rows.members()):
                logs[own] = held[own] @ tables.log_theta[c].T + tables.log_weight[c]
            of_rows = scipy.special.logsumexp(logs, axis=1)
            shares = np.exp(logs - of_rows[:, np.newaxis])
            mean = float(rows.weight @ of_rows / rows.weight.sum())
            if mean - last < LEAST_GAIN:
                break
            last = mean
        self._shares[:] = [shares]
        return tables

    def _first_shares(
        self, held: scipy.sparse.csr_array, n_components: int
    ) -> tuple[FloatArray, int]:
        """Where EM begins, and how many steps it may take."""
        if self._shares:
            return self._shares[0], MORE_STEPS
        if n_components == 1:
            return np.ones((held.shape[0], 1)), 1
        rng = np.random.default_rng(self.seed)
        table = held.toarray().astype(np.uint8)
        label = cluster_labels(table, self.known.weight, n_components, "k-means++", rng)
        own = label[:, np.newaxis] == np.arange(n_components)
        return 0.9 * own + 0.1 / n_components, LOGISTIC_STEPS

    def _mixture(self, tables: Tables) -> BitMixture:
        """The tables as parameters of the circuit.

        The share of an edge among those of its sum is that of the values that take it.
        """
        columns, parts = self.columns, _slices(self.columns)
        theta = np.exp(tables.log_theta).reshape(-1, tables.log_theta.shape[2])
        rows = np.hstack([column.codewords[[0]] for column in columns])
        first = rows.repeat(len(theta[0]), axis=0)
        for column, part in zip(columns, parts, strict=True):
            first[part, column.start : column.stop] = column.codewords
        active = compute_flows(self.circuit, first).active_edge.T  # (n_values, n_vtree_nodes)
        is_used = np.zeros((len(active), self.circuit.n_edges), dtype=bool)
        place, node = np.nonzero(active != NONE)
        is_used[place, active[place, node]] = True
        count = np.ones((self.circuit.n_edges, len(theta)))
        for part in parts:
            own = is_used[part]
            is_own = own.any(axis=0) & ~own.all(axis=0)  # others do not depend on the column
            count[is_own] = own[:, is_own].T.astype(np.float64) @ theta[:, part].T
        total = np.zeros((self.circuit.n_nodes, len(theta)))
        np.add.at(total, self.circuit.edge_parent, count)
        log_weight = tables.log_weight.ravel()
        return BitMixture(
            self.circuit,
            np.log(count) - np.log(total[self.circuit.edge_parent]),
            log_weight - scipy.special.logsumexp(log_weight),
        )


@dataclass(eq=False)
class LogisticScorer:
    """Predicts by the regression where a row is complete, and else by the mixture."""

    fit: LogisticFit
    regression: Regression
    strength: float

    def joint_logs(self, rows: FloatArray) -> FloatArray:
        """Log-odds of the classes, up to what is the same for all of them."""
        held = values_held(rows, self.fit.columns)
        logs = np.asarray(held @ self.regression.weight.T) + self.regression.bias
        has_gaps = np.flatnonzero(np.isnan(rows).any(axis=1))
        if len(has_gaps):
            tables = self.fit.tables(self.regression, self.strength)
            logs[has_gaps] = tables.class_logs(held[has_gaps])
        return logs


def values_held(rows: FloatArray, columns: Sequence[ColumnCode]) -> scipy.sparse.csr_array:
    """Which of the values of all columns, side by side, every row has; `(n_rows, n_values)`."""
    values = column_values(rows, columns).T  # (n_rows, n_columns)
    first = np.array([part.start for part in _slices(columns)], dtype=np.int64)
    is_known = values != NONE
    ends = np.append(0, is_known.sum(axis=1).cumsum())
    n_values = sum(column.n_values for column in columns)
    place = (values + first)[is_known]
    return scipy.sparse.csr_array((np.ones(len(place)), place, ends), shape=(len(values), n_values))


def _slices(columns: Sequence[ColumnCode]) -> list[slice]:
    """The values of every column among all of them."""
    ends = np.cumsum([0] + [column.n_values for column in columns]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _features(
    columns: Sequence[ColumnCode], middles: Sequence[FloatArray | None] | None, count: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What the regression sees of every value `(n_values, n_features)`, and how it is penalised.

    A category is a feature. A cell of numbers has its mean, in standard deviations, and all steps
    up to it.
    """
    blocks, strengths = [], []
    for j, part in enumerate(_slices(columns)):
        size = part.stop - part.start
        middle = None if middles is None else middles[j]
        if middle is None:
            blocks.append(np.eye(size))
            strengths.append(np.ones(size))
            continue
        share = (count[part] + 1e-9) / (count[part] + 1e-9).sum()
        slope = middle - share @ middle
        spread = np.sqrt(share @ slope**2)
        steps = np.tril(np.ones((size, size)))[:, 1:]
        blocks.append(
            np.column_stack([slope / (spread if spread > 0.0 else 1.0), steps - share @ steps])
        )
        strengths.append(np.append(1.0, np.full(size - 1, JUMPS)))
    table = np.zeros((len(count), sum(block.shape[1] for block in blocks)))
    at = 0
    for part, block in zip(_slices(columns), blocks, strict=True):
        table[part, at : at + block.shape[1]] = block
        at += block.shape[1]
    return table, np.concatenate(strengths)


def _tilted(base: FloatArray, regression: Regression, part: slice) -> tuple[FloatArray, FloatArray]:
    """Log-shares of a column's values, given class and component, and the log of their sum."""
    logs = np.log(base) + regression.weight[:, np.newaxis, part]
    total = scipy.special.logsumexp(logs, axis=2)
    return logs - total[:, :, np.newaxis], total


def _sum(found: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    total: FloatArray = np.sum([part for _, part in found], axis=0)
    return total


class Setting(NamedTuple):
    """What is chosen, except the smoothing."""

    encoder: int  # which of the encoders
    method: str  # "per_class", "joint" or "logistic"
    init: str  # "tree" or "independent"
    n_splits: int
    n_components: int  # of every class; of a joint model on average; shared in a logistic one


class ClassTrial(NamedTuple):
    """How a setting did with its best smoothing on rows it had not seen."""

    setting: Setting
    class_pseudocount: float
    pseudocount: float
    log_loss: float
    brier: float  # mean squared difference of the class probabilities from 0 and 1, over classes
    accuracy: float
    n_folds: int  # on which it was tried

    def describe(self) -> dict[str, Any]:
        """The same as plain values by name."""
        facts = self._asdict()
        return {**facts.pop("setting")._asdict(), **facts}


class Structures:
    """The structures on some complete rows, each made once."""

    def __init__(self, rows: ClassRows) -> None:
        self.rows = rows
        self.codewords = class_codewords(rows.n_classes)
        self._classes = rows.by_class()
        self._made: dict[tuple[str, str, int], BitCircuit] = {}

    def fit(self, setting: Setting, rng: np.random.Generator) -> ClassFit | LogisticFit:
        """Fit a setting to the rows."""
        if setting.method == "logistic":
            circuit = self._circuit("per_class", "independent", 0)
            seed = int(rng.integers(2**31))
            return LogisticFit(circuit, self.rows, self.rows, setting.n_components, seed)
        key = setting.method, setting.init, setting.n_splits
        circuit = self._circuit(*key)
        if setting.method == "per_class":
            counts = count_classes(circuit, self._classes, setting.n_components, rng=rng)
            return ClassFit(counts, None)
        n_components = setting.n_components * self.rows.n_classes
        counts = count_classes(circuit, [self._joint_rows()], n_components, rng=rng)
        return ClassFit(counts, self.codewords)

    def _circuit(self, method: str, init: str, n_splits: int) -> BitCircuit:
        key = (method, init, n_splits)
        if key not in self._made:
            make = self._grown if n_splits else self._first
            self._made[key] = make(*key)
        return self._made[key]

    def _first(self, method: str, init: str, n_splits: int) -> BitCircuit:
        is_independent = init == "independent"
        columns = self.rows.columns
        if method == "per_class":
            return first_structure(self._classes, columns, is_independent=is_independent)
        rows, n_vars = self._joint_rows(), self.rows.X.shape[1]
        of_class = ColumnCode(n_vars, self.codewords)
        if columns is not None or not of_class.is_bit:
            columns = (*complete_columns(columns or (), n_vars), of_class)
        return first_structure([rows], columns, is_independent=is_independent, alpha=1.0)

    def _grown(self, method: str, init: str, n_splits: int) -> BitCircuit:
        """Splits that the search makes on all rows together."""
        joint = self._joint_rows()
        bits = joint
        if method == "per_class":  # without the variables of the class
            words = joint.words[: -self.codewords.shape[1]]
            bits = merge_equal_rows(BitMatrix(words, joint.n_rows, joint.row_weight))[0]
        search = SearchOptions(max_splits=n_splits, patience=n_splits)
        start = self._circuit(method, init, 0)
        grown = grow(bits, None, search=search, start=start, rng=0)
        return grown.growing.snapshot()

    def _joint_rows(self) -> BitMatrix:
        """All rows, with their class in the last variables."""
        table = np.hstack([self.rows.X.astype(np.uint8), self.codewords[self.rows.label]])
        return _merged(table, self.rows.weight)


@dataclass(frozen=True, eq=False)
class ClassSearch:
    """What is to be compared, and how."""

    settings: Sequence[Setting]
    strengths: Sequence[tuple[float, float]]  # of the smoothing: for classes, for components
    penalties: Sequence[tuple[float, float]]  # the same of logistic models
    scoring: str  # "brier", "log_loss" or "accuracy"
    seed: int

    def run(
        self,
        encoded: Callable[[int, AnyArray], ClassRows],
        fold: IntArray,
        on_trial: Callable[[str], None],
        clock: Clock = NO_LIMIT,
    ) -> tuple[ClassTrial, list[ClassTrial]]:
        """The best trial, and all that there was time for.

        `encoded(e, train)` gives all rows as encoder e codes them, when it is fitted on the rows
        `train`.
        """
        sums = {
            setting: np.zeros((len(self._strengths_of(setting)), 5)) for setting in self.settings
        }
        alive, trials = list(self.settings), []
        n_folds = int(fold.max()) + 1
        for f in range(n_folds):
            held = fold == f
            made: dict[int, tuple[Structures, ClassRows]] = {}
            against: FloatArray | None = None  # losses of the rows under the logistic model
            for setting in alive:
                if f == 0 and made and clock.is_up:  # the others are not compared
                    alive = alive[: alive.index(setting)]
                    break
                if setting.encoder not in made:
                    rows = encoded(setting.encoder, ~held)
                    rng = np.random.default_rng([self.seed, f])
                    train = complete_rows(rows.take(~held), rng, n_rounds=1)
                    made[setting.encoder] = Structures(train), rows.take(held)
                structures, valid = made[setting.encoder]
                fit = structures.fit(setting, np.random.default_rng([self.seed, f]))
                own = [
                    _scores(fit.scorer(*strengths), valid)
                    for strengths in self._strengths_of(setting)
                ]
                for i, scores in enumerate(own):
                    sums[setting][i, :4] += scores @ valid.weight
                    if against is not None:
                        apart = valid.weight * (self._losses(scores) - against)
                        sums[setting][i, 4] += apart @ apart
                if setting.method == "logistic":
                    best_one = np.argmin([valid.weight @ self._losses(scores) for scores in own])
                    against = self._losses(own[best_one])
                on_trial(f"fold {f + 1} of {n_folds}, {_words(self._trial(setting, sums, f + 1))}")
            latest = [self._trial(setting, sums, f + 1) for setting in alive]
            trials += latest
            if clock.is_up:
                break
            if f + 1 < n_folds and (against is not None or valid.X.size * n_folds > MANY_CELLS):
                alive = self._kept(latest, sums)
        # A logistic model is the first, so that it wins a tie.
        return min(latest, key=lambda trial: self._with_error(trial, sums, CERTAIN)), trials

    def _kept(self, latest: Sequence[ClassTrial], sums: dict[Setting, FloatArray]) -> list[Setting]:
        """The better half; and if there is a logistic model, it and what may be better."""
        order = np.argsort([self._loss(trial) for trial in latest], kind="stable")
        better = set(order[: max(LEAST_KEPT, -(-len(latest) // 2))].tolist())
        if latest[0].setting.method == "logistic":
            bound = self._loss(latest[0])
            better = {i for i in better if self._with_error(latest[i], sums, -1.0) < bound} | {0}
        return [trial.setting for i, trial in enumerate(latest) if i in better]

    def _with_error(
        self, trial: ClassTrial, sums: dict[Setting, FloatArray], n_errors: float
    ) -> float:
        """The loss, with standard errors of its difference from that of the logistic model."""
        strengths = self._strengths_of(trial.setting)
        place = strengths.index((trial.class_pseudocount, trial.pseudocount))
        _, _, _, weight, apart = sums[trial.setting][place]
        return self._loss(trial) + n_errors * float(np.sqrt(apart)) / float(weight)

    def _strengths_of(self, setting: Setting) -> list[tuple[float, float]]:
        """All that make a difference: a class of one component needs no smoothing towards itself.

        A joint mixture is one class.
        """
        if setting.method == "logistic":
            return list(self.penalties)
        classes, components = (
            list(dict.fromkeys(one)) for one in zip(*self.strengths, strict=True)
        )
        if setting.method == "joint":
            classes = classes[:1]
        elif setting.n_components == 1:
            components = components[:1]
        return [(a, b) for a in classes for b in components]

    def _trial(self, setting: Setting, sums: dict[Setting, FloatArray], n_folds: int) -> ClassTrial:
        """What a setting reached with the best smoothing so far."""
        means = sums[setting][:, :3] / sums[setting][:, 3:4]
        found = [
            ClassTrial(setting, a, b, log_loss, brier, accuracy, n_folds)
            for (a, b), (log_loss, brier, accuracy) in zip(
                self._strengths_of(setting), means.tolist(), strict=True
            )
        ]
        return min(found, key=self._loss)

    def _loss(self, trial: ClassTrial) -> float:
        score = float(getattr(trial, self.scoring))
        return -score if self.scoring == "accuracy" else score

    def _losses(self, scores: FloatArray) -> FloatArray:
        """What every row loses."""
        of_rows = scores[SCORES.index(self.scoring)]
        return -of_rows if self.scoring == "accuracy" else of_rows


def _scores(model: ClassModel | LogisticScorer, valid: ClassRows) -> FloatArray:
    """Of every row its log-loss, its Brier score, whether the answer is right, and 1."""
    log_p = scipy.special.log_softmax(model.joint_logs(valid.X), axis=1)
    wanted = valid.label[:, np.newaxis] == np.arange(log_p.shape[1])
    return np.stack(
        [
            -log_p[wanted],
            np.square(np.exp(log_p) - wanted).sum(axis=1),
            log_p.argmax(axis=1) == valid.label,
            np.ones(len(log_p)),
        ]
    )


def _words(trial: ClassTrial) -> str:
    _, method, init, n_splits, n_components = trial.setting
    return (
        f"{method}, {init}, {n_splits} splits, {n_components} components: "
        f"log-loss {trial.log_loss:.4f}, accuracy {trial.accuracy:.4f}"
    )
