"""What the tests of every estimator share to run scikit-learn's own checks."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array

from strudel import Strudel

REAL_NUMBERS = "feeds a table of real numbers, and the estimators take only 0 and 1"
NEEDS_BINARY = {
    name: REAL_NUMBERS
    for name in (
        "check_estimator_sparse_tag",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_sample_weights_not_overwritten",
        "check_sample_weights_shape",
        "check_pipeline_consistency",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
        "check_estimators_dtypes",
        "check_estimators_pickle",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_dict_unchanged",
        "check_fit_score_takes_y",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit_idempotent",
        "check_fit_check_is_fitted",
        "check_fit2d_1sample",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_f_contiguous_array_estimator",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_dont_overwrite_parameters",
        "check_all_zero_sample_weights_error",
        "check_dtype_object",
        "check_estimators_nan_inf",
    )
}


def positive(X):
    """Whether each number is positive, so that checks with real numbers reach an estimator."""
    if not scipy.sparse.issparse(X) and not hasattr(X, "columns"):
        X = check_array(X, ensure_all_finite="allow-nan")
        if np.isnan(X).any():
            return np.where(np.isnan(X), np.nan, X > 0)
    return (X > 0).astype(np.uint8)


class Thresholded(Strudel):
    """Strudel on whether a number is positive, so that checks with real numbers reach it."""

    def fit(self, X, y=None, *, X_valid=None, sample_weight=None):
        return super().fit(positive(X), X_valid=X_valid, sample_weight=sample_weight)

    def score_samples(self, X):
        return super().score_samples(positive(X))

    def predict_proba(self, X):
        return super().predict_proba(positive(X))


PREDICTS_CLUSTERS = {
    "check_estimator_sparse_array": "takes whatever has predict_proba for a classifier",
    "check_estimator_sparse_matrix": "takes whatever has predict_proba for a classifier",
}
