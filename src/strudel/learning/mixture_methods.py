"""How to train a mixture: one small object for each method.

In:  options by name.
Out: `EM`, `BaggedEM`, `Boosting`, `Continuous` or `Auto`; and `MixtureOptions`, one frozen
     object that travels through the learner.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from strudel.data.argument_checks import check_choice, check_count, check_size
from strudel.learning.options import Options

InitParams = Literal["kmeans", "k-means++", "random"]
MixtureSmoothing = Literal["uniform", "single"]


@dataclass(kw_only=True)
class Method(Options):
    """A way to train a mixture."""

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
        for name in ("n_init", "max_iter", "patience"):
            check_count(name, getattr(self, name))
        check_size("tol", self.tol)


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
        check_count("max_rounds", self.max_rounds)
        check_choice("init_params", self.init_params, get_args(InitParams))


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
        check_choice("init_params", self.init_params, get_args(InitParams))


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
    dropout : float, default=0.0
        Share of the hidden units that every step leaves out.
    learning_rate : float, default=1e-3
        The largest step size of AdamW.
    """

    n_runs: int = 1
    max_iter: int = 3000
    patience: int = 750
    batch_size: int = 256
    n_points: int = 512
    latent_dim: int = 16
    width: int = 256
    depth: int = 2
    dropout: float = 0.0
    learning_rate: float = 1e-3

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        for field in fields(self):
            if field.type == "int":
                check_count(field.name, getattr(self, field.name))
        for name in ("dropout", "learning_rate"):
            check_size(name, getattr(self, name))
        if self.dropout >= 1.0:
            raise ValueError(f"dropout must be less than 1, but is {self.dropout!r}.")


@dataclass(kw_only=True)
class Auto(Method):
    """EM, bagged EM and continuous mixtures together; validation rows weigh them.

    For a given number of components and for a partitioned table it is `EM`. For a table that is
    small or encoded, in less than 15 seconds, and without PyTorch, up to three mixtures by EM are
    averaged: on the structure of the search, of independent columns, and of the circuit of the
    search itself, tilted.

    Parameters
    ----------
    continuous : Continuous, optional
        How networks learn, and how many; by default at most twelve, and fewer or shorter ones where
        the structure is large.
    """

    continuous: Continuous | None = None

    def check(self) -> None:
        """Refuse values that no option of this kind may have."""
        if self.continuous is not None and not isinstance(self.continuous, Continuous):
            raise ValueError(
                f"continuous must be None or a Continuous object, but is {self.continuous!r}."
            )
        if self.continuous is not None:
            self.continuous.check()


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
    columns : sequence of ColumnCode, optional
        Groups of variables that count alike when k-means compares rows, however many variables
        they have. By default every variable counts alike.
    is_tilted : bool
        Whether components are the single circuit, in which values of columns count more or less,
        instead of having parameters of their own. They are always drawn to that circuit.
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
    columns: Any = None
    is_tilted: bool = False

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
