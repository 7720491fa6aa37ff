"""What a fit is asked for: searches, methods, presets, and how much work they are worth.

In:  options by name.
Out: objects with scikit-learn's `get_params` and `set_params`, checked when they are used:
     `Greedy`, `BestFirst`, `LearnPSDD` or `Race` for a search, `EM`, `BaggedEM`, `Boosting`,
     `Continuous` or `Auto` for the components of a mixture; and `SearchOptions`, `MixtureOptions`
     and `Effort`, frozen objects that travel through the learner.

Options live where they mean something: those of one search in its object, for example
``LearnPSDD(copies="minimal")``. A name stands for an object with its defaults, a preset for the
options that are not given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, get_args

from strudel._estimator import Options
from strudel._names import close_names, did_you_mean
from strudel.data.argument_checks import check_choice, check_count, check_size, shown
from strudel.tables.column_codes import as_column_codes
from strudel.trees.vtree import Vtree
from strudel.trees.vtree_learning import VtreeMethod, check_method


@dataclass(kw_only=True)
class CheckedOptions(Options):
    """Options of a search or a method."""

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""


Kind = TypeVar("Kind", bound=CheckedOptions)


def named_options(name: str, value: Any, kinds: Mapping[str, type[Kind]]) -> Kind:
    """The object that an option stands for: itself, or the defaults that a name stands for."""
    if isinstance(value, str) and value in kinds:
        value = kinds[value]()
    if not isinstance(value, tuple(kinds.values())):
        classes = ", ".join(kind.__name__ for kind in kinds.values())
        close = close_names(value, kinds)
        hint = f" {did_you_mean(value, kinds)}" if close else ""
        raise ValueError(
            f"{name} must be one of {', '.join(kinds)}, or an object of one of {classes}, but is "
            f"{shown(value)}.{hint}"
        )
    found: Kind = value  # type: ignore[assignment]
    found.check()
    return found


def options_with(
    inner: Sequence[str], name: str, value: str, kinds: Mapping[str, type[Kind]]
) -> Kind:
    """The object that a name stands for, if it has these options; for "auto" the only one."""
    owners = [key for key, kind in kinds.items() if {*inner} <= kind().get_params().keys()]
    if value == "auto" and len(owners) == 1:
        value = owners[0]
    if owners and value not in owners:
        goes_with = f"goes with {name} {' or '.join(owners)}, not with {value}"
        raise ValueError(f"{name}.{inner[0]} {goes_with}.")
    if value == "auto":
        raise ValueError(f"No {name} has an option {inner[0]!r}.")
    return named_options(name, value, kinds)


EdgeScore = Literal["flow", "random"]
VariableScore = Literal["mutual_information", "random", "gain"]
TieRule = Literal["root_first", "depth_first"]
Copies = Literal["minimal", "depth", "complete"]
OperationScore = Literal["per_edge", "gain"]
Sides = Literal["left", "both"]
Init = Literal["chow_liu", "independent"]
CircuitSmoothing = Literal["uniform", "hierarchical"]


@dataclass(kw_only=True)
class Search(CheckedOptions):
    """What all searches share.

    Parameters
    ----------
    sampled_rows : int or "auto", optional
        After the search, learn a mixture and sample this many rows from it, fit the parameters to
        these and the training rows, and go on with the search on both, with twice the patience; the
        validation rows say what is kept. "auto" samples up to 30,000 rows, or 12,000 if there are
        more than 200 variables, goes on with twice as many if there is time, and takes four times
        as many for the parameters. 0 samples none. The preset sets the default. Not for a
        constraint or `warm_start`.
    structure_rows : int, optional
        Search on a sample of about this many rows; the parameters are then found on all of them.
        Not for a mixture.
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
    operation_score : {"per_edge", "gain"}, default="per_edge"
        The best operation raises the training log-likelihood most per new edge, or most in total.
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
    operation_score: OperationScore = "per_edge"
    split_sides: Sides = "left"
    clones: bool = True

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        super().check()
        check_choice("copies", self.copies, get_args(Copies))
        check_count("copy_levels", self.copy_levels, 0)
        check_choice("operation_score", self.operation_score, get_args(OperationScore))
        check_choice("split_sides", self.split_sides, get_args(Sides))


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

    def set_params(self, **params: Any) -> Self:
        """Set options by name; ``learnpsdd__copies`` sets one of a search inside."""
        for name in {key.partition("__")[0] for key in params if "__" in key} & SEARCHES.keys():
            if getattr(self, name) is None:
                setattr(self, name, SEARCHES[name]())
        return super().set_params(**params)

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
        sum, the parameters of the sum it was copied from, as strongly as the validation rows like.
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


InitParams = Literal["kmeans", "k-means++", "random"]
MixtureSmoothing = Literal["uniform", "single"]


@dataclass(kw_only=True)
class Method(CheckedOptions):
    """A way to train a mixture."""

    MOST: ClassVar[int] = 3200  # components in all, unless more are asked for

    def mixture_options(self, **others: Any) -> MixtureOptions:
        """All that training needs to know."""
        known = {field.name for field in fields(MixtureOptions)}
        own = {name: value for name, value in self.get_params().items() if name in known}
        return MixtureOptions(**{**own, "n_runs": own.get("n_runs") or 1, **others})


