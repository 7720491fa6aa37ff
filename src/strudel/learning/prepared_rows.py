"""The first step of a fit: tables become rows that can be learned from.

In:  `FitInput`: what `fit` was given, and the options that say what to make of it.
Out: `Prepared`: rows to learn from and rows to stop by, and all that learning asks of them.

Everything is checked, encoded, held out and, where values are unknown, completed here. So nothing
is refused once learning has begun, and no caller prepares rows twice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from strudel._compiling import NO_LIMIT, Clock
from strudel._names import names_of
from strudel._numba import use_threads
from strudel._types import NONE, AnyArray, ByteArray, FloatArray
from strudel.algebra.event_circuit import event_circuit
from strudel.circuits.circuit import Circuit
from strudel.circuits.products import product
from strudel.circuits.reweigh import normalized
from strudel.data.bits import UNKNOWN, BitMatrix, decode, encode, pack_columns
from strudel.data.validation import check_partial, check_sample_weight
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import over_columns, unfold
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.bits.mixture import BitMixture, Model
from strudel.learning.mixtures.boosting import fit_boosted_mixture
from strudel.learning.mixtures.em import fit_mixture
from strudel.learning.options import BaggedEM, Boosting, Method, MixtureOptions, SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.progress import MixtureHistory
from strudel.learning.search.learn_structure import Grown, first_circuit, grow, impossible_rows
from strudel.learning.structural_em import (
    Incomplete,
    IncompleteRows,
    first_mixture,
    fit_first,
    mean_of_known,
    with_coins,
)
from strudel.logic.terms import said_event
from strudel.tables.columns import read_columns
from strudel.tables.encoder import (
    TableEncoder,
    fitted_encoder,
    is_binary,
    n_rows_of,
    new_encoder,
    take_rows,
    text_names,
)
from strudel.tables.evidence import evidence_of_rows
from strudel.tables.learn_code import code_of_columns
from strudel.tables.schema import Columns, bit_columns
from strudel.tables.table_code import TableCode

CONTINUED = {
    "must": "be possible under the circuit of the last fit, from which warm_start continues",
    "advice": "Leave such rows out, or start again with warm_start=False.",
}
SHOWN = 8  # values of a violating row that an error quotes


@dataclass(frozen=True, eq=False)
class FitInput:
    """What `fit` was given, and the options that say what to make of it."""

    X: Any
    y: Any
    X_valid: Any
    sample_weight: Any
    estimator: Any  # with the options encoder, constraint, validation_fraction and n_jobs
    random_state: np.random.RandomState
    last: Circuit | None = None  # of an earlier fit, to continue from
    is_restricted: bool = False  # whether all rows of that circuit satisfy the constraint
    check_features: Callable[[Any, AnyArray], None] = lambda X, table: None  # those of that fit


class LogLikelihoods(NamedTuple):
    """Mean log-likelihoods in nats; NaN without validation rows."""

    train: float
    valid: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """All rows of the table that was given as cells, and which of them were held out."""

    columns: Columns
    cells: AnyArray  # (n_rows, n_columns) NONE where a value is missing
    weight: FloatArray | None
    kept: AnyArray  # numbers of the rows to learn from
    held: AnyArray | None  # numbers of those that were held out
    valid: Cells | None  # rows to stop by; None without any
    log_density: tuple[float, float]  # mean, of numbers given their cells; of valid
    encoder: TableEncoder | None  # None for rows of 0 and 1
    features: tuple[Any, int]  # the names, if there are any, and number of columns
    numbers: AnyArray | None  # of the rows in the table that was given, if some are left out
    rng: np.random.Generator
    of_whole: dict[str, Any] | None = None  # facts of a table of which these rows are a sample

    def over(self, columns: Columns) -> Table:
        """The same rows in the cells of these columns, which may be those that are shown."""
        pairs = zip(self.columns, columns, self.cells.T, strict=True)
        cells = [
            own if fine.n_cells == column.n_cells else np.append(fine.shown_of_cell, NONE)[own]
            for fine, column, own in pairs
        ]
        return replace(self, columns=columns, cells=np.column_stack(cells))

    @property
    def held_out(self) -> AnyArray | None:
        """Numbers of the rows of `X` that were held out."""
        return self.held if self.held is None or self.numbers is None else self.numbers[self.held]

    def some(self, n_rows: int) -> Cells:
        """So many rows that count, with those that were held out."""
        weight = np.ones(len(self.cells)) if self.weight is None else self.weight
        chosen = np.flatnonzero(weight > 0.0)
        if n_rows < len(chosen):
            chosen = np.sort(np.random.default_rng(0).choice(chosen, n_rows, replace=False))
        return Cells(self.cells[chosen], weight[chosen])

    def to_learn_from(self) -> Cells:
        """The rows that were not held out."""
        return Cells(self.cells[self.kept], None if self.weight is None else self.weight[self.kept])

    def parts(self) -> tuple[Cells, Cells]:
        """The rows to learn from, and those to stop by."""
        train = self.to_learn_from()
        return train, self.valid or train

    def facts(self) -> dict[str, Any]:
        """Shape and hash of the training table, for provenance."""
        if self.of_whole is not None:
            return self.of_whole
        n_unknown = int(np.count_nonzero(self.cells == NONE))
        cells = self.cells
        if self.encoder is None and not n_unknown:
            cells = np.packbits(cells.astype(np.uint8), axis=1)
        digest = hashlib.sha256(np.ascontiguousarray(cells).tobytes()).hexdigest()
        facts = {"rows": len(self.cells), "columns": len(self.columns), "sha256": digest}
        return facts | {"unknown": n_unknown} if n_unknown else facts


class Cells(NamedTuple):
    """Rows of cells, NONE where a value is missing, and their weights."""

    cells: AnyArray
    weight: FloatArray | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """Rows that can be learned from, in memory."""

    train: BitMatrix
    valid: Any  # rows to stop by, a `BitMatrix`, or None
    rng: np.random.Generator
    start: BitCircuit | None = None  # where a constraint or an earlier fit makes the search start
    last: BitMixture | None = None  # the model of an earlier fit, if there is one
    columns: Sequence[Any] | None = None  # whose codes are respected
    table: Table | None = None  # None if nobody asks for what is learned in columns
    incomplete: Incomplete | None = None
    blocks: Any = None  # `Blocks` of all rows, where these are a sample of a Dask table
    device: Any = None  # of torch, for the likelihoods of mixtures; None for the CPU

    @property
    def gaps(self) -> IncompleteRows | None:
        """The rows themselves, if values are unknown."""
        return None if self.incomplete is None else self.incomplete.rows

    @property
    def gaps_of_all_columns(self) -> IncompleteRows | None:
        """The same with the columns of which nothing is known, as the learned model has them."""
        return None if self.incomplete is None else self.incomplete.of_all_columns

    def with_rows(self, train: BitMatrix, valid: BitMatrix | None) -> Self:
        """The same with complete rows."""
        return replace(self, train=train, valid=valid, incomplete=None)

    def part(self, n_rows: int | None) -> Self:
        """So many of the rows, in their order; all of them if they are fewer."""
        bits = self.train
        if n_rows is None or n_rows >= bits.n_rows:
            return self
        chosen = np.sort(self.rng.choice(bits.n_rows, n_rows, replace=False))
        return replace(self, train=pack_columns(bits.unpack()[chosen], bits.weights[chosen]))

    def grow(self, search: SearchOptions, on_split: Any = None) -> Grown:
        """Search for a structure on the rows."""
        return grow(
            self.train, self.valid, search=search, rng=self.rng, on_split=on_split, start=self.start
        )

    def fit_parameters(self, circuit: BitCircuit, pseudocount: float) -> BitCircuit:
        """A circuit with parameters from all rows."""
        return closed_form(circuit, self.train, pseudocount=pseudocount)

    def train_mixture(
        self,
        structure: BitCircuit,
        method: Method,
        options: MixtureOptions,
        on_iteration: Callable[[MixtureHistory], None],
    ) -> BitMixture:
        """Train a mixture on one structure."""
        is_boosted = isinstance(method, Boosting)
        learn: Callable[..., BitMixture] = fit_boosted_mixture if is_boosted else fit_mixture
        bags = {"n_bags": method.n_bags} if isinstance(method, BaggedEM) else {}
        return learn(
            structure,
            self.train,
            options.n_components,
            X_valid=self.valid,
            options=options,
            rng=self.rng,
            on_iteration=on_iteration,
            **bags,
        )

    def mean_log_likelihood(self, model: Model, part: str) -> float:
        """Of the rows of "train" or "valid"; where values are unknown, of those that are known."""
        if self.gaps_of_all_columns is not None:
            return mean_of_known(model, self.gaps_of_all_columns, part)
        rows = getattr(self, part)
        if rows is None:
            return math.nan
        log_p = rows_log_likelihood(model, rows.unpack(), self.device)
        counts = rows.weights > 0.0
        return float(np.average(log_p[counts], weights=rows.weights[counts]))

    def first_model(self, clock: Clock = NO_LIMIT, *, is_quick: bool = False) -> Model:
        """The model that completes rows with unknown values first: a tree if it must be quick."""
        assert self.incomplete is not None
        rows, tree = self.incomplete.rows, self.incomplete.tree
        if tree is None:  # a circuit to continue from
            assert self.start is not None
            return self.start
        structure = tree if self.start is None else fit_first(self.start, rows)
        return structure if is_quick else first_mixture(structure, rows, self.rng, clock)

    def whole(self, model: Any) -> Any:
        """The model with a coin for every column of which nothing is known."""
        if self.incomplete is None or model.n_vars == len(self.incomplete.is_known):
            return model
        return with_coins(model, self.incomplete.is_known)

    def over_columns(self, model: Model) -> Circuit:
        """A model of the rows as one of the columns of the table."""
        assert self.table is not None
        return over_columns(self.whole(model), self.table.columns.shown, self.code)

    @property
    def code(self) -> TableCode | None:
        """What made bits of the table; None for rows of 0 and 1."""
        encoder = None if self.table is None else self.table.encoder
        return None if encoder is None else encoder.code_


def read_table(given: FitInput) -> Table:
    """Check what was given, and hold out validation rows if there are none."""
    X, y, X_valid, sample_weight = given.X, given.y, given.X_valid, given.sample_weight
    numbers, columns = None, given.estimator.columns
    # Nothing is kept before all is learned: what is refused leaves a fitted model alone.
    encoder = _encoder_of(columns, X, given.last)
    if encoder is None:
        rows, density = _rows_of_bits(given, X, "X"), None
        columns = bit_columns(names_of(rows.shape[1], text_names(X)), "pandas")
        n_vars = rows.shape[1]
        valid = None if X_valid is None else _rows_of_bits(given, X_valid, "X_valid", n_vars)
        valid_density, features = None, (text_names(X), rows.shape[1])
    else:
        if sample_weight is not None:
            X, y, sample_weight, numbers = _rows_that_count(X, y, sample_weight)
        X = read_columns(X)
        if not hasattr(encoder, "code_"):
            encoder = encoder.fit(X, y)
        columns = encoder.code_.as_columns
        features = getattr(encoder, "feature_names_in_", None), encoder.n_features_in_
        rows, density = _cells_of(columns, X, "X")
        valid, valid_density = (
            (None, None) if X_valid is None else _cells_of(columns, X_valid, "X_valid")
        )
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(rows))
    kept, held = np.arange(len(rows)), None
    of_valid = None if valid is None else Cells(valid, None)
    if of_valid is None:
        fraction = given.estimator.validation_fraction
        kept, held = _hold_out(len(rows), weight, fraction, given.random_state)
        if held is not None:
            of_valid = Cells(rows[held], None if weight is None else weight[held])
        elif fraction is not None:  # there are no other rows to check against
            of_valid = Cells(rows, weight)
    return Table(
        columns=columns,
        cells=rows,
        weight=weight,
        kept=kept,
        held=held,
        valid=of_valid,
        log_density=_mean_densities(density, valid_density, weight, kept, held),
        encoder=encoder,
        features=features,
        numbers=numbers,
        rng=np.random.default_rng(given.random_state.randint(2**31)),
    )


def prepare_rows(table: Table, given: FitInput, search: SearchOptions) -> Prepared:
    """The rows of a table as bits, for a search."""
    code = None if table.encoder is None else table.encoder.code_
    last = None if given.last is None else unfold(given.last, code)
    names = table.columns.names if code is None else code.variable_names

    def bits_of(rows: Cells) -> Codes:
        if code is not None:
            return _codes(code.bits_of(rows.cells)), rows.weight
        return np.where(rows.cells == NONE, UNKNOWN, rows.cells).astype(np.uint8), rows.weight

    every = bits_of(Cells(table.cells, table.weight))
    tables = {"X": every[0]}
    if given.X_valid is not None and table.valid is not None:
        tables["X_valid"] = bits_of(table.valid)[0]
    rows = _rows_of_codes(
        every if table.held is None else (every[0][table.kept], table.to_learn_from().weight),
        None if table.valid is None else bits_of(table.valid),
        table.rng,
        search if code is None else replace(search, columns=code.columns),
        table.columns.shown,
        code,
        start=None if last is None else last.structure,
        names=names,
        tables=tables,
        constraint=given.estimator.constraint,
        is_restricted=given.is_restricted,
        n_jobs=given.estimator.n_jobs,
    )
    log_density = table.log_density
    if code is not None:  # bits tell less than cells
        shares = [_log_shares_of_groups(table.columns, own) for own in table.parts()]
        log_density = log_density[0] + shares[0], log_density[1] + shares[1]
    return replace(rows, table=replace(table, log_density=log_density), last=last)


def _rows_of_bits(given: FitInput, X: Any, name: str, n_vars: int | None = None) -> AnyArray:
    """Rows of 0 and 1 as cells."""
    known, _ = check_partial(X, n_vars=n_vars, name=name)
    if given.last is not None:  # with the same columns as before
        given.check_features(X, known)
    if known.dtype == np.uint8:
        return known.view(np.int8)
    return np.where(np.isnan(known), NONE, known).astype(np.int8)


def _cells_of(columns: Columns, X: Any, name: str) -> tuple[AnyArray, FloatArray]:
    """A table as cells, and the log-density of each row's numbers given their cells."""
    evidence = evidence_of_rows(columns, X, name)
    cells = np.column_stack([evidence.cells(place) for place in range(len(columns))])
    return cells, evidence.log_density()


