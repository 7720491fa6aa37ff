"""Passes over bits, for questions that still ask them."""

from strudel.circuits.bit_probabilities import (
    component_log_probabilities,
    literal_probabilities,
    log_mean,
    log_probabilities,
    posterior,
    rows_at_a_time,
)

__all__ = [
    "component_log_probabilities",
    "literal_probabilities",
    "log_mean",
    "log_probabilities",
    "posterior",
    "rows_at_a_time",
]
