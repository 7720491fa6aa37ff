"""Errors name the argument that is wrong."""

import pytest

from strudel import same_decision_probability, shap_values, sufficient_explanation
from strudel.circuits import figure_1_circuit


@pytest.mark.parametrize(
    ("query", "name"),
    [(same_decision_probability, "given"), (shap_values, "X"), (sufficient_explanation, "row")],
)
def test_errors_name_the_argument(query, name):
    with pytest.raises(ValueError, match=rf"^{name} must hold only 0"):
        query(figure_1_circuit(), "X1 & X2", [[1, 0, 2, 0]])