def _log_shares_of_groups(columns: Columns, rows: Cells) -> float:
    """The mean log-probability of the cells of rows, given their groups."""
    logs = np.zeros(len(rows.cells))
    for column, own in zip(columns, rows.cells.T, strict=True):
        if column.groups:
            logs += np.where(own == NONE, 0.0, np.log(column.share_of_group[own]))
    return float(np.average(logs, weights=rows.weight))


def _mean_densities(
    density: FloatArray | None,
    of_valid: FloatArray | None,
    weight: FloatArray | None,
    kept: AnyArray,
    held: AnyArray | None,
) -> tuple[float, float]:
    """The mean log-density of training and validation rows, where columns hold numbers."""
    if density is None:
        return 0.0, 0.0
    weight = np.ones(len(density)) if weight is None else weight
    train = float(np.average(density[kept], weights=weight[kept]))
    if held is not None:
        return train, float(np.average(density[held], weights=weight[held]))
    return train, train if of_valid is None else float(np.mean(of_valid))


Codes = tuple[ByteArray, FloatArray | None]  # rows of 0, 1 and UNKNOWN, and their weights


def _rows_of_codes(
    train: Codes,
    valid: Codes | None,
    rng: np.random.Generator,
    search: SearchOptions,
    columns: Columns,
    code: TableCode | None,
    *,
    start: BitCircuit | None = None,
    names: Sequence[str] | None = None,
    tables: dict[str, ByteArray] | None = None,
    constraint: Any = None,
    is_restricted: bool = False,
    n_jobs: int | None = None,
) -> Prepared:
    """Pack checked rows, complete them where values are unknown, and apply the constraint.

    `tables` are the rows that must be possible, by the names that errors call them.
    """
    tables = tables or {}
    if start is not None:
        for name, table in tables.items():
            check_satisfied(start, table, names, name, **CONTINUED)
    (codes, weight), (valid_codes, valid_weight) = train, valid or (None, None)
    incomplete = None
    given = (
        [codes, *tables.values()] if valid_codes is None else [codes, valid_codes, *tables.values()]
    )
    if any(np.any(table == UNKNOWN) for table in given):
        can_drop = start is None and constraint is None and isinstance(search.vtree, str)
        can_drop = can_drop and search.columns is None  # else half of a column might be left
        incomplete = Incomplete.of(codes, weight, valid_codes, valid_weight, names, can_drop)
        with use_threads(n_jobs):
            bits, valid_bits = incomplete.completed(start, rng, search.columns)
    else:
        bits = _pack_rows_that_count(codes, weight)
        valid_bits = None
        if valid_codes is not None:
            valid_bits = _pack_rows_that_count(valid_codes, valid_weight)
    if constraint is not None and not is_restricted:
        start = start or first_circuit(bits, search, rng)
        allowed = constraint_circuit(start, constraint, columns, code)
        for name, table in tables.items():
            check_satisfied(unfold(allowed, code).structure, table, names, name)
        start = restrict(start, allowed, code)
    return Prepared(
        train=bits,
        valid=valid_bits,
        rng=rng,
        start=start,
        columns=search.columns,
        incomplete=incomplete,
    )


