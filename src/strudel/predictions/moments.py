"""Moments about the mean: what every way to an expected prediction returns, and how they combine.

In:  means and central moments of parts, with their probabilities.
Out: `Moments` of the whole.

Central moments keep their digits where the mean is large and the spread is small; raw moments, the
expectations of powers, are made from them at the end.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from strudel._types import FloatArray


class Moments(NamedTuple):
    """Moments of a prediction given each row."""

    mean: FloatArray  # (n_rows, n_outputs)
    central: FloatArray  # (n_rows, order - 1, n_outputs), about the mean, from the second on

    @property
    def order(self) -> int:
        """The highest moment."""
        return self.central.shape[-2] + 1

    def raw(self, k: int) -> FloatArray:
        """The expectation of the k-th power.

        Examples
        --------
        >>> dice = Moments(np.array([[3.5]]), np.array([[[35 / 12]]]))
        >>> dice.raw(2).round(4)  # 91 / 6
        array([[15.1667]])
        """
        total = self.mean**k
        for j in range(2, k + 1):
            total = total + comb(k, j) * self.central[..., j - 2, :] * self.mean ** (k - j)
        return total


def mix_moments(weight: FloatArray, parts: Moments) -> Moments:
    """The moments of a mixture, from those of its parts on the second axis.

    `weight` is `(n_rows, n_parts)` and adds up to one in every row; `parts` have the shapes
    `(n_rows, n_parts, n_outputs)` and `(n_rows, n_parts, order - 1, n_outputs)`.

    Examples
    --------
    >>> coin = Moments(np.array([[[0.0], [2.0]]]), np.zeros((1, 2, 1, 1)))
    >>> mix_moments(np.array([[0.5, 0.5]]), coin)
    Moments(mean=array([[1.]]), central=array([[[1.]]]))
    """
    share = weight[:, :, np.newaxis]
    mean = (share * parts.mean).sum(axis=1)
    apart = parts.mean - mean[:, np.newaxis]
    central = np.empty((len(mean), parts.order - 1, mean.shape[1]))
    for k in range(2, parts.order + 1):
        total = apart**k
        for j in range(2, k + 1):
            total = total + comb(k, j) * parts.central[:, :, j - 2] * apart ** (k - j)
        central[:, k - 2] = (share * total).sum(axis=1)
    return Moments(mean, central)


def moments_of_points(weight: FloatArray, value: FloatArray, order: int) -> Moments:
    """The moments of values `(n_rows, n_points, n_outputs)` with these probabilities.

    Examples
    --------
    >>> moments_of_points(np.array([[0.5, 0.5]]), np.array([[[0.0], [2.0]]]), 2)
    Moments(mean=array([[1.]]), central=array([[[1.]]]))
    """
    nothing = np.zeros((*value.shape[:2], order - 1, value.shape[2]))
    return mix_moments(weight, Moments(value, nothing))