@dataclass(kw_only=True)
class EMMethod(Method):
    """What all methods with EM steps share.

    Parameters
    ----------
    n_init : int, default=1
        Starts of every run; the best one is kept. In boosting, starts of every new component.
    max_iter : int, default=500
        Stop after this many EM steps.
    patience : int, default=10
        Stop after this many steps, in boosting components, without a better validation likelihood.
    tol : float, default=1e-5
        The least gain that counts as better, in nats per row; without validation rows, on the
        training rows.
    """

    n_init: int = 1
    max_iter: int = 500
    patience: int = 10
    tol: float = 1e-5

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        self.mixture_options()


@dataclass(kw_only=True)
class EM(EMMethod):
    """EM on all rows.

    Parameters
    ----------
    n_runs : int, optional
        Runs from different starts whose mixtures are averaged: 1 by default, and as many as
        `max_components` allows when `n_components` is "auto". Often worth more than a larger
        `n_components`.
    init_params : {"kmeans", "k-means++", "random"}, default="kmeans"
        First responsibilities: clusters of similar rows, from random centres or from centres far
        apart, or random shares.
    max_rounds : int, default=3
        How often rows with unknown values are completed and learned from, at most; a single round
        is quicker.
    n_init, max_iter, patience, tol
        As in `EMMethod`.
    """

    n_runs: int | None = None
    init_params: InitParams = "kmeans"
    max_rounds: int = 3

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        super().check()
        check_count("n_runs", self.n_runs, may_be_none=True)


@dataclass(kw_only=True)
class BaggedEM(EMMethod):
    """EM on bootstrap samples of the rows, averaged (the paper's BEM).

    Parameters
    ----------
    n_bags : int, default=10
        Bootstrap samples.
    init_params : {"kmeans", "k-means++", "random"}, default="kmeans"
        First responsibilities.
    n_init, max_iter, patience, tol
        As in `EMMethod`.
    """

    n_bags: int = 10
    init_params: InitParams = "kmeans"

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        super().check()
        check_count("n_bags", self.n_bags)


@dataclass(kw_only=True)
class Boosting(EMMethod):
    """Components added one after another, each where the mixture so far fails.

    Parameters
    ----------
    n_init, max_iter, patience, tol
        As in `EMMethod`.
    """


@dataclass(kw_only=True)
class Continuous(Method):
    """A network makes the parameters of every component from a point: many components, few numbers.

    It learns for points drawn from a normal distribution; the mixture is made of many fixed ones.
    Components that are tied hardly overfit, so there may be thousands. Needs PyTorch. Better than
    EM on most tables, but not where rows nearly repeat one another. `max_iter`, `n_points` and
    `n_runs` matter most; early stopping is what keeps a network from overfitting.

    Parameters
    ----------
    n_runs : int, default=1
        Networks that learn one after another; their components make one mixture. Gains more
        than longer training does.
    max_iter : int, default=3000
        Gradient steps of every network. The step size falls to zero towards the last one, so
        they also say how slowly it falls.
    patience : int, default=750
        Stop after this many steps without a better validation likelihood.
    batch_size : int, default=256
        Rows of one step.
    n_points : int, default=512
        Points of one step.
    latent_dim : int, default=16
        Dimension of the points.
    width, depth : int, default=256 and 2
        Hidden units of a layer, and hidden layers.
    learning_rate : float, default=1e-3
        The largest step size of AdamW.
    """

    MOST = 4096  # where a network ties the components: they cost less, and more of them help

    n_runs: int = 1
    max_iter: int = 3000
    patience: int = 750
    batch_size: int = 256
    n_points: int = 512
    latent_dim: int = 16
    width: int = 256
    depth: int = 2
    learning_rate: float = 1e-3

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        for field in fields(self):
            if field.type == "int":
                check_count(field.name, getattr(self, field.name))
        check_size("learning_rate", self.learning_rate)


@dataclass(kw_only=True)
class Auto(Method):
    """What suits the table: EM for a given number of components, else an average.

    Components of independent columns and latent trees, by EM, and components that are learned from
    the pairs of columns are averaged. With the preset "accurate" and PyTorch, a large table of 0
    and 1 gets EM, bagged EM and continuous mixtures instead, as does one with options that ask for
    a structure.
    """

    MOST = 8192  # where networks tie some of them


METHODS: dict[str, type[Method]] = {
    "auto": Auto,
    "em": EM,
    "bagged_em": BaggedEM,
    "boosting": Boosting,
    "continuous": Continuous,
}


