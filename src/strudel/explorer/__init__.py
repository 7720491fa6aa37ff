"""The explorer: a model as one HTML page, where people click and every probability is exact.

Read `page` first: what people call, and the file that comes out. Then `page_columns`: what the page
shows as one column, and which 0/1 variables the page takes together; `collapsed_circuit`, the
circuit over these; and `page_data`, all of it as text. The page itself is written in TypeScript, in
the project's folder "explorer", and built into page.html here.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