def check_fraction(fraction: Any) -> None:
    """Refuse a share of rows that cannot be held out."""
    is_share = isinstance(fraction, int | float | np.number) and 0.0 < fraction < 1.0
    if fraction is not None and not is_share:
        raise ValueError(
            f"validation_fraction must be between 0 and 1, or None, but is {fraction!r}."
        )


def _hold_out(
    n_rows: int,
    weight: FloatArray | None,
    fraction: float | None,
    random_state: np.random.RandomState,
) -> tuple[AnyArray, AnyArray | None]:
    """Numbers of the rows to learn from and, if some can be held out, of the others."""
    everything = np.arange(n_rows)
    if fraction is None or n_rows == 1:  # a single row can only be checked against itself
        return everything, None
    n_valid = min(max(1, round(fraction * n_rows)), n_rows - 1)
    order = random_state.permutation(n_rows)
    held, kept = np.sort(order[:n_valid]), np.sort(order[n_valid:])
    if weight is not None and not (weight[kept].sum() > 0 and weight[held].sum() > 0):
        return everything, None  # all the weight is on one side
    return kept, held


def _encoder_of(columns: Any, X: Any, last: Circuit | None) -> TableEncoder | None:
    """What encodes the rows; None for 0 and 1. A circuit to continue from brings its columns."""
    encoder = new_encoder(columns)
    if last is not None:
        of_bits = last.columns.are_bits
        return None if of_bits else fitted_encoder(columns, code_of_columns(last.columns))
    return None if columns is None and is_binary(X) else encoder


