"""A tree and a vtree -> `BitCircuit`, its properties and the passes over it; mixtures of circuits.

Reading order: `circuit`, `builder`, `compile`, `examples`, `properties` (with `scopes`,
`determinism` and `overlap_search`), `flows`, `evaluate`; then `mixture` and
`predictor`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
