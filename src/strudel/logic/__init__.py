"""Events and formulas over the variables -> logical circuits, and the rows that satisfy them.

Reading order: `events`, `event_grammar` (events as text), `formula` (CNF, DNF,
NNF), `sdd` (sentential decision diagrams), `event_compiler`; then `satisfying_rows`, which
makes circuits of them.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
