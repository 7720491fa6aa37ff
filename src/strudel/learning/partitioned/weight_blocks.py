"""The weights of the rows of a partitioned tables, block by block.

In:  a lazy table, its blocks, and weights in whatever form they come.
Out: a block of weights for every block of rows, and their sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel.data.lazy import is_lazy

WEIGHT = "sample_weight of strudel"  # a column, while a frame and its weights go together


def weight_blocks(
    sample_weight: Any, X: Any, blocks: list[Any], name: str
) -> tuple[list[Any], list[Any], float | None]:
    """Blocks of rows, their weights, and the sum of these, which says how to round them."""
    if sample_weight is None:
        return blocks, [None] * len(blocks), None
    if np.ndim(sample_weight) != 1:
        raise ValueError(
            f"sample_weight must have one number per row, but has {np.ndim(sample_weight)} "
            "dimensions."
        )
    if not hasattr(X, "columns") and not np.isnan(sum(X.chunks[0])):
        sample_weight = _like_rows(sample_weight, X)
    if not is_lazy(sample_weight):
        raise ValueError("sample_weight must be a Dask array or column with the same blocks as X.")
    numbers = sample_weight.astype(np.float64)
    total, least = (float(one.compute()) for one in (numbers.sum(), numbers.min()))
    if not (np.isfinite(total) and least >= 0.0):
        raise ValueError("sample_weight must hold finite numbers of at least 0.")
    if total == 0.0:
        raise ValueError("Learning needs at least one row that counts.")
    if hasattr(X, "columns") and not hasattr(sample_weight, "chunks"):
        # Together: Dask may read one column of a table in fewer parts than many.
        from dask import delayed

        both = list(X.assign(**{WEIGHT: sample_weight}).to_delayed())
        rows, weigh = delayed(_without_weight, pure=True), delayed(_weight_of, pure=True)
        return [rows(part) for part in both], [weigh(part) for part in both], total
    weights = sample_weight.to_delayed()
    weights = weights.ravel().tolist() if hasattr(weights, "ravel") else list(weights)
    if len(weights) != len(blocks):
        raise ValueError(
            f"sample_weight must have the blocks of {name}, {len(blocks)}, but has {len(weights)}."
        )
    return blocks, weights, total


def _like_rows(sample_weight: Any, X: Any) -> Any:
    """Weights as an array with the blocks of another."""
    import dask.array as da

    if len(sample_weight) != len(X):
        raise ValueError(
            f"sample_weight has {len(sample_weight)} numbers, but X has {len(X)} rows."
        )
    if hasattr(sample_weight, "chunks"):
        return sample_weight.rechunk((X.chunks[0],))
    if is_lazy(sample_weight):
        return sample_weight.to_dask_array(lengths=True).rechunk((X.chunks[0],))
    return da.from_array(np.asarray(sample_weight), chunks=(X.chunks[0],))


def _without_weight(part: Any) -> Any:
    return part.drop(columns=WEIGHT)


def _weight_of(part: Any) -> Any:
    return part[WEIGHT].to_numpy()
