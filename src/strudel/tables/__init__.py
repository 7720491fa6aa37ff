"""Tables as people have them -> 0/1 variables, and back.

Reading order: `encoder`, `learn_code`, `table_code`, `coded_column`, `column_codes`; then
`filled_table`, which puts values into the gaps of a table. `example` is a table that ships with the
package.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
