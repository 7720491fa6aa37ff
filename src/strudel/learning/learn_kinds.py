"""Learn three kinds of mixtures by EM, and average them.

In:  `Prepared` rows in memory, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.

The components of the first kind share the structure of a search, which says in detail how each
column depends on its neighbours, and have parameters of their own. Those of the second have
independent columns: whatever depends on one another does so through the component, so that columns
far apart are heard as well. Only columns that tell much of each other stay together, as in the tree
that the search starts from. Those of the third are the circuit of the search itself, tilted: what
it knows stays, and what it lacks is learned from few numbers (`mixtures.tilted`).

Independent columns are a special case of any structure on the same vtree, so all are one mixture.
The first kind has by far the most parameters. So it only takes part where validation rows are
surely more likely with it.

Besides, an encoded table has hundreds of components of independent columns that are learned from
its pairs of columns, for true answers about few columns (`mixtures.pair_components`). They have
half of the weight, whatever validation rows say, as whole rows would not ask for them; and more
where the others have lost a dependence of two or three columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._compiling import Clock
from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_column_tree
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import encode
from strudel.data.bits import merge_equal_rows
from strudel.learning.incomplete import PartialRows
from strudel.learning.mixture_learner import (
    CUT,
    LearnedMixture,
    MixtureLearner,
    MixtureTask,
    independent_structure,
    learn_on_structure,
    learn_one_mixture,
)
from strudel.learning.mixtures.choose import (
    INDEPENDENT,
    PER_ROW,
    components,
    name_of_structure,
)
from strudel.learning.mixtures.pair_components import PairComponents, learn_pair_components
from strudel.learning.mixtures.weighted_average import (
    SURE,
    Group,
    gain_in_errors,
    log_p_of,
    longest,
    shares_of,
    that_matter,
    weighted_average,
)
from strudel.learning.options import Effort
from strudel.learning.prepared_rows import Prepared
from strudel.learning.structural_em import with_known_shares
from strudel.queries.columns.pair_check import check_codes
from strudel.queries.likelihood import rows_log_likelihood
from strudel.queries.probabilities import log_probabilities
from strudel.tables.column_codes import as_column_codes, column_values, complete_columns
from strudel.trees.column_tree import learn_column_tree, strong_part
from strudel.trees.vtree import Vtree

MOST_OF_TABLES = 100  # of them in all runs
STRONG = 0.5  # of a column: columns that tell this share of each other stay together
FEWEST = 15  # components in all: with fewer, one kind makes more of them
WORDS = {"tilted": "tilted "}
FIRST_KIND = 0.6  # of `max_seconds`, for the first kind
OF_PAIRS = 0.5  # of the weight: other shares are no truer (docs/truth.md)
MOST_OF_PAIRS = 0.8  # where smooth components have lost what the rows surely show
MOST_PLACES = 2000  # values of all columns, whose pairs are counted all at once
VIRTUAL_ROWS = 10.0  # that all kinds share evenly when validation rows weigh them


def learn_kinds(rows: Prepared, learner: MixtureLearner) -> LearnedMixture:
    """The average of all kinds; the first alone where there is nothing to average."""
    effort = learner.task.effort
    most = effort.most_components(_n_cells(rows, effort), rows.encoder is not None)
    most = min(learner.task.max_components, most)
    n_pairs = _n_pair_components(rows, learner.task)
    most = min(most, learner.task.max_components - n_pairs)
    task = replace(learner.task, max_components=most, to_choose_from=effort.sizes)
    learner = replace(learner, task=task)
    if rows.is_partitioned or rows.valid is None or rows.start is not None:
        return learn_one_mixture(rows, learner)
    if task.search.init == "independent" or not task.averages_all_it_can:
        return learn_one_mixture(rows, learner)
    most = min(most, PER_ROW * merge_equal_rows(rows.train)[0].n_rows)
    if most < FEWEST:
        return learn_one_mixture(rows, learner)
    task = replace(task, options=replace(task.options, columns=rows.columns))
    first_task = replace(task, max_components=most - min(most // 2, 2 * MOST_OF_TABLES))
    first = learn_one_mixture(
        rows, replace(learner, task=first_task, clock=learner.clock.part(FIRST_KIND))
    )
    if first.history.stopped_because == "interrupted":
        return first
    groups: list[Group] = []
    pairs: PairComponents | None = None
    try:
        _learn(groups, rows, replace(learner, task=task), first, most)
        if n_pairs and not learner.clock.is_up:
            pairs = _learn_from_pairs(rows, n_pairs, first.mixture.vtree, learner.clock)
    except KeyboardInterrupt:
        first.history.stopped_because = "interrupted"
    try:
        is_alone = len(groups) < 2 and pairs is None
        return first if is_alone or not groups else _average(rows, first, groups, pairs)
    except KeyboardInterrupt:
        first.history.stopped_because = "interrupted"
        return first


def _n_pair_components(rows: Prepared, task: MixtureTask) -> int:
    """As many as the effort allows, in half of all components; none for rows of 0 and 1."""
    if rows.encoder is None or rows.columns is None or rows.is_partitioned:
        return 0
    n_columns = sum(column.stop > column.start for column in as_column_codes(rows.columns))
    if n_columns < 2 or rows.train.n_vars + n_columns > MOST_PLACES:
        return 0
    size = min(task.effort.pair_components, task.max_components // 2)
    return size if size >= FEWEST else 0


def _learn_from_pairs(
    rows: Prepared, size: int, vtree: Vtree, clock: Clock
) -> PairComponents | None:
    """Components that are learned from pairs of columns."""
    columns = complete_columns(as_column_codes(rows.columns or ()), rows.train.n_vars)
    if rows.gaps is None:
        values, weight = column_values(rows.train, columns), rows.train.weights
    else:
        known = rows.gaps.train_rows
        assert isinstance(known, PartialRows)
        values, weight = column_values(known.evidence, columns), known.weight
    return learn_pair_components(
        values, weight, columns, vtree, n_components=size, rng=rows.rng, clock=clock
    )


def _n_cells(rows: Prepared, effort: Effort) -> int:
    """Rows times variables, as far as they are in memory; those of completed rows."""
    if rows.is_partitioned:
        return 0
    n_copies = 1 if rows.gaps is None else min(rows.gaps.n_copies, effort.max_copies)
    return int(rows.train.n_rows * rows.train.n_vars * n_copies)


def _learn(
    groups: list[Group],
    rows: Prepared,
    learner: MixtureLearner,
    first: LearnedMixture,
    most: int,
) -> None:
    """Add the first kind to the groups, and learn the others, of `most` components in all."""
    task = learner.task
    structure, n_splits = first.mixture.structure, int(first.chosen["n_splits"])
    groups.append(Group("em", n_splits, first.mixture, _log_p(rows, first.mixture)))

    def learn(kind: str, structure: Circuit, n_splits: int, share: float) -> None:
        n_left = most - sum(group.mixture.n_components for group in groups)
        sizes, n_left = task.to_choose_from, max(1, int(share * n_left))
        if rows.encoder is not None:  # small mixtures answer sooner
            sizes, n_left = task.effort.later_sizes, min(n_left, MOST_OF_TABLES)
        found = learn_on_structure(
            rows,
            replace(learner, clock=learner.clock.part(share)),
            structure,
            n_splits,
            max_components=n_left,
            to_choose_from=sizes,
            is_tilted=kind == "tilted",
            completer=first.mixture,
        )
        groups.append(Group(kind, n_splits, found.mixture, _log_p(rows, found.mixture)))
        if found.history.stopped_because in CUT:
            first.history.stopped_because = found.history.stopped_because
        if found.history.stopped_because == "interrupted":
            raise KeyboardInterrupt

    if not learner.clock.is_up:
        learn("independent", _coarse_structure(rows, task, structure.vtree), INDEPENDENT, 0.5)
    if not learner.clock.is_up:
        learn("tilted", structure, n_splits, 1.0)


def _coarse_structure(rows: Prepared, task: MixtureTask, vtree: Vtree) -> Circuit:
    """The first circuit of the search without its weak edges, or independent columns.

    The first circuit is not known where rows were completed in several ways, or where several
    vtrees were compared.
    """
    if rows.gaps is None and task.search.vtree == "chow_liu":
        columns = complete_columns(as_column_codes(rows.columns or ()), rows.train.n_vars)
        tree, own_vtree = learn_column_tree(rows.train, columns, alpha=task.search.alpha)
        if own_vtree == vtree:
            return compile_column_tree(strong_part(tree, STRONG), vtree)
    independent = independent_structure(rows, task, vtree)
    assert independent is not None  # the rows start nowhere
    return independent


def _average(
    rows: Prepared, first: LearnedMixture, groups: list[Group], pairs: PairComponents | None
) -> LearnedMixture:
    weight = _weight(rows)
    groups = _that_count(groups, weight)
    kept, shares = that_matter(groups, shares_of(groups, weight, VIRTUAL_ROWS))
    if pairs is not None:
        share = _share_of_pairs(rows, weighted_average(kept, shares), pairs)
        kept = [
            replace(group, mixture=with_known_shares(group.mixture, rows.gaps)) for group in kept
        ]
        kept.append(Group("pairs", INDEPENDENT, pairs.mixture, _log_p(rows, pairs.mixture)))
        kept, shares = that_matter(kept, np.append((1.0 - share) * shares, share))
    if [group.kind for group in kept] == ["em"]:
        return first
    mixture = weighted_average(kept, shares)
    log_p = log_p_of(kept, shares)
    chosen: dict[str, Any] = {
        "n_splits": max(longest(kept).n_splits, 0),
        "n_components": mixture.n_components,
        "n_runs": 1,
        "valid": float(weight @ log_p / weight.sum()),
    }
    if longest(kept).n_splits == INDEPENDENT:
        chosen["init"] = "independent"
    chosen["shares"] = {group.kind: float(share) for group, share in zip(kept, shares, strict=True)}
    chosen["explanation"] = _explain(kept, shares)
    return LearnedMixture(mixture, first.history, chosen)


def _share_of_pairs(rows: Prepared, smooth: Mixture, pairs: PairComponents) -> float:
    """The weight of components learned from pairs: more where the others lost a dependence."""
    if any(triple.is_lost_by(smooth) for triple in pairs.triples):
        return MOST_OF_PAIRS
    assert rows.encoder is not None
    if rows.gaps is None:
        codes, weight = encode(rows.train.unpack().astype(np.float64)), rows.train.weights
    else:
        assert isinstance(rows.gaps.train_rows, PartialRows)
        codes, weight = rows.gaps.train_rows.codes, rows.gaps.train_rows.weight
    found = check_codes(smooth.with_table_code(rows.encoder.code_), codes, weight)
    return MOST_OF_PAIRS if found.lost else OF_PAIRS


def _that_count(groups: list[Group], weight: FloatArray) -> list[Group]:
    """The groups, without the first where it is not surely better than tilted components."""
    others = groups[1:]
    if all(group.kind != "tilted" for group in others):
        return groups
    together, without = (
        log_p_of(some, shares_of(some, weight, VIRTUAL_ROWS)) for some in (groups, others)
    )
    return groups if gain_in_errors(together - without, weight) >= SURE else others


def _explain(groups: Sequence[Group], shares: FloatArray) -> str:
    """What the mixture is made of, in a sentence."""
    return " and ".join(
        f"{components(group.mixture.n_components, WORDS.get(group.kind, ''))} "
        f"{_place(group)} with {100.0 * share:.0f} % of the weight"
        for group, share in zip(groups, shares, strict=True)
    )


def _place(group: Group) -> str:
    if group.kind == "pairs":
        return "learned from pairs of columns"
    return f"on {name_of_structure(group.n_splits)}"


def _log_p(rows: Prepared, mixture: Mixture) -> FloatArray:
    """Log-likelihoods of the validation rows; where values are unknown, of those that are known."""
    if rows.gaps is None:
        return rows_log_likelihood(mixture, rows.valid.unpack(), rows.device)
    assert isinstance(rows.gaps.valid_rows, PartialRows)
    return log_probabilities(mixture, rows.gaps.valid_rows.evidence, "fit")


def _weight(rows: Prepared) -> FloatArray:
    """Weights of the same rows."""
    if rows.gaps is None:
        weight: FloatArray = rows.valid.weights
        return weight
    assert isinstance(rows.gaps.valid_rows, PartialRows)
    return rows.gaps.valid_rows.weight