def _rows_that_count(
    X: Any, y: Any, sample_weight: Any
) -> tuple[Any, Any, FloatArray, AnyArray | None]:
    """A table without its rows of weight zero: an encoder must not see them either."""
    weight = check_sample_weight(sample_weight, n_rows_of(X))
    if np.all(weight > 0.0):
        return X, y, weight, None
    rows = np.flatnonzero(weight > 0.0)
    return take_rows(X, rows), None if y is None else np.asarray(y)[rows], weight[rows], rows


def _codes(table: ByteArray | FloatArray) -> ByteArray:
    """A table as codes 0, 1 and UNKNOWN; a complete one as it is."""
    codes: ByteArray = table if table.dtype == np.uint8 else encode(table)  # type: ignore[assignment,arg-type]
    return codes


def _pack_rows_that_count(X: ByteArray, weight: FloatArray | None) -> BitMatrix:
    """Leave out rows of weight zero: not even the order of the others may depend on them."""
    if weight is None or np.all(weight > 0.0):
        return pack_columns(X, weight)
    return pack_columns(X[weight > 0.0], weight[weight > 0.0])


def check_vtree(vtree: Any, constraint: Any) -> None:
    """Refuse to choose among several vtrees under a constraint: the first circuit has one."""
    if constraint is not None and isinstance(vtree, str) and vtree == "auto":
        raise ValueError(
            "vtree='auto' compares several first circuits, but under a constraint there is one: "
            "name a vtree."
        )


