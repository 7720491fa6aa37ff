"""The two losses of predictor circuits, and the penalised linear models that minimise them.

In:  a sparse matrix of flow features, a target, weights of the rows, and the penalty.
Out: `LinearFit`; what every row loses; first and second derivatives for `split_for_target`.

Both losses are written so that the penalty is ``alpha / 2`` times the squared coefficients, the
bias left out: scikit-learn's `Ridge(alpha)` and `LogisticRegression(C=1 / alpha)`.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from strudel._types import FloatArray, IntArray

ROUGH, EXACT = 1e-3, 1e-9  # tolerance of the solvers, while searching and in the end


class LinearFit(NamedTuple):
    """A linear model of flow features."""

    coefficients: FloatArray  # (n_features, n_outputs)
    bias: FloatArray  # (n_outputs,)

    def output(self, features: Any) -> FloatArray:
        """The values `(n_rows, n_outputs)`."""
        return np.asarray(features @ self.coefficients) + self.bias


class SquaredLoss:
    """Half the squared error; the target is a column of numbers `(n_rows, 1)`.

    `solve` finds the coefficients with the least penalised loss, `of_rows` what every row loses,
    `derivatives` the negative first and the second derivative by the outputs.
    """

    kind: Literal["regression", "logistic"] = "regression"

    def solve(
        self, features: Any, target: FloatArray, weight: FloatArray, alpha: float, tolerance: float
    ) -> LinearFit:
        """Ridge regression by conjugate gradients."""
        model = Ridge(alpha, solver="sparse_cg", tol=tolerance)
        model.fit(features, target[:, 0], sample_weight=weight)
        return LinearFit(model.coef_.reshape(-1, 1), np.array([float(model.intercept_)]))

    def of_rows(self, output: FloatArray, target: FloatArray) -> FloatArray:
        """Squared errors."""
        return ((output - target) ** 2)[:, 0]

    def derivatives(self, output: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals and ones."""
        return target - output, np.ones_like(output)


class LogLoss:
    """The log-loss of 0/1 targets `(n_rows, n_outputs)`, each column for itself.

    Two classes have one column, more have one each: the log-odds of a class against all others,
    which is what files of logistic circuits hold.
    """

    kind: Literal["regression", "logistic"] = "logistic"

    def solve(
        self, features: Any, target: FloatArray, weight: FloatArray, alpha: float, tolerance: float
    ) -> LinearFit:
        """Logistic regression for each column."""
        fits = [
            self._solve_one(features, column, weight, alpha, tolerance)
            for column in target.T.astype(np.int64)
        ]
        return LinearFit(
            np.column_stack([fit.coefficients for fit in fits]),
            np.concatenate([fit.bias for fit in fits]),
        )

    def _solve_one(
        self, features: Any, target: Any, weight: FloatArray, alpha: float, tolerance: float
    ) -> LinearFit:
        ones = float(weight @ target)
        if not 0.0 < ones < weight.sum():  # a fold without the only row of a class
            odds = (ones + 0.5) / (weight.sum() - ones + 0.5)
            return LinearFit(np.zeros((features.shape[1], 1)), np.array([np.log(odds)]))
        model = LogisticRegression(C=1.0 / alpha, tol=tolerance, max_iter=2000)
        with warnings.catch_warnings():
            if tolerance == EXACT:  # lbfgs cannot always reach it: then it has converged
                warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, target, sample_weight=weight)
        return LinearFit(model.coef_.reshape(-1, 1), model.intercept_.astype(np.float64))

    def of_rows(self, output: FloatArray, target: FloatArray) -> FloatArray:
        """Added up over the columns."""
        return (np.logaddexp(0.0, output) - target * output).sum(axis=1)

    def derivatives(self, output: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals of the probabilities, and their variances."""
        probability = expit(output)
        return target - probability, probability * (1.0 - probability)


Loss: TypeAlias = SquaredLoss | LogLoss


def softmax_regression(features: FloatArray, label: IntArray, weight: FloatArray) -> LinearFit:
    """Penalised log-odds of two or more classes, all at once; their sum is zero for two."""
    model = LogisticRegression(C=1.0, max_iter=500, tol=ROUGH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is good enough even so
        model.fit(features, label, sample_weight=weight)
    found, bias = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        found, bias = np.vstack([-found, found]) / 2.0, np.append(-bias, bias) / 2.0
    return LinearFit(found.T, bias.astype(np.float64))
