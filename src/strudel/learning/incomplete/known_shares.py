"""How often every component of a mixture knows a value.

In:  a mixture, and rows of which some values are unknown.
Out: the mixture with `known`: of the rows of each component, the share that knows each variable.

So an answer about a column can be that of rows in which it has a value, whatever that depends on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from strudel.circuits.mixture import Mixture
from strudel.learning.incomplete.partial_rows import PartialRows
from strudel.queries.mixture_likelihood import rows_responsibilities

PRIOR = 0.001  # of all rows: so much more is like the whole table in every component
MOST_ROWS = 4000  # a component has hundreds of them, which is enough for a share


def with_known_shares(mixture: Mixture, gaps: Any) -> Mixture:
    """The mixture with the shares of known values; rows belong to components by what is known.

    As it is without unknown values, or where rows are partitioned.
    """
    rows = None if gaps is None else gaps.train_rows
    if mixture.known is not None or not isinstance(rows, PartialRows):
        return mixture
    evidence, weight = rows.evidence, rows.weight / rows.weight.sum()
    if len(weight) > MOST_ROWS:
        chosen = np.linspace(0, len(weight) - 1, MOST_ROWS).astype(np.int64)
        evidence, weight = evidence[chosen], weight[chosen]
    is_known = ~np.isnan(evidence)
    part = rows_responsibilities(mixture, evidence) * weight[:, np.newaxis]
    prior = PRIOR * np.average(is_known, axis=0, weights=weight)[:, np.newaxis]
    known = (is_known.T @ part + prior) / (part.sum(axis=0) + PRIOR)
    return replace(mixture, known=np.minimum(known, 1.0))
