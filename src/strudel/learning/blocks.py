"""Learning from a Dask array or frame: the structure from a sample of rows, parameters from all.

In:  `FitInput` with a lazy table; later, a model learned from a sample of its rows.
Out: `Prepared` of the sample, with all rows as `Blocks`; the model with parameters from these.

A table of at most SAMPLE_ROWS rows is gathered, and the fit is an ordinary one. Of a larger one,
every block gives its share of a sample, drawn by the seed and the number of the block. All that is
chosen is chosen on the sample: the cells of columns, the validation rows, the structure, the number
of components. Every block is packed where it is, and counts for the steps of EM that follow. Counts
are added in the order of the blocks, so no sum depends on which worker was first.

Blocks are in this process, or on the workers of the Dask cluster whose client is active. What was
on a worker that died is made again from where its blocks came from.
"""

from __future__ import annotations

import math
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from strudel._compiling import Clock
from strudel._memory import total_memory
from strudel._numba import use_threads
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.data.bits import UNKNOWN, BitMatrix, encode, merge_if_it_pays, pack_columns
from strudel.data.lazy import is_lazy, row_blocks
from strudel.data.validation import check_partial, check_sample_weight
from strudel.errors import (
    NotBinaryError,
    UnseenValueError,
    UnseenValueWarning,
    outer_stack_level,
)
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.mixture import BitMixture, as_mixture
from strudel.learning.incomplete import ExpectedFlows, PartialRows, Passes, maximise
from strudel.learning.learn_mixture import MixtureTask
from strudel.learning.mixtures.em import STRENGTHS
from strudel.learning.mixtures.em_steps import (
    BLOCK_ROWS,
    Ensemble,
    Prior,
    share_flows,
    uniform_prior,
)
from strudel.learning.options import EM, BaggedEM, SearchOptions
from strudel.learning.prepared_rows import (
    FitInput,
    LogLikelihoods,
    Prepared,
    prepare_rows,
    read_table,
)
from strudel.learning.progress import Reporter
from strudel.tables.columns import read_columns
from strudel.tables.encoder import take_rows
from strudel.tables.table_code import TableCode

SAMPLE_ROWS = 100_000  # a table that has no more is learned from as a whole
SHARE_OF_MEMORY = 0.25  # for packed blocks in this process; the others are made again every time
SENT_ONCE = 2**16  # bytes from which an argument goes to each worker once, not with every task
WEIGHT = "sample_weight of strudel"  # a column, while a frame and its weights go together
MOST_STEPS = 10  # of EM on all rows
TOLERANCE = 1e-3  # nats per validation row that a step must gain, or it was the last
OF_THE_SAMPLE = (1.0, 10.0, 30.0, 100.0)  # virtual rows per sum with its parameters, to choose
SHOWN = 5  # columns that a warning names


def in_memory(given: FitInput) -> FitInput:
    """The same with rows in memory, as far as a lazy table is no larger than a sample."""
    X_valid = given.X_valid
    if is_lazy(X_valid):
        table = LazyTable.of(X_valid, "X_valid")
        seed = given.random_state.randint(2**31) if table.is_large else 0
        X_valid = table.sample(seed).X
    given = replace(given, X_valid=X_valid)
    if not is_lazy(given.X):
        return given
    table = LazyTable.of(given.X, "X", given.sample_weight)
    if table.is_large:
        return given
    whole = table.sample(0)
    return replace(given, X=whole.X, sample_weight=whole.weight)


