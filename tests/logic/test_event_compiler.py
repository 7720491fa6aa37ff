"""Facts about `event_compiler`."""

import numpy as np

from strudel import log_likelihood
from strudel.logic import compile_event
from strudel.logic.event_compiler import event_circuit
from strudel.trees import balanced_vtree


def test_an_example_of_event_circuit():
    circuit = event_circuit(compile_event("x0 | x2", balanced_vtree(3)))
    assert np.exp(log_likelihood(circuit, [[1, 0, 0], [0, 1, 0]])).tolist() == [1.0, 0.0]