@dataclass(frozen=True)
class MixtureOptions:
    """How to train a mixture on one structure.

    Parameters
    ----------
    n_components : int
        Components of one run.
    n_runs : int
        Runs from different starts whose mixtures are averaged; the result has
        `n_runs * n_components` components.
    smoothing : {"uniform", "single"}
        What parameters are smoothed towards: equal ones for all edges of a sum, or those of
        the single circuit on the same rows.
    pseudocount : float or "auto"
        How strongly, in virtual rows per sum node and component; "auto" chooses on the validation
        rows once EM has ended.
    max_seconds : float, optional
        Stop after this many seconds.
    device : torch.device, optional
        Where EM runs; None for the CPU without torch.
    n_init, init_params, max_iter, patience, tol, max_rounds
        As in `EM`.
    """

    n_components: int = 10
    n_runs: int = 1
    n_init: int = 1
    init_params: InitParams = "kmeans"
    smoothing: MixtureSmoothing = "uniform"
    pseudocount: float | Literal["auto"] = 1.0
    max_iter: int = 500
    patience: int = 10
    tol: float = 1e-5
    max_rounds: int = 3
    max_seconds: float | None = None
    device: Any = None

    def __post_init__(self) -> None:
        check_choice("init_params", self.init_params, get_args(InitParams))
        check_choice("smoothing", self.smoothing, get_args(MixtureSmoothing))
        for name in ("n_components", "n_runs", "n_init", "max_iter", "patience", "max_rounds"):
            check_count(name, getattr(self, name))
        check_size("tol", self.tol)
        check_size("max_seconds", self.max_seconds, may_be_none=True)
        check_size("pseudocount", self.pseudocount, may_be_auto=True)

    def check_validation(self, has_valid: bool) -> None:
        """Refuse to choose on validation rows where there are none."""
        if not has_valid and self.pseudocount == "auto":
            raise ValueError("pseudocount='auto' is chosen on validation rows, but there are none.")


SPLITS = (0, 30, 100, 300, 1000)  # lengths of prefixes, besides the circuit that won the search
COMPONENTS = (25, 75, 225)  # of one run


class Round(NamedTuple):
    """One round of successive halving."""

    n_kept: int  # settings that enter it
    n_runs: int  # that each of them has after it
    max_iter: int
    patience: int


ROUNDS = (Round(10**9, 1, 8, 3), Round(6, 4, 40, 4), Round(2, 16, 80, 4), Round(1, 64, 80, 4))
FIRST_ROUNDS = ROUNDS[:2]  # enough to choose a structure and a number of components


@dataclass(frozen=True)
class Effort:
    """Bounds of what an automatic mixture tries and learns; some follow from the size of the table.

    Bounds, not seconds: so a seed and the rows alone say what is learned.
    `cells` are rows times 0/1 variables, those of completed rows if values are unknown.
    """

    has_networks: bool  # where they can learn
    max_components: int  # of all runs together
    max_work: float  # components times cells: of large tables, fewer components
    sizes: tuple[int, ...]  # components of one run
    rounds: tuple[Round, ...]
    splits: tuple[int, ...]  # lengths of prefixes of the structure search, besides the best
    max_splits: int | None
    structure_cells: float  # that the structure is searched on: a sample of larger tables
    max_copies: int  # completions of a row with unknown values
    max_rounds: int  # of completing rows and learning from them
    refit_work: float  # of EM on incomplete rows: rows x edges x components

    def most_components(self, n_cells: int) -> int:
        """Components of all runs together, for a table of some size."""
        return int(min(self.max_components, max(FEWEST, self.max_work / max(n_cells, 1))))

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
    max_work=UNBOUNDED,
    sizes=COMPONENTS,
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
    max_work=1e9,
    sizes=(25, 75),
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
    max_work=1.5e8,
    sizes=(25,),
    rounds=(Round(10**9, 2, 20, 3),),
    splits=(0,),
    max_splits=0,
    structure_cells=3e5,
    max_copies=1,
    max_rounds=1,
    refit_work=2.0**28,
)
EFFORTS = {"fast": FAST, "default": DEFAULT, "accurate": ACCURATE}


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"search": "greedy", "smoothing": "uniform", "patience": 100},
    "fast": {"search": "greedy", "smoothing": "uniform", "patience": 30, "max_seconds": 2.0},
    "accurate": {
        "search": "race",
        "smoothing": "hierarchical",
        "vtree": "auto",
        "patience": 500,
        "max_seconds": 240.0,
        "sampled_rows": "auto",
    },
}
PRESET_OPTIONS = ("search", "smoothing", "vtree", "patience", "max_seconds")


def with_preset(preset: str, **given: Any) -> tuple[SearchOptions, int | Literal["auto"] | None]:
    """Options of a search, and how many rows to sample; "auto" and None: what the preset says."""
    check_choice("preset", preset, tuple(PRESETS))
    options = dict(PRESETS[preset])
    sampled_rows = options.pop("sampled_rows", None)
    for name, value in given.items():
        is_left_open = value is None or (value == "auto" and name != "vtree")
        if not is_left_open:
            options[name] = value
    if options.get("max_seconds") == math.inf:
        options["max_seconds"] = None
    search = named_options("search", options["search"], SEARCHES)
    if search.sampled_rows is not None:
        sampled_rows = search.sampled_rows
    return SearchOptions(**options | {"search": search}), sampled_rows or None