def prepare_blocks(given: FitInput, search: SearchOptions) -> Prepared:
    """A sample of the rows of a lazy table, and its blocks."""
    table = LazyTable.of(given.X, "X", given.sample_weight)
    if given.estimator.constraint is not None or given.last is not None:
        raise ValueError(
            f"A constraint or warm_start needs all rows in memory, and so at most {SAMPLE_ROWS:,} "
            f"of a Dask table, but X has {table.n_rows:,}: take a sample of the rows."
        )
    sample = table.sample(int(given.random_state.randint(2**31)))
    given = replace(given, X=sample.X, y=None, sample_weight=sample.weight)
    rows = prepare_rows(read_table(given), given, search)
    assert rows.table is not None
    numbers = rows.table.numbers
    numbers = sample.number if numbers is None else sample.number[numbers]
    sampled = replace(rows.table, numbers=numbers)
    blocks = Blocks(table.packed(rows.code, sampled.held_out))
    blocks.warn_of_unseen()
    facts = {"rows": table.n_rows, "columns": len(sampled.columns), "sha256": None}
    facts |= {"unknown": blocks.n_unknown} if blocks.n_unknown else {}
    facts["sampled"] = len(sample.number)
    return replace(rows, blocks=blocks, table=replace(sampled, of_whole=facts))


class Sample(NamedTuple):
    """Rows of a lazy table in memory, in their order."""

    X: Any
    weight: FloatArray | None
    number: AnyArray  # of the row in the table


