"""Facts about `conditional_questions`."""

import numpy as np

from strudel.circuits import figure_1_circuit
from strudel.predictions.shared_passes import answer_questions


def test_an_example_of_answer_questions():
    rows = np.array([[2, 2, 1, 2]], dtype=np.uint8)
    asked = np.array([[1, 2, 1, 2], [1, 0, 1, 2]], dtype=np.uint8)
    asked_row = np.zeros(2, dtype=np.int32)
    _, chance = answer_questions(figure_1_circuit(), rows, asked_row, asked, "example")
    assert chance.round(4).tolist() == [0.4, 0.04]
