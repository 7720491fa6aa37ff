"""Facts about `decision`."""

from strudel.circuits import figure_1_circuit
from strudel.predictions.decision import decision_of


def test_an_example_of_decision_of():
    decision = decision_of(figure_1_circuit(), "X1", threshold=0.3)
    assert decision.cut == 0.3
    assert decision.form.weight.ravel().tolist() == [1.0, 0.0, 0.0, 0.0]
