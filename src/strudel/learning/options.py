"""How to search: one frozen object that travels through the learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

from strudel.tables.column_codes import as_column_codes
from strudel.trees.vtree import Vtree
from strudel.trees.vtree_learning import VtreeMethod, check_method

EdgeScore = Literal["flow", "random"]
VariableScore = Literal["mutual_information", "random", "gain"]
Search = Literal["greedy", "best_first", "beam", "learnpsdd", "auto"]
Copies = Literal["minimal", "depth", "complete"]
OperationScore = Literal["per_edge", "gain", "heuristic"]
Sides = Literal["left", "both"]
CircuitSmoothing = Literal["uniform", "hierarchical"]
BeamSelection = Literal["train", "valid"]
Init = Literal["chow_liu", "independent"]
TieRule = Literal["root_first", "depth_first"]
Start = Literal["k-means", "k-means++", "random"]
Smoothing = Literal["uniform", "single"]


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search for a structure, with the paper's defaults.

    Parameters
    ----------
    edge_score : {"flow", "random"}
        Which edge to split: the one with most rows through it (eFLOW), or any (eRAND).
    variable_score : {"mutual_information", "random", "gain"}
        On which variable: the one that tells most about the others below the edge (vMI), any
        (vRAND), or the one with the largest gain of training likelihood per new parameter, copies
        that the split makes possible included.
    init : {"chow_liu", "independent"}, optional
        The first circuit: the tree-shaped network with most mutual information among those that
        the vtree has room for (see `learn_tree_for_vtree`; for the vtree of the Chow-Liu tree it is
        that tree), or all variables independent. By default "chow_liu", for "learnpsdd"
        "independent".
    vtree : Vtree or str, optional
        How the circuit decomposes; a name is a method of `learn_vtree`: "chow_liu", "bottom_up",
        "top_down", "clusters", "balanced", "linear" or "random". "auto" starts on several and goes
        on with the one that is best on the validation rows. By default "chow_liu", for
        "learnpsdd" "bottom_up".
    patience : int
        Stop after so many splits without a better validation likelihood.
    max_splits, max_edges, max_seconds : optional
        Stop at any of these, too.
    pseudocount : float
        Virtual rows per sum node, shared evenly by its edges.
    copy_depth : int
        How far a split copies below the split edge beyond what conditioning forces, counted as in
        the paper: sums and products are one level each, and 0 and 1 copy nothing more. For
        "learnpsdd" there are `copies` and `copy_levels` instead.
    alpha : float
        Virtual rows per cell in mutual information. LearnPSDD learns its vtree without any.
    tie_rule : {"root_first", "depth_first"}
        Which of several edges with equally many rows to split: the one nearest the root, or the one
        a depth-first walk leaves first, as the authors' released code does.
    search : {"greedy", "best_first", "beam", "learnpsdd", "auto"}
        Take the split that `edge_score` and `variable_score` choose; or, of all splits and clones,
        the one that gains most training likelihood per new parameter; or keep the `beam_width` best
        circuits after every step, each split at its `beam_width` best-scored edges; or, as
        LearnPSDD does, the best of all splits and clones with deeper copies. A clone of LearnPSDD
        copies a sum for one to three of the edges that lead to it. "auto" lets best-first search
        and LearnPSDD run side by side on several vtrees, and goes on with the best one on the
        validation rows.
    clones : bool
        Whether best-first search and LearnPSDD may also give edges their own copy of a sum that
        they share with others.
    copies : {"minimal", "depth", "complete"}
        How far an operation of LearnPSDD copies: what it must; also `copy_levels` levels of sums
        below the split edge, or below the cloned sum; or all that is below. Sums that no training
        row of the operation reaches stay shared.
    copy_levels : int
        Levels for `copies="depth"`.
    operation_score : {"per_edge", "gain", "heuristic"}
        The best operation of LearnPSDD raises the training log-likelihood most per edge that it
        adds, or most; or it is the split that the greedy search would make, which needs
        `clones=False` and `split_sides="both"`.
    split_sides : {"left", "both"}
        LearnPSDD: split on variables below the left child of an edge (its prime) only, or on any.
    smoothing : {"uniform", "hierarchical"}
        What parameters are drawn to: all edges of a sum alike, or, for a sum that was copied, the
        parameters of the sum it was copied from.
    smoothing_strength : float or "auto"
        How strongly copies are drawn, in virtual rows per sum; "auto" chooses on validation rows.
    beam_width : int
        Circuits in the beam. One is the greedy search.
    beam_selection : {"train", "valid"}
        The likelihood by which circuits stay in the beam.
    beam_kl_threshold : float, optional
        Leave a circuit out of the beam if the Kullback-Leibler divergence, in nats, of a better one
        from it is smaller. Circuits of equal size and likelihood are always left out.
    columns : sequence of ColumnCode, optional
        Groups of variables that only hold the codes of a column's values, such as the columns of a
        `TableCode`; variables that no group holds are free. The first circuit is then a tree over
        columns, on a vtree over columns, and all other codes have probability zero, now and after
        every split.
    """

    edge_score: EdgeScore = "flow"
    variable_score: VariableScore = "mutual_information"
    init: Init | None = None
    vtree: Vtree | VtreeMethod | Literal["auto"] | None = None
    patience: int = 100
    max_splits: int | None = None
    max_edges: int | None = None
    max_seconds: float | None = None
    pseudocount: float = 1.0
    copy_depth: int = 1
    alpha: float = 1.0
    tie_rule: TieRule = "root_first"
    search: Search = "greedy"
    clones: bool = True
    copies: Copies = "depth"
    copy_levels: int = 3
    operation_score: OperationScore = "per_edge"
    split_sides: Sides = "left"
    smoothing: CircuitSmoothing = "uniform"
    smoothing_strength: float | Literal["auto"] = "auto"
    beam_width: int = 5
    beam_selection: BeamSelection = "train"
    beam_kl_threshold: float | None = None
    columns: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", as_column_codes(self.columns))
        is_learnpsdd = self.search == "learnpsdd"
        if self.search == "auto" and self.vtree is None:
            object.__setattr__(self, "vtree", "auto")
        for name, value in (
            ("init", "independent" if is_learnpsdd else "chow_liu"),
            ("vtree", "bottom_up" if is_learnpsdd else "chow_liu"),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name, allowed in (
            ("edge_score", get_args(EdgeScore)),
            ("variable_score", get_args(VariableScore)),
            ("init", get_args(Init)),
            ("tie_rule", get_args(TieRule)),
            ("search", get_args(Search)),
            ("copies", get_args(Copies)),
            ("operation_score", get_args(OperationScore)),
            ("split_sides", get_args(Sides)),
            ("smoothing", get_args(CircuitSmoothing)),
            ("beam_selection", get_args(BeamSelection)),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, but is {value!r}.")
        if not isinstance(self.vtree, Vtree) and self.vtree != "auto":
            check_method(self.vtree, "vtree must be a Vtree, or")
        for name, lowest in (
            ("patience", 1),
            ("max_splits", 0),
            ("max_edges", 1),
            ("copy_depth", 0),
            ("copy_levels", 0),
            ("beam_width", 1),
        ):
            check_number(name, getattr(self, name), lowest, Integral, "a whole number")
        for name in ("max_seconds", "pseudocount", "alpha", "beam_kl_threshold"):
            check_number(name, getattr(self, name), 0, Real, "a finite number")
        if self.smoothing_strength != "auto":
            check_number("smoothing_strength", self.smoothing_strength, 0, Real, "a finite number")
        is_greedy_choice = is_learnpsdd and self.operation_score == "heuristic"
        if is_greedy_choice and (self.clones or self.split_sides != "both"):
            raise ValueError(
                'operation_score="heuristic" chooses among all splits, and among nothing else: it '
                f'needs clones=False and split_sides="both", but clones is {self.clones!r} and '
                f"split_sides is {self.split_sides!r}."
            )


@dataclass(frozen=True)
class MixtureOptions:
    """Options of EM for a mixture on one structure.

    Parameters
    ----------
    n_components : int
        Components of one run.
    n_runs : int
        Runs from different starts whose mixtures are averaged; the result has
        `n_runs * n_components` components. Often worth more than a larger `n_components`.
    n_restarts : int
        Starts of every run, of which the best one is kept.
    start : {"k-means", "k-means++", "random"}
        First responsibilities: clusters of similar rows, from random centres or from centres far
        apart, or random shares.
    smoothing : {"uniform", "single"}
        What parameters are drawn to: all edges of a sum alike, or the parameters of the single
        circuit on the same rows.
    pseudocount : float or "auto"
        How strongly, in virtual rows per sum node and component; "auto" chooses on the validation
        rows once EM has ended.
    max_iterations : int
        Stop after so many EM steps.
    patience : int
        Stop after so many steps without a better validation likelihood.
    tolerance : float
        What counts as better, in nats per row; without validation rows, of the training rows.
    max_seconds : float, optional
        Stop after so many seconds, too.
    """

    n_components: int = 10
    n_runs: int = 1
    n_restarts: int = 1
    start: Start = "k-means"
    smoothing: Smoothing = "uniform"
    pseudocount: float | Literal["auto"] = 1.0
    max_iterations: int = 500
    patience: int = 10
    tolerance: float = 1e-5
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("start", get_args(Start)), ("smoothing", get_args(Smoothing))):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, but is {value!r}.")
        for name in ("n_components", "n_runs", "n_restarts", "max_iterations", "patience"):
            check_number(name, getattr(self, name), 1, Integral, "a whole number")
        for name in ("pseudocount", "tolerance", "max_seconds"):
            if getattr(self, name) != "auto" or name != "pseudocount":
                check_number(name, getattr(self, name), 0, Real, "a finite number")


def check_number(name: str, value: Any, lowest: int, kind: type, words: str) -> None:
    """Refuse what is not such a number, or too small; None stands for no limit."""
    if value is None and (name.startswith("max_") or name.endswith("_threshold")):
        return
    if not isinstance(value, kind) or not lowest <= value < float("inf"):  # type: ignore[operator]
        raise ValueError(f"{name} must be {words} of at least {lowest}, but is {value!r}.")
