"""Learn two kinds of mixtures by EM, and average them.

In:  `Prepared` rows in memory, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.

The components of the first kind share the structure of a search, which says in detail how each
column depends on its neighbours. Those of the second have independent columns: whatever depends on
one another does so through the component, so that columns far apart are heard as well. Only columns
that tell much of each other stay together, as in the tree that the search starts from.
Independent columns are a special case of any structure on the same vtree, so both are one mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_column_tree
from strudel.circuits.mixture import Mixture
from strudel.data.bits import merge_equal_rows
from strudel.learning.incomplete.partial_rows import PartialRows
from strudel.learning.mixture_learner import (
    CUT,
    Clock,
    LearnedMixture,
    MixtureLearner,
    MixtureTask,
    independent_structure,
    learn_one_mixture,
)
from strudel.learning.mixtures.choose import INDEPENDENT, PER_ROW, name_of_structure
from strudel.learning.mixtures.weighted_average import (
    Group,
    log_p_of,
    longest,
    shares_of,
    that_matter,
    weighted_average,
)
from strudel.learning.prepared_rows import Prepared
from strudel.queries.likelihood import rows_log_likelihood
from strudel.queries.probabilities import log_probabilities
from strudel.tables.column_codes import as_column_codes, complete_columns
from strudel.trees.column_tree import learn_column_tree, strong_part
from strudel.trees.vtree import Vtree

OF_TABLES = (5, 10, 25)  # components of one run of encoded tables, where columns are independent
MOST_OF_TABLES = 100  # of them in all runs
STRONG = 0.5  # of a column: columns that tell this share of each other stay together
FIRST_SHARE = 0.7  # of `max_seconds`, for the first kind
VIRTUAL_ROWS = 10.0  # that both kinds share evenly when validation rows weigh them


def learn_kinds(rows: Prepared, learner: MixtureLearner) -> LearnedMixture:
    """The average of both kinds; the first alone where there is nothing to average."""
    task, left = learner.task, learner.clock.left()
    if rows.is_partitioned or rows.valid is None or rows.start is not None:
        return learn_one_mixture(rows, learner)
    if task.search.init == "independent" or not task.averages_all_it_can:
        return learn_one_mixture(rows, learner)
    task = replace(task, options=replace(task.options, columns=rows.columns))
    clock = learner.clock
    if left is not None:
        clock = Clock(rows.journal.now(), FIRST_SHARE * left, rows.journal.now)
    first = learn_one_mixture(rows, replace(learner, task=task, clock=clock))
    n_distinct = merge_equal_rows(rows.train)[0].n_rows
    room = min(task.max_components, PER_ROW * n_distinct) - first.mixture.n_components
    if first.history.stopped_because == "interrupted" or room < 1 or learner.clock.left() == 0.0:
        return first
    sizes = task.to_choose_from
    if rows.encoder is not None:  # small mixtures answer sooner
        sizes, room = OF_TABLES, min(room, MOST_OF_TABLES)
    second_task = replace(
        task,
        n_splits=INDEPENDENT,
        search=replace(task.search, max_splits=0, patience=1),
        max_components=room,
        to_choose_from=sizes,
    )
    try:
        start = _coarse_structure(rows, task, first.mixture.structure.vtree)
        second = learn_one_mixture(
            replace(rows, start=start), replace(learner, task=second_task), first.mixture
        )
        return _average(rows, first, second)
    except KeyboardInterrupt:
        first.history.stopped_because = "interrupted"
        return first


def _coarse_structure(rows: Prepared, task: MixtureTask, vtree: Vtree) -> Circuit | None:
    """The first circuit of the search without its weak edges, or independent columns.

    The first circuit is not known where rows were completed in several ways, or where several
    vtrees were compared.
    """
    if rows.gaps is None and task.search.vtree == "chow_liu":
        columns = complete_columns(as_column_codes(rows.columns or ()), rows.train.n_vars)
        tree, own_vtree = learn_column_tree(rows.train, columns, alpha=task.search.alpha)
        if own_vtree == vtree:
            return compile_column_tree(strong_part(tree, STRONG), vtree)
    return independent_structure(rows, task, vtree)


def _average(rows: Prepared, first: LearnedMixture, second: LearnedMixture) -> LearnedMixture:
    stopped, weight = second.history.stopped_because, _weight(rows)
    if stopped in CUT:
        first.history.stopped_because = stopped
    n_splits = first.chosen["n_splits"]
    groups = [
        Group("em", n_splits, first.mixture, _log_p(rows, first.mixture)),
        Group("independent", INDEPENDENT, second.mixture, _log_p(rows, second.mixture)),
    ]
    kept, shares = that_matter(groups, shares_of(groups, weight, VIRTUAL_ROWS))
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


def _explain(groups: Sequence[Group], shares: FloatArray) -> str:
    """What the mixture is made of, in a sentence."""
    return " and ".join(
        f"{group.mixture.n_components:,} components on {name_of_structure(group.n_splits)} with "
        f"{100.0 * share:.0f} % of the weight"
        for group, share in zip(groups, shares, strict=True)
    )


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
