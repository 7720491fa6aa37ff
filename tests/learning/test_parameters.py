import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from column_circuits import as_bits
from strategies import circuits
from strudel.learning import fit_parameters
from strudel.learning.parameters import closed_form


@given(
    circuits(max_vars=5, deterministic=True),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 1.0, 2.5]),
)
def test_parameters_are_smoothed_shares_of_the_rows_through_a_sum(circuit, seed, pseudocount):
    bits = as_bits(circuit)
    rng = np.random.default_rng(seed)
    rows = np.array(oracle.all_rows(bits.n_vars))[rng.integers(2**bits.n_vars, size=12)]
    weight = rng.integers(0, 3, 12) + 0.25
    count = np.zeros(bits.n_edges)
    for row, w in zip(rows, weight, strict=True):
        count[oracle.active_edges(bits, row)] += w
    fitted = closed_form(bits, rows, sample_weight=weight, pseudocount=pseudocount)
    for n in range(2 * bits.n_vars, bits.n_nodes):
        edges = slice(bits.node_edges[n], bits.node_edges[n + 1])
        width, through = edges.stop - edges.start, count[edges].sum()
        if through + pseudocount == 0:
            expected = np.full(width, 1 / width)
        else:
            expected = (count[edges] + pseudocount / width) / (through + pseudocount)
        assert fitted.theta[edges] == pytest.approx(expected, rel=1e-12)
    whole = fit_parameters(circuit, rows, sample_weight=weight, pseudocount=pseudocount)
    assert oracle.probabilities(whole) == pytest.approx(oracle.probabilities(fitted))