@dataclass(frozen=True, eq=False)
class LazyTable:
    """The blocks of a Dask array or frame, and how many rows they have."""

    name: str
    blocks: list[Any]  # delayed
    weights: list[Any]  # of their rows: delayed, arrays, or None
    lengths: list[int]
    n_counting: list[int]  # rows whose weight is positive
    columns: tuple[str, ...] | None  # the names of a frame's
    n_columns: int

    @classmethod
    def of(cls, X: Any, name: str, sample_weight: Any = None) -> LazyTable:
        """Find the blocks; those of a frame are counted where they are."""
        from dask import delayed

        blocks, known = row_blocks(X, name)
        if sample_weight is not None and np.ndim(sample_weight) != 1:
            raise ValueError(
                "sample_weight must have one number per row, but has "
                f"{np.ndim(sample_weight)} dimensions."
            )
        weights: list[Any] | None = None
        if is_lazy(sample_weight):
            blocks, weights = _with_weights(X, blocks, sample_weight)
        if np.isnan(known).any():
            known = computed([delayed(len)(block) for block in blocks])
        lengths = [int(n) for n in known]
        if sum(lengths) == 0:
            raise ValueError(f"{name} must have at least one row, but is empty.")
        if sample_weight is not None and weights is None:
            weight = check_sample_weight(sample_weight, sum(lengths))
            weights = np.split(weight, np.cumsum(lengths)[:-1])
        n_counting = lengths
        if weights is not None:
            if len(weights) != len(blocks):
                raise ValueError(
                    f"sample_weight must have as many blocks as {name}, {len(blocks)}, but has "
                    f"{len(weights)}."
                )
            counts = [delayed(_n_counting)(w, n) for w, n in zip(weights, lengths, strict=True)]
            n_counting = computed(counts)
            if sum(n_counting) == 0:
                raise ValueError("Learning needs at least one row with a positive weight.")
        columns = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        weights = weights or [None] * len(blocks)
        return cls(name, blocks, weights, lengths, n_counting, columns, np.shape(X)[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    @property
    def is_large(self) -> bool:
        """Whether it has more rows than a sample."""
        return self.n_rows > SAMPLE_ROWS

    def sample(self, seed: int) -> Sample:
        """All rows; of a large table, of every block its share of those that count."""
        from dask import delayed

        share = min(SAMPLE_ROWS / sum(self.n_counting), 1.0) if self.is_large else None
        n_taken = [None] * len(self.blocks)
        if share is not None:
            ends = np.rint(share * np.cumsum([0, *self.n_counting])).astype(np.int64)
            n_taken = np.diff(ends).tolist()
        take = delayed(_taken, pure=True)
        found = computed(
            [
                take(block, weight, n, [seed, number])
                for number, (block, weight, n) in enumerate(
                    zip(self.blocks, self.weights, n_taken, strict=True)
                )
            ]
        )
        first = np.cumsum([0, *self.lengths[:-1]])
        rows = [rows for rows, *_ in found if len(rows)]
        weight = None
        if self.weights[0] is not None:
            weight = np.concatenate([w for _, w, _ in found])
        number = np.concatenate([n + start for (*_, n), start in zip(found, first, strict=True)])
        return Sample(_concatenated(rows), weight, number)

    def packed(self, code: TableCode | None, left_out: AnyArray | None) -> list[Any]:
        """Every block, delayed, as a `Block` without the rows of these numbers."""
        from dask import delayed

        if code is not None and code.unknown == "warn":  # by one warning, here
            code = replace(code, unknown="missing")
        pack = delayed(partial(_pack, self.name, self.columns, self.n_columns, code), pure=True)
        first = np.cumsum([0, *self.lengths])
        places = np.split(
            np.zeros(0, dtype=np.int64) if left_out is None else left_out,
            np.searchsorted([] if left_out is None else left_out, first[1:-1]),
        )
        return [
            pack(block, weight, own - start, number)
            for number, (block, weight, own, start) in enumerate(
                zip(self.blocks, self.weights, places, first[:-1], strict=True)
            )
        ]


def _with_weights(X: Any, blocks: list[Any], sample_weight: Any) -> tuple[list[Any], list[Any]]:
    """Blocks, and their weights from a Dask array or column."""
    from dask import delayed

    if hasattr(X, "columns") and not hasattr(sample_weight, "chunks"):
        # Together: Dask may read one column of a table in fewer parts than many.
        both = list(X.assign(**{WEIGHT: sample_weight}).to_delayed())
        rows, weigh = delayed(_without_weight, pure=True), delayed(_weight_of, pure=True)
        return [rows(part) for part in both], [weigh(part) for part in both]
    if hasattr(X, "chunks") and not np.isnan(X.chunks[0]).any():
        if not hasattr(sample_weight, "chunks"):
            sample_weight = sample_weight.to_dask_array(lengths=True)
        if len(sample_weight) != len(X):
            raise ValueError(
                f"sample_weight has {len(sample_weight)} numbers, but X has {len(X)} rows."
            )
        sample_weight = sample_weight.rechunk((X.chunks[0],))
    return blocks, list(np.ravel(sample_weight.to_delayed()))


def _without_weight(part: Any) -> Any:
    return part.drop(columns=WEIGHT)


def _weight_of(part: Any) -> Any:
    return part[WEIGHT].to_numpy()


def _n_counting(weight: Any, n_rows: int) -> int:
    return int((check_sample_weight(weight, n_rows, is_part=True) > 0.0).sum())


def _taken(
    block: Any, weight: Any, n_taken: int | None, seed: Sequence[int]
) -> tuple[Any, FloatArray | None, AnyArray]:
    """So many rows of a block that count, with their weights and numbers; None for every row."""
    rows = np.arange(len(block))
    if weight is not None:
        weight = check_sample_weight(weight, len(block), is_part=True)
    if n_taken is None:
        return block, weight, rows
    if weight is not None:
        rows = np.flatnonzero(weight > 0.0)
    rows = np.sort(np.random.default_rng(seed).choice(rows, n_taken, replace=False))
    return take_rows(block, rows), None if weight is None else weight[rows], rows


def _concatenated(tables: list[Any]) -> Any:
    if not hasattr(tables[0], "columns"):
        return np.concatenate(tables)
    import pandas

    return pandas.concat(tables)


# The rows of a block, packed


@dataclass(frozen=True, eq=False)
class Block:
    """The rows of a block that count and know something, equal ones merged where that pays."""

    complete: BitMatrix
    partial: BitMatrix  # of twice as many variables: the values, and whether they are known
    n_unknown: int  # values
    unseen: dict[str, int]  # values of each column that the sample does not have

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.complete.total_weight + self.partial.total_weight

    def __sizeof__(self) -> int:
        return sum(bits.words.nbytes + 8 * bits.n_rows for bits in (self.complete, self.partial))


def _pack(
    name: str,
    columns: tuple[str, ...] | None,
    n_columns: int,
    code: TableCode | None,
    block: Any,
    weight: Any,
    left_out: AnyArray,
    number: int,
) -> Block:
    """One block, checked, encoded and packed."""
    counts = np.ones(len(block), dtype=bool)
    if weight is not None:
        weight = check_sample_weight(weight, len(block), is_part=True)
        counts = weight > 0.0
    n_vars = n_columns if code is None else code.n_vars
    codes: AnyArray = np.zeros((len(block), n_vars), dtype=np.uint8)
    unseen: dict[str, int] = {}
    try:
        if code is None:
            if len(block):
                table, _ = check_partial(block, n_vars=n_vars, feature_names=columns, name=name)
                codes = table if table.dtype == np.uint8 else encode(np.asarray(table, np.float64))
        elif counts.any():
            rows = block if counts.all() else take_rows(block, np.flatnonzero(counts))
            codes[counts], unseen = _encoded(rows, code, name)
    except NotBinaryError as error:
        raise error.within(f"In block {number} of {name}") from None
    except UnseenValueError as error:
        raise error.within(
            f"In block {number} of {name}, of which the encoder saw a sample",
            "Call categorize() of Dask first: it shows the encoder all values.",
        ) from None
    except ValueError as error:
        raise ValueError(f"In block {number} of {name}: {error}") from None
    is_known = codes != UNKNOWN
    n_unknown = int(is_known.size - is_known.sum())
    counts[left_out] = False
    is_complete = is_known.all(axis=1)
    is_partial = ~is_complete & is_known.any(axis=1)

    def packed(table: AnyArray, rows: AnyArray) -> BitMatrix:
        own = None if weight is None else weight[rows]
        return merge_if_it_pays(pack_columns(table[rows].astype(np.uint8), own))

    complete = packed(codes, counts & is_complete)
    partial = packed(np.hstack([codes == 1, is_known]), counts & is_partial)
    return Block(complete, partial, n_unknown, unseen)


def _encoded(rows: Any, code: TableCode, name: str) -> tuple[ByteArray, dict[str, int]]:
    """Rows as codes, and how many values of every column have none."""
    raws = code.as_columns.match(read_columns(rows, name), name)
    codes = encode(code.encode_columns(raws))
    unseen: dict[str, int] = {}
    for column, raw in zip(code.columns, raws, strict=True):
        if column.stop > column.start:
            n = int(((codes[:, column.start] == UNKNOWN) & ~raw.is_missing()).sum())
            unseen |= {column.name: n} if n else {}
    return codes, unseen


# All blocks, and what they count


def active_client() -> Any:
    """The client of a Dask cluster that is active, or None."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def computed(tasks: Sequence[Any]) -> list[Any]:
    """What delayed objects give: on the cluster, or here one after the other."""
    client = active_client()
    if client is None:
        return [task.compute(scheduler="synchronous") for task in tasks]
    found: list[Any] = client.gather(client.compute(list(tasks)))
    return found


class Blocks:
    """Packed blocks, each where it is."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._client = active_client()
        facts: list[tuple[float, int, dict[str, int]]] = []
        if self._client is None:
            self._parts: list[Any] = []
            room = SHARE_OF_MEMORY * total_memory()
            for task in tasks:
                block = task.compute(scheduler="synchronous")
                facts.append(_facts(block))
                room -= block.__sizeof__()
                self._parts.append(block if room >= 0.0 else task)
        else:
            self._parts = self._client.compute(list(tasks))
            facts += self.each(_facts)
        self.total_weight = sum(weight for weight, *_ in facts)
        self.n_unknown = sum(n for _, n, _ in facts)
        self.unseen: dict[str, int] = {}
        for *_, unseen in facts:
            for name, n in unseen.items():
                self.unseen[name] = self.unseen.get(name, 0) + n

    def __len__(self) -> int:
        return len(self._parts)

    def each(self, function: Callable[..., Any], *args: Any) -> Iterator[Any]:
        """What `function(block, *args)` gives, in the order of the blocks."""
        if self._client is None:
            for part in self._parts:
                block = part if isinstance(part, Block) else part.compute(scheduler="synchronous")
                yield function(block, *args)
            return
        client = self._client
        # A task, not data that is scattered: if its worker dies, it is run again.
        sent = [
            client.submit(_itself, arg, pure=False) if len(pickle.dumps(arg)) > SENT_ONCE else arg
            for arg in args
        ]
        n_ahead = 2 * max(sum(client.nthreads().values()), 1)
        waiting: deque[Any] = deque()
        for part in self._parts:
            waiting.append(client.submit(_with_one_thread, function, part, *sent, pure=False))
            if len(waiting) > n_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def expect(self, model: BitMixture, what: str, clock: Clock, report: Reporter) -> ExpectedFlows:
        """Expected flows of all rows, added in the order of the blocks."""
        total: ExpectedFlows | None = None
        for number, flows in enumerate(self.each(expect_block, model), 1):
            total = flows if total is None else total + flows
            report.say("blocks", f"{what}: block {number} of {len(self)}", number)
            if clock.is_up and number < len(self):
                raise TimeoutError
        assert total is not None  # a table has a block at least
        return total

    def warn_of_unseen(self) -> None:
        """Say which values the sample did not have."""
        if self.unseen:
            names = [f"{name!r} ({n} rows)" for name, n in list(self.unseen.items())[:SHOWN]]
            more = ", ..." if len(self.unseen) > SHOWN else ""
            warnings.warn(
                UnseenValueWarning(
                    "Values that are not in the sample which the encoder saw are treated as "
                    f"missing: in {', '.join(names)}{more}.",
                    "Call categorize() of Dask first: it shows the encoder all values.",
                ),
                stacklevel=outer_stack_level(),
            )


def _facts(block: Block) -> tuple[float, int, dict[str, int]]:
    return block.total_weight, block.n_unknown, block.unseen


def _itself(arg: Any) -> Any:
    return arg


def _with_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Dask gives every task one thread; those of kernels would come on top, for every worker."""
    with use_threads(1):
        return function(*args)


def expect_block(block: Block, model: BitMixture) -> ExpectedFlows:
    """Expected flows of the rows of one block."""
    found = ExpectedFlows(np.zeros(model.edge_log_theta.shape), np.zeros(model.n_components), 0.0)
    for bits in _pieces(block.complete):
        found += (_flows_of_one if model.n_components == 1 else _flows_of_many)(bits, model)
    if block.partial.n_rows:
        passes, n = Passes.of(model), model.n_vars
        for bits in _pieces(block.partial):
            table = bits.unpack()
            codes = np.where(table[:, n:] == 1, table[:, :n], np.uint8(UNKNOWN))
            found += passes.expect(PartialRows(codes, bits.weights), model)
    return found


def _pieces(bits: BitMatrix) -> Iterator[BitMatrix]:
    """So many rows at a time that what they need fits into memory."""
    for start in range(0, bits.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, bits.n_rows)
        words = np.ascontiguousarray(bits.words[:, start // 64 : -(-stop // 64)])
        weight = None if bits.row_weight is None else bits.row_weight[start:stop]
        yield BitMatrix(words, stop - start, weight)


def _flows_of_one(bits: BitMatrix, model: BitMixture) -> ExpectedFlows:
    """Exact counts of a single circuit."""
    count = compute_flows(model.structure, bits).edge_count.astype(np.float64)
    taken = count > 0.0
    log_p = float(count[taken] @ model.edge_log_theta[taken, 0])
    return ExpectedFlows(count[:, np.newaxis], np.array([bits.total_weight]), log_p)


def _flows_of_many(bits: BitMatrix, model: BitMixture) -> ExpectedFlows:
    """Counts of every component, by its responsibility for each row."""
    has_defaults = bool(np.isfinite(model.edge_log_theta).all())
    choices, (bags,) = share_flows(model.structure, bits, has_defaults=has_defaults)
    ensemble = Ensemble(choices, Prior(0.0, np.zeros(0)), 1, model.n_components)
    ensemble.set_parameters(model)
    (log_p,), _ = ensemble.expect(bags, [bag.weight[np.newaxis] for bag in bags])
    ensemble.complete()
    count = np.zeros(model.edge_log_theta.shape)
    count[choices.edge] = ensemble.count[: len(choices.edge)]
    return ExpectedFlows(count, ensemble.total.copy(), float(log_p))


# Parameters from all blocks


class Smoothing(NamedTuple):
    """What parameters are drawn to, and by how many virtual rows per sum; the best are taken."""

    to: str  # "uniform", the "single" circuit of all components, or the "sample"
    strengths: tuple[float, ...]


def smoothing_of(asked: SearchOptions | MixtureTask) -> Smoothing:
    """As the sample was smoothed, if that was alike for all components and only by a prior."""
    if isinstance(asked, SearchOptions):
        if asked.smoothing == "uniform":
            return Smoothing("uniform", (asked.pseudocount,))
    elif isinstance(asked.method, EM | BaggedEM):
        strength = asked.options.pseudocount
        return Smoothing(asked.options.smoothing, STRENGTHS if strength == "auto" else (strength,))
    return Smoothing("sample", OF_THE_SAMPLE)


class Refitted(NamedTuple):
    """A model with parameters from all rows."""

    model: Any
    log_likelihoods: LogLikelihoods
    stopped_because: str  # "interrupted", "max_seconds", or empty


def refit(
    model: BitCircuit | BitMixture,
    rows: Prepared,
    smoothing: Smoothing,
    *,
    clock: Clock,
    report: Reporter,
) -> Refitted:
    """Steps of EM on all blocks, as long as validation rows become more likely.

    A circuit of complete rows that is drawn to uniform parameters gets them by counting once.
    """
    blocks = rows.blocks
    best, valid, train = as_mixture(model), rows.mean_log_likelihood(model, "valid"), math.nan
    is_exact = isinstance(model, BitCircuit) and smoothing.to == "uniform"
    is_exact = is_exact and rows.gaps is None and not blocks.n_unknown
    stopped_because = ""
    try:
        for step in range(1, 2 if is_exact else MOST_STEPS + 1):
            flows = blocks.expect(best, f"counting, step {step}", clock, report)
            train = flows.log_likelihood / blocks.total_weight
            tried = [_maximised(best, flows, smoothing.to, n) for n in smoothing.strengths]
            scores = [rows.mean_log_likelihood(one, "valid") for one in tried]
            place = 0 if math.isnan(valid) else int(np.argmax(scores))
            if scores[place] <= valid and not is_exact:
                break
            gain = scores[place] - valid
            best, valid, train = tried[place], scores[place], math.nan
            if gain < TOLERANCE:
                break
        if math.isnan(train):
            flows = blocks.expect(best, "likelihood of all rows", clock, report)
            train = flows.log_likelihood / blocks.total_weight
    except (KeyboardInterrupt, TimeoutError) as error:
        is_late = isinstance(error, TimeoutError)
        stopped_because = "max_seconds" if is_late else "interrupted"
        if math.isnan(train):
            train = rows.mean_log_likelihood(best, "train")
    found = best.component(0) if isinstance(model, BitCircuit) else best
    return Refitted(found, LogLikelihoods(train, valid), stopped_because)


def _maximised(model: BitMixture, flows: ExpectedFlows, to: str, strength: float) -> BitMixture:
    """The model with the parameters that suit counts and virtual rows best."""
    prior = uniform_prior(model.structure, strength if to == "uniform" else 0.0)
    if to == "single":
        count = flows.edge_count.sum(axis=1, keepdims=True)
        one = flows._replace(edge_count=count, component_weight=np.ones(1))
        single = maximise(model.structure, one, uniform_prior(model.structure, 1.0))
        prior = Prior(strength, np.exp(single.edge_log_theta[:, 0]))
    elif to == "sample":
        virtual = strength * np.exp(model.edge_log_theta)
        flows = flows._replace(edge_count=flows.edge_count + virtual)
    return replace(maximise(model.structure, flows, prior), known=model.known)
