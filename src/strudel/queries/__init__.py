"""A model and a question -> an exact answer.

Reading order: `given`, `likelihood`, `event_probability`, `marginals`, `sampling`, `counting`,
`information`; then `most_probable` with `best_states`, `state_bounds` and `state_search`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
