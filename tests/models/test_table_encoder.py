"""scikit-learn's own checks on the encoder."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from strudel import TableEncoder

BY_NAME = {
    "check_dataframe_column_names_consistency": "columns are found by name, in any order",
}


@parametrize_with_checks([TableEncoder(n_bins=4)], expected_failed_checks=lambda _: BY_NAME)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
