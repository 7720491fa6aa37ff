"""Models, trees and histories -> pictures. Functions take a matplotlib `ax` and return it.

Reading order: `canvas`, `labels`, `drawing` (circuits; `circuit_map` for large ones), `vtrees`,
`trees`, `learning_curve`, `marginals`, `heat_maps`, `pair_check`, `rows`, `shapley`, `dot`; then
`notebook`, what a notebook shows by itself.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
