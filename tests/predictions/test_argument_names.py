"""Errors name the argument that is wrong."""

import pytest

from strudel import same_decision_probability, shap_values, sufficient_explanation
from strudel.circuits import figure_1_circuit


@pytest.mark.parametrize("query", [same_decision_probability, shap_values, sufficient_explanation])
def test_errors_name_the_argument(query):
    with pytest.raises(ValueError, match=r"^given must hold only 0"):
        query(figure_1_circuit(), "X1 & X2", [[1, 0, 2, 0]])
