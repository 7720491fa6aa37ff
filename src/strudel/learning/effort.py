"""How much work the automatic mixture is worth.

Bounds, not seconds: so a seed and the rows alone say what is learned.
"""

from __future__ import annotations

from dataclasses import dataclass

from strudel.learning.mixtures.choose import COMPONENTS, ROUNDS, SPLITS, Round


@dataclass(frozen=True)
class Effort:
    """Bounds of what is tried and learned, some of which follow from the size of the table.

    `cells` are rows times 0/1 variables, those of completed rows if values are unknown.
    """

    has_networks: bool  # where they can learn (`learn_mixture.needs_networks`)
    max_components: int  # of all kinds together
    of_tables: int  # the same of encoded tables, where more are no truer, and answer later
    max_work: float  # components times cells: of large tables, fewer components
    sizes: tuple[int, ...]  # components of one run, of the first kind
    later_sizes: tuple[int, ...]  # of the other kinds, of encoded tables
    pair_components: int  # of encoded tables: components that are learned from pairs of columns
    rounds: tuple[Round, ...]
    splits: tuple[int, ...]  # lengths of prefixes of the structure search, besides the best
    max_splits: int | None
    structure_cells: float  # that the structure is searched on: a sample of larger tables
    max_copies: int  # completions of a row with unknown values
    max_rounds: int  # of completing rows and learning from them
    refit_work: float  # of EM on incomplete rows: rows x edges x components

    def most_components(self, n_cells: int, is_encoded: bool) -> int:
        """Components of all kinds together, for a table of some size."""
        most = self.of_tables if is_encoded else self.max_components
        return int(min(most, max(FEWEST, self.max_work / max(n_cells, 1))))

    def structure_rows(self, n_vars: int) -> int | None:
        """Rows that the structure is searched on; None for all."""
        if self.structure_cells == UNBOUNDED:
            return None
        return int(max(self.structure_cells / max(n_vars, 1), FEWEST_ROWS))


FEWEST, FEWEST_ROWS = 60, 2000
UNBOUNDED = float("inf")
ACCURATE = Effort(
    has_networks=True,
    max_components=3200,
    of_tables=3200,
    max_work=UNBOUNDED,
    sizes=COMPONENTS,
    later_sizes=(5, 10, 25),
    pair_components=800,
    rounds=ROUNDS,
    splits=SPLITS,
    max_splits=None,
    structure_cells=UNBOUNDED,
    max_copies=16,
    max_rounds=3,
    refit_work=2.0**32,
)
DEFAULT = Effort(
    has_networks=False,
    max_components=800,
    of_tables=400,
    max_work=1e9,
    sizes=(25, 75),
    later_sizes=(5, 10, 25),
    pair_components=400,
    rounds=(Round(10**9, 1, 8, 3), Round(3, 4, 40, 4), Round(1, 8, 60, 4)),
    splits=(0, 100),
    max_splits=300,
    structure_cells=1e6,
    max_copies=4,
    max_rounds=2,
    refit_work=2.0**30,
)
FAST = Effort(
    has_networks=False,
    max_components=150,
    of_tables=60,
    max_work=1.5e8,
    sizes=(25,),
    later_sizes=(10,),
    pair_components=200,
    rounds=(Round(10**9, 2, 20, 3),),
    splits=(0,),
    max_splits=0,
    structure_cells=3e5,
    max_copies=1,
    max_rounds=1,
    refit_work=2.0**28,
)
EFFORTS = {"fast": FAST, "default": DEFAULT, "accurate": ACCURATE}