def constraint_circuit(
    circuit: BitCircuit, constraint: Any, columns: Columns, code: TableCode | None
) -> Circuit:
    """The rows that satisfy a constraint, on the vtree of a circuit."""
    of_columns = over_columns(circuit, columns, code)
    allowed = event_circuit(of_columns, said_event(constraint, columns))
    if allowed is None:
        raise ValueError("No row satisfies the constraint, so there is nothing to learn.")
    for place, name in enumerate(columns.names):
        if np.any(np.isfinite(own := allowed.leaf_table(place)) & (own < 0.0)):
            raise ValueError(
                f"The constraint on {name!r} says where in a cell a row may be: the bound lies "
                "inside a cell, of which models know only how probable it is. Learn with "
                f"TableEncoder(edges={{{name!r}: [...]}}) and an edge at the bound."
            )
    return allowed


def restrict(circuit: BitCircuit, allowed: Circuit, code: TableCode | None) -> BitCircuit:
    """The rows of a circuit that another one allows; parameters do not matter.

    What a constraint leaves open depends on one another as the circuit says. A tree has at most
    two nodes at a vtree node, so the product has at most about twice the edges of the constraint.
    Splits only condition and copy: they never make a row possible.
    """
    all_rows = circuit.with_parameters(np.zeros(circuit.n_edges))  # excludes nothing
    both, _ = normalized(product(over_columns(all_rows, allowed.columns, code), allowed))
    if both is None:
        raise ValueError("No row satisfies the constraint, so there is nothing to learn.")
    return unfold(both, code).structure.made_deterministic()


