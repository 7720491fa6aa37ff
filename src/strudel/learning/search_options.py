"""How to search for the structure of a circuit: one small object for each search.

In:  options by name.
Out: `Greedy`, `BestFirst`, `LearnPSDD` or `Race`; and `SearchOptions`, which holds one of them
     together with what all searches share, and travels through the learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from strudel.data.argument_checks import check_choice, check_count, check_size
from strudel.learning.options import Options, named_options
from strudel.tables.column_codes import as_column_codes
from strudel.trees.vtree import Vtree
from strudel.trees.vtree_learning import VtreeMethod, check_method

EdgeScore = Literal["flow", "random"]
VariableScore = Literal["mutual_information", "random", "gain"]
TieRule = Literal["root_first", "depth_first"]
Copies = Literal["minimal", "depth", "complete"]
OperationScore = Literal["per_edge", "gain", "heuristic"]
Sides = Literal["left", "both"]
Init = Literal["chow_liu", "independent"]
CircuitSmoothing = Literal["uniform", "hierarchical"]


@dataclass(kw_only=True)
class Search(Options):
    """What all searches share.

    Parameters
    ----------
    sampled_rows : int or "auto", optional
        After the search, learn a mixture and sample this many rows from it, fit the parameters to
        these and the training rows, and go on with the search on both, with twice the patience; the
        validation rows say what is kept. "auto" samples up to 30,000 rows, or 12,000 if there are
        more than 200 variables, goes on with twice as many if there is time, and takes four times
        as many for the parameters. 0 samples none. The preset sets the default. Not for a
        constraint, `warm_start` or partitioned tables.
    structure_rows : int, optional
        Search on a sample of about this many rows; the parameters are then found on all of them.
        For a mixture on a partitioned table, the rows on which everything that is "auto" is chosen
        (50,000 by default).
    """

    FIRST: ClassVar[tuple[str, str]] = ("chow_liu", "chow_liu")  # the default init and vtree

    sampled_rows: int | Literal["auto"] | None = None
    structure_rows: int | None = None

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        check_count("sampled_rows", self.sampled_rows, 0, may_be_none=True, may_be_auto=True)
        check_count("structure_rows", self.structure_rows, may_be_none=True)


@dataclass(kw_only=True)
class Greedy(Search):
    """The paper's search: split one edge on one variable, again and again (Algorithm 2).

    Parameters
    ----------
    edge_score : {"flow", "random"}, default="flow"
        Which edge to split: the one that most rows take (eFLOW), or a random one (eRAND).
    variable_score : {"mutual_information", "random", "gain"}, default="mutual_information"
        On which variable: the one with the most mutual information with the others below the edge
        (vMI), a random one (vRAND), or the one with the largest gain of training likelihood per new
        parameter, including the copies that the split makes possible.
    tie_rule : {"root_first", "depth_first"}, default="root_first"
        Which of several edges with the same number of rows to split: the one nearest the root, or
        the one a depth-first walk leaves first, as the authors' released code does.
    copy_depth : int, default=1
        How far a split copies below the split edge beyond what conditioning forces, counted as in
        the paper: sums and products are one level each, and 0 and 1 copy nothing more.
    """

    edge_score: EdgeScore = "flow"
    variable_score: VariableScore = "mutual_information"
    tie_rule: TieRule = "root_first"
    copy_depth: int = 1

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        super().check()
        check_choice("edge_score", self.edge_score, get_args(EdgeScore))
        check_choice("variable_score", self.variable_score, get_args(VariableScore))
        check_choice("tie_rule", self.tie_rule, get_args(TieRule))
        check_count("copy_depth", self.copy_depth, 0)


@dataclass(kw_only=True)
class BestFirst(Search):
    """Take the split or clone that gains most training likelihood per new parameter.

    Parameters
    ----------
    clones : bool, default=True
        Whether an edge may also get its own copy of a sum that it shares with others.
    sampled_rows, structure_rows
        As in `Greedy`.
    """

    clones: bool = True


@dataclass(kw_only=True)
class LearnPSDD(Search):
    """LearnPSDD (Liang, Bekker and Van den Broeck 2017): the best split or clone, copied deeply.

    It starts from independent variables on a vtree that is built bottom-up.

    Parameters
    ----------
    copies : {"minimal", "depth", "complete"}, default="depth"
        How far an operation copies: only what it must; also `copy_levels` levels of sums below the
        split edge or the cloned sum; or everything below. Sums that no training row of the
        operation reaches stay shared.
    copy_levels : int, default=3
        Levels for ``copies="depth"``.
    operation_score : {"per_edge", "gain", "heuristic"} or Greedy, default="per_edge"
        The best operation raises the training log-likelihood most per new edge, or most in total;
        or it is the split that the greedy search would make, which needs ``clones=False`` and
        ``split_sides="both"``. A `Greedy` object sets its scores, for example
        ``Greedy(edge_score="random")``.
    split_sides : {"left", "both"}, default="left"
        Split only on variables below the left child of an edge (its prime), or on any.
    clones : bool, default=True
        Whether one to three of the edges that lead to a sum may also get their own copy of it.
    sampled_rows, structure_rows
        As in `Greedy`.
    """

    FIRST = ("independent", "bottom_up")

    copies: Copies = "depth"
    copy_levels: int = 3
    operation_score: OperationScore | Greedy = "per_edge"
    split_sides: Sides = "left"
    clones: bool = True

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        super().check()
        check_choice("copies", self.copies, get_args(Copies))
        check_count("copy_levels", self.copy_levels, 0)
        greedy = self.operation_score
        if isinstance(greedy, Greedy):
            greedy.check()
            if greedy != Greedy(
                edge_score=greedy.edge_score,
                variable_score=greedy.variable_score,
                tie_rule=greedy.tie_rule,
            ):
                raise ValueError(
                    "operation_score takes edge_score, variable_score and tie_rule of a Greedy; "
                    "what is copied, and which rows are searched, are options of LearnPSDD itself."
                )
        else:
            check_choice("operation_score", greedy, get_args(OperationScore))
        check_choice("split_sides", self.split_sides, get_args(Sides))
        if self.heuristic is not None and (self.clones or self.split_sides != "both"):
            raise ValueError(
                'operation_score="heuristic" chooses among all splits and nothing else: it '
                f'needs clones=False and split_sides="both", but clones is {self.clones!r} and '
                f"split_sides is {self.split_sides!r}."
            )

    @property
    def heuristic(self) -> Greedy | None:
        """The greedy search that chooses the splits, if there is one."""
        if isinstance(self.operation_score, Greedy):
            return self.operation_score
        return Greedy() if self.operation_score == "heuristic" else None


@dataclass(kw_only=True)
class Race(Search):
    """Best-first search and LearnPSDD side by side on several vtrees.

    The validation rows decide which of them continue.

    Parameters
    ----------
    best_first : BestFirst, optional
        The options of one search.
    learnpsdd : LearnPSDD, optional
        The options of the other one, which splits on both sides here.
    sampled_rows, structure_rows
        As in `Greedy`.
    """

    FIRST = ("chow_liu", "auto")

    best_first: BestFirst | None = None
    learnpsdd: LearnPSDD | None = None

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        super().check()
        for name, kind in (("best_first", BestFirst), ("learnpsdd", LearnPSDD)):
            entrant = getattr(self, name)
            if entrant is None:
                continue
            if not isinstance(entrant, kind):
                raise ValueError(f"{name} must be a {kind.__name__}, but is {entrant!r}.")
            entrant.check()
            if entrant.sampled_rows is not None or entrant.structure_rows is not None:
                raise ValueError(
                    f"sampled_rows and structure_rows belong to the Race, not to its {name}."
                )

    @property
    def entrants(self) -> dict[str, Search]:
        """The two searches by name."""
        learnpsdd = self.learnpsdd or LearnPSDD()
        return {
            "best_first": self.best_first or BestFirst(),
            "learnpsdd": replace(learnpsdd, split_sides="both"),
        }


SEARCHES: dict[str, type[Search]] = {
    "greedy": Greedy,
    "best_first": BestFirst,
    "learnpsdd": LearnPSDD,
    "race": Race,
}


@dataclass(frozen=True)
class SearchOptions:
    """A search for a structure, and what all searches share; with the paper's defaults.

    Parameters
    ----------
    search : Greedy, BestFirst, LearnPSDD, Race, or the name of one
        How the next circuit is found.
    init : {"chow_liu", "independent"}, optional
        The first circuit: the tree-shaped network with the most mutual information that fits the
        vtree (see `learn_tree_for_vtree`; for the vtree of the Chow-Liu tree it is that tree), or
        all variables independent. By default "chow_liu", for LearnPSDD "independent"; where several
        starts are compared, each has its own.
    vtree : Vtree or str, optional
        How the circuit decomposes; a name is a method of `learn_vtree`: "chow_liu", "bottom_up",
        "top_down", "clusters", "balanced", "linear" or "random". "auto" starts on several and
        continues with the best on the validation rows. By default "chow_liu", for LearnPSDD
        "bottom_up", for a race "auto".
    patience : int
        Stop after this many splits without a better validation likelihood.
    max_splits, max_edges, max_seconds : optional
        Other bounds.
    pseudocount : float
        Virtual rows per sum node, shared evenly by its edges.
    alpha : float
        Virtual rows per cell in mutual information. LearnPSDD learns its vtree without any.
    smoothing : {"uniform", "hierarchical"}
        What parameters are smoothed towards: equal ones for all edges of a sum; or, for a copied
        sum, the parameters of the sum it was copied from.
    smoothing_strength : float or "auto"
        How strongly copies are smoothed, in virtual rows per sum; "auto" chooses on validation
        rows.
    columns : sequence of ColumnCode, optional
        Groups of variables that only hold the codes of a column's values, such as the columns of a
        `TableCode`; variables that no group holds are free. The first circuit is then a tree over
        columns, on a vtree over columns, and all other codes have probability zero, now and after
        every split.
    """

    search: Any = "greedy"
    init: Init | None = None
    vtree: Vtree | VtreeMethod | Literal["auto"] | None = None
    patience: int = 100
    max_splits: int | None = None
    max_edges: int | None = None
    max_seconds: float | None = None
    pseudocount: float = 1.0
    alpha: float = 1.0
    smoothing: CircuitSmoothing = "uniform"
    smoothing_strength: float | Literal["auto"] = "auto"
    columns: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        search = named_options("search", self.search, SEARCHES)
        object.__setattr__(self, "search", search)
        if self.columns is not None:
            object.__setattr__(self, "columns", as_column_codes(self.columns))
        init, vtree = search.FIRST
        if self.vtree is None:
            object.__setattr__(self, "vtree", vtree)
        if self.init is not None:
            check_choice("init", self.init, get_args(Init))
        elif not self.compares_starts:
            object.__setattr__(self, "init", init)
        check_choice("smoothing", self.smoothing, get_args(CircuitSmoothing))
        if not isinstance(self.vtree, Vtree) and self.vtree != "auto":
            check_method(self.vtree, "vtree must be a Vtree, or")
        check_count("patience", self.patience)
        check_count("max_splits", self.max_splits, 0, may_be_none=True)
        check_count("max_edges", self.max_edges, 1, may_be_none=True)
        check_size("max_seconds", self.max_seconds, may_be_none=True)
        check_size("pseudocount", self.pseudocount)
        check_size("alpha", self.alpha)
        check_size("smoothing_strength", self.smoothing_strength, may_be_auto=True)

    def check_ends(self, has_valid: bool) -> None:
        """Refuse a search that neither validation rows nor a limit would stop."""
        limits = (self.max_splits, self.max_edges, self.max_seconds)
        if not has_valid and all(limit is None for limit in limits):
            raise ValueError(
                "Without validation rows the search would never stop: give some, or one of "
                "max_splits, max_edges and max_seconds."
            )

    @property
    def compares_starts(self) -> bool:
        """Whether the validation rows choose among several vtrees and first circuits."""
        is_auto = isinstance(self.vtree, str) and self.vtree == "auto"
        return is_auto or isinstance(self.search, Race)
