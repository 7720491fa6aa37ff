"""A model and a question -> an exact answer.

Reading order: `likelihood`, `marginal`, `variable_probabilities`, `sampling`, `counting`,
`information`; `maximum` has the most probable states. What they share: `arguments`, `passes`,
`probabilities`, `conditional_parameters`. The probability of an event is in `strudel.algebra`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
