"""Learn the model of a table from its cells: several kinds of models, averaged.

In:  rows of cells to learn from, and rows to choose by.
Out: `LearnedTable`: a circuit whose root chooses among models of three kinds.

*Components* of independent columns and *latent trees* are learned by EM from whole rows, a few of
each in several sizes, and averaged with the shares that make the validation rows most likely: they
err in different ways, and how much they may know follows from the rows. *Pairs* are hundreds of
components that are learned from the pairs of columns, for true answers about few columns. They have
most of the weight, whatever validation rows say, as whole rows would not ask for them; and more
where the others have lost a dependence of two or three columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from strudel._compiling import Clock, now
from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import component_logs
from strudel.learning.mixtures.choose import Trial
from strudel.learning.prepared_rows import Cells
from strudel.learning.progress import MixtureHistory, Reporter, offer
from strudel.learning.tables.average import average_circuit
from strudel.learning.tables.components import Components, learn_components
from strudel.learning.tables.em import CellRows, epochs_of
from strudel.learning.tables.latent_tree import LatentTree, TreeShape, learn_latent_tree
from strudel.learning.tables.pair_components import (
    Triple,
    interaction,
    learn_pair_components,
)
from strudel.queries.pair_check import check_cells, most_rows
from strudel.tables.evidence import Evidence
from strudel.tables.schema import Columns

OF_PAIRS = 0.9  # of the weight: other shares are no truer (docs/truth.md)
MOST_OF_PAIRS = 0.95  # where the other models have lost what the rows surely show
LEAST_Z = 6.0  # by which three columns surely depend on one another in another way
MOST_PLACES = 2000  # groups of cells of all columns, whose pairs are counted all at once
FEWEST_PAIRS = 15  # components: with fewer, pairs say little
FOR_RUNS = 0.7  # of the time; the rest is for pairs
VIRTUAL_ROWS = 10.0  # that all models share evenly when validation rows weigh them
WEIGHT_STEPS = 300  # of EM on validation rows, for a handful of shares
FAINT, HEAVIEST = 1e-12, 1e12  # weights of rows: of the largest, and at most
MOST_LINKED = 4e9  # rows times squared columns, of which the tree is made
NO_SHARE = 0.02  # of the weight: what has less is left out
WORDS = {
    "components": "components of independent columns",
    "pairs": "components learned from pairs of columns",
}


class TableEffort(NamedTuple):
    """What is learned, and averaged where it helps; each of it as often as there are runs."""

    components: tuple[int, ...]
    states: tuple[int, ...]  # of every column of a latent tree
    n_runs: int
    pairs: int  # components that are learned from pairs of columns
    work: float  # multiplications of a latent tree, beyond which larger ones are not learned


EFFORTS = {
    "fast": TableEffort((20,), (16,), 1, 200, 1e10),
    "default": TableEffort((20, 80), (8, 32, 128), 1, 400, 1.2e11),
    "accurate": TableEffort((20, 80, 160), (8, 32, 128, 256), 2, 800, 2e12),
}


@dataclass(eq=False)
class LearnedTable:
    """What became of the fit of a table."""

    circuit: Circuit
    history: MixtureHistory  # of the run that was best for the validation rows
    chosen: dict[str, Any]
    trials: list[Trial] = field(default_factory=list)


class _Run(NamedTuple):
    """One model by EM of whole rows."""

    kind: str
    model: Components | LatentTree
    log_p: FloatArray  # of the validation rows
    history: MixtureHistory


class _Part(NamedTuple):
    """A model that takes part in the average."""

    kind: str
    model: Components | LatentTree
    share: float


def learn_table(
    columns: Columns,
    rows: Cells,
    valid: Cells,
    effort: TableEffort,
    *,
    max_components: int,
    rng: np.random.Generator,
    clock: Clock,
    report: Reporter,
) -> LearnedTable:
    """The best average; an interrupt or the end of the time leaves what is learned so far."""
    with threadpool_limits(1, "blas"):  # the same sums on any number of threads
        to_learn, to_stop = _cell_rows(columns, rows), _cell_rows(columns, valid)
        return _Average(to_learn, to_stop, max_components, rng, clock, report).learned(effort)


def _cell_rows(columns: Columns, rows: Cells) -> CellRows:
    weight = np.ones(len(rows.cells)) if rows.weight is None else rows.weight
    counts = weight > FAINT * weight.max()
    weight = weight[counts] * min(1.0, HEAVIEST / weight.max())
    return CellRows.of(columns, rows.cells[counts], weight)


class _Average:
    """Learns one model after another, and puts them together."""

    def __init__(
        self,
        rows: CellRows,
        valid: CellRows,
        max_components: int,
        rng: np.random.Generator,
        clock: Clock,
        report: Reporter,
    ) -> None:
        self.rows, self.valid, self.room = rows, valid, max_components
        self.rng, self.clock, self.report = rng, clock, report
        self.tree = TreeShape.chain(len(rows.columns))
        self.runs: list[_Run] = []
        self.trials: list[Trial] = []
        self.stopped_because = ""
        self.started = now()

    def learned(self, effort: TableEffort) -> LearnedTable:
        """Learn all, and average it."""
        n_pairs = self._n_pairs(effort)
        self.room -= n_pairs
        parts: list[_Part] = []
        try:
            self.tree = self._shape()
            for _ in range(effort.n_runs):
                self._learn(effort, self.clock.part(FOR_RUNS if n_pairs else 1.0))
            parts = self._averaged()
            if n_pairs and self.stopped_because != "interrupted":
                parts = self._with_pairs(parts, n_pairs)
        except KeyboardInterrupt:
            self.stopped_because = "interrupted"
        if not self.runs:  # interrupted at once
            self._run("components", 1, self.clock)
        parts = parts or self._averaged()
        best = max(self.runs, key=lambda run: self.valid.mean(run.log_p))
        best.history.stopped_because = self.stopped_because or best.history.stopped_because
        circuit, chosen = self._circuit(parts), _explained(parts)
        return LearnedTable(circuit, best.history, chosen, self.trials)

    def _shape(self) -> TreeShape:
        """The tree of the columns; of large tables, that of a sample."""
        n_columns = len(self.rows.columns)
        most = max(1000, int(MOST_LINKED / n_columns**2))
        rows = self.rows
        if len(rows) > most:
            rows = rows.take(np.sort(self.rng.choice(len(rows), most, replace=False)))
        cells = np.where(rows.places == rows.columns.n_cells, NONE, rows.places)
        return TreeShape.of_most_information(cells, rows.weight, rows.columns.n_cells)

    def _averaged(self) -> list[_Part]:
        """The models of the runs that matter."""
        log_p = np.stack([run.log_p for run in self.runs])
        shares = _shares(log_p, self.valid.weight)
        shares = np.where(shares < NO_SHARE, 0.0, shares)
        shares /= shares.sum()
        both = zip(self.runs, shares.tolist(), strict=True)
        return [_Part(run.kind, run.model, share) for run, share in both if share > 0.0]

    def _with_pairs(self, parts: list[_Part], size: int) -> list[_Part]:
        """The same with components that are learned from pairs, if there is time."""
        self.report.say("training", "learning from the pairs of columns")
        is_own = np.array_equal(self.rows.places, self.valid.places)  # nothing was held out
        every = self.rows if is_own else self.rows.with_others(self.valid)
        pairs = learn_pair_components(every, size, rng=self.rng, clock=self.clock)
        if pairs is None:
            self.stopped_because = "max_seconds"
            return parts
        share = self._share_of_pairs(parts, pairs.triples)
        parts = [part._replace(share=(1.0 - share) * part.share) for part in parts]
        return [*parts, _Part("pairs", pairs.components, share)]

    def _n_pairs(self, effort: TableEffort) -> int:
        """Components from pairs: as many as the effort allows, in half of all components."""
        columns = self.rows.columns
        n_places = sum(column.n_groups + 1 for column in columns)
        size = min(effort.pairs, self.room // 2)
        return size if len(columns) > 1 and n_places <= MOST_PLACES and size >= FEWEST_PAIRS else 0

    def _learn(self, effort: TableEffort, clock: Clock) -> None:
        """One run of every size, the small ones first."""
        sizes = [("components", size) for size in effort.components]
        if len(self.rows.columns) > 1:
            n_visits = len(self.rows) * len(self.rows.columns) * epochs_of(len(self.rows))
            most = max(effort.states[0], int(np.sqrt(effort.work / n_visits)))
            sizes += [("latent_tree", size) for size in effort.states if size <= most]
        for kind, size in sorted(sizes, key=lambda one: (one[1], one[0])):
            if self.stopped_because:
                return
            if size > self.room:
                if kind == "latent_tree" or (self.room < 1 and self.runs):
                    continue
                size = max(self.room, 1)
            self.room -= size
            self._run(kind, size, clock)
            if clock.is_up and not self.stopped_because:
                self.stopped_because = "max_seconds"

    def _run(self, kind: str, size: int, clock: Clock) -> None:
        started, history = now(), MixtureHistory()
        is_tree = kind == "latent_tree"
        words = f"latent tree of {size} states, " if is_tree else f"{size} components, "

        def on_epoch(train: float, valid: float) -> None:
            history.add(train, valid, 0.0)
            self.report.train_step(history, words, step="epoch")

        more: dict[str, Any] = {"rng": self.rng, "clock": clock, "on_epoch": on_epoch}
        model: Components | LatentTree
        if is_tree:
            model = learn_latent_tree(self.rows, self.valid, self.tree, size, **more)
        else:
            model = learn_components(self.rows, self.valid, size, **more)
        if model.stopped_because == "interrupted" and not len(history):
            raise KeyboardInterrupt
        history.stopped_because = model.stopped_because
        log_p = model.log_likelihood(self.valid)
        self.runs.append(_Run(kind, model, log_p, history))
        score = self.valid.mean(log_p)
        self.trials.append(Trial(0, size, 1, 0.0, score, now() - started, kind))
        if model.stopped_because == "interrupted":
            self.stopped_because = "interrupted"
        offer(lambda: self._circuit([_Part(kind, model, 1.0)]), score)

    def _share_of_pairs(self, parts: list[_Part], triples: list[Triple]) -> float:
        """The share of components learned from pairs: more where others lost a dependence."""
        smooth = self._circuit(parts)
        if any(_is_lost(triple, smooth) for triple in triples):
            return MOST_OF_PAIRS
        n_rows = min(len(self.rows), most_rows(len(self.rows.columns)))
        chosen = np.sort(np.random.default_rng(0).choice(len(self.rows), n_rows, replace=False))
        some = self.rows.take(chosen)
        cells = np.where(some.places == some.columns.n_cells, NONE, some.places)
        found = check_cells(smooth, cells, some.weight.astype(np.float64))
        return MOST_OF_PAIRS if found.lost else OF_PAIRS

    def _circuit(self, parts: list[_Part]) -> Circuit:
        models, shares = [model for _, model, _ in parts], [share for _, _, share in parts]
        return average_circuit(models, np.array(shares), self.tree, self.rows.columns)


def _shares(log_p: FloatArray, weight: FloatArray) -> FloatArray:
    """The shares of models with which validation rows are most likely, by EM."""
    likelihood = np.exp(log_p - log_p.max(axis=0))
    even = np.full((len(log_p), 1), 1.0 / len(log_p))
    share = even
    for _ in range(WEIGHT_STEPS):
        joint = likelihood * share
        count = (joint / joint.sum(axis=0)) @ weight.astype(np.float64)[:, np.newaxis]
        share = (count + VIRTUAL_ROWS * even) / (count.sum() + VIRTUAL_ROWS)
    return np.asarray(share[:, 0])


def _is_lost(triple: Triple, circuit: Circuit) -> bool:
    """Whether a model surely says something else of how three columns depend on one another."""
    columns = circuit.columns
    codes = np.tile(columns.n_cells, (8, 1))
    weights = list(columns.equal_weights)
    for axis, (place, group) in enumerate(zip(triple.columns, triple.groups, strict=True)):
        is_in = np.arange(8) >> (2 - axis) & 1
        codes[:, place] += 1 + is_in
        weights[place] = np.stack([np.ones(len(group)), 1.0 - group, group])
    evidence = Evidence(columns, codes, tuple(weights), {}, {})
    said = np.exp(component_logs(circuit, evidence)[:, 0]).reshape(2, 2, 2)
    return bool(interaction(triple.counts, said * triple.counts.sum()) > LEAST_Z)


def _explained(parts: list[_Part]) -> dict[str, Any]:
    """What a model is made of: the share of each kind, and a sentence."""
    shares: dict[str, float] = {}
    sizes: dict[str, list[int]] = {}
    for kind, model, share in parts:
        shares[kind] = shares.get(kind, 0.0) + float(share)
        sizes.setdefault(kind, []).append(model.n_states)
    words = []
    for kind, share in shares.items():
        if kind == "latent_tree":
            numbers = " and ".join(map(str, sizes[kind]))
            name = (
                f"{'latent trees' if len(sizes[kind]) > 1 else 'a latent tree'} of {numbers} states"
            )
        else:
            name = f"{sum(sizes[kind])} {WORDS[kind]}"
        words.append(f"{name} with {100.0 * share:.0f} % of the weight")
    size = sum(map(sum, sizes.values()))
    return {"n_components": size, "shares": shares, "explanation": " and ".join(words)}
