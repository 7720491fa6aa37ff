"""Tables as people have them -> 0/1 variables, and back.

Reading order: `columns`, `encoder`, `choose_cells`, `learn_code`, `table_code`, `coded_column`,
`density`; then `missingness`, and `filled_table`, which puts values into the gaps of a table.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
