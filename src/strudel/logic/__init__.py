"""Events and formulas over the variables -> logical circuits, and the models that satisfy them.

Reading order: events, grammar (events as text), formula (CNF, DNF), nnf (negation normal form), sdd
(sentential decision diagrams), event_compiler; then models, which turns them into circuits.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
