"""The explorer: a model as one HTML page, where people click and every probability is exact.

Read `page` first: what people call, the file that comes out, and the model in it as text. Then
`page_circuit`: what the page shows as one column, which 0/1 variables it takes together, and the
circuit over these. The page itself is written in TypeScript, in the project's folder "explorer",
and built into page.html here.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