def check_satisfied(
    allowed: BitCircuit,
    table: ByteArray,
    names: Sequence[str] | None,
    name: str = "X",
    must: str = "satisfy the constraint",
    advice: str = "Leave such rows out, or weaken the constraint.",
) -> None:
    """Refuse a table with a row that a circuit does not allow."""
    violating = _violating_rows(allowed, table)
    if len(violating) == 0:
        return
    row = int(violating[0])
    labels = names_of(table.shape[1], names)
    ones = [label for label, value in zip(labels, table[row], strict=True) if value == 1]
    shown = ", ".join(ones[:SHOWN]) + (", ..." if len(ones) > SHOWN else "")
    others = "" if len(violating) == 1 else f" (and {len(violating) - 1} more do not)"
    raise ValueError(
        f"Every row of {name} must {must}, but row {row} does not{others}: its "
        f"ones are {shown or 'none'}. {advice}"
    )


def _violating_rows(allowed: BitCircuit, table: ByteArray) -> AnyArray:
    """The rows that a circuit does not allow, whatever their unknown values are."""
    if not np.any(table == UNKNOWN):
        return impossible_rows(allowed, pack_columns(table))
    no_choice = allowed.with_parameters(np.zeros(allowed.n_edges))
    log_p = rows_log_likelihood(no_choice, decode(table))
    return np.flatnonzero(log_p == -np.inf)
