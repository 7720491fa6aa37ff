"""Models, trees and histories -> pictures. Functions take a matplotlib `ax` and return it.

Reading order: `canvas`; `trees`, `circuits`, `marginals`, `heat_maps`, `curves`; `dot`, text for
Graphviz; `notebook`, what a notebook shows by itself.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
