"""`strudel demo`: the whole tour on built-in data, offline, in one folder.

In:  scikit-learn's digits, 8 x 8 pixels, black or white.
Out: scores, answers in words, five pictures, a model and its page to click on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import (
    InputError,
    JsonOption,
    bits_per_dimension,
    print_json,
    say,
    show_table,
)
from strudel.cli.fit_report import options_of
from strudel.cli.progress import CircuitProgress

if TYPE_CHECKING:
    from strudel._types import AnyArray
    from strudel.circuits.circuit import Circuit
    from strudel.circuits.mixture import Mixture
    from strudel.data.datasets import Dataset
    from strudel.models.strudel import Strudel

SIDE = 8
HALF = SIDE * SIDE // 2
SHOWN_DIGITS = (0, 29, 11, 28, 9, 27)  # test rows to complete: 0, 2, 3, 4, 6 and 7
N_TREES = 60  # components of the mixture that makes up images
OTHERS = 0.003  # of an image in a component whose cluster it is not in


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the model.")] = Path(
        "strudel-demo"
    ),
    as_json: JsonOption = False,
) -> None:
    """Tour on built-in data: learn, ask, draw.

    Learns from images of digits, answers a few questions exactly, and writes pictures and a model
    into one folder. Needs no network and no data of yours; takes a few seconds, and up to a minute
    the first time, while the inner loops are compiled.
    """
    started = time.perf_counter()
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file; --out names a folder.")
    out.mkdir(parents=True, exist_ok=True)
    tell = _silent if as_json else say

    from strudel.data.datasets import load_dataset

    data = load_dataset("digits")
    tell(
        f"1. Data: {len(data.train):,} images of digits, {data.n_vars} black or white pixels each."
    )
    tell("   Learning a circuit (the first run also compiles, which takes a while) ...")
    model = _learn(data, is_quiet=as_json)
    tree = _fit(data, max_splits=0)
    mixture = _mixture(tree.circuit_, data)
    scores = _scores(model, tree, mixture, data)
    if not as_json:
        _show_scores(model, scores)
    answers = _answers(model.circuit_, data)
    tell("3. Questions, answered exactly from the circuit:")
    for question, answer in answers.items():
        tell(f"   - {question}")
        tell(fill(answer, width=88, initial_indent=" " * 5, subsequent_indent=" " * 5))
    tell("")
    tell("4. Pictures and the model ...")
    files = _draw(model, mixture, data, out)
    files["model"] = _save(model, out / "digits.strudel")
    files["page to click on"] = _explore(model, out / "digits.html")
    seconds = time.perf_counter() - started
    if as_json:
        names = {name: str(path) for name, path in files.items()}
        print_json({"scores": scores, "answers": answers, "files": names, "seconds": seconds})
        return
    for name, path in files.items():
        say(f"   {name:<18}{path}")
    say()
    say(f"Everything is in {out}/ ({seconds:.0f} seconds). Next, try:")
    say(f"   strudel info {files['model']}")
    say(f"   strudel score {files['model']} digits")
    say("   strudel fit digits --mixture auto -o mixture.strudel")
    say("   strudel fit your-table.csv --encode auto")
    say("   strudel explore your-table.strudel")


def _silent(line: str) -> None:
    """Say nothing: JSON is the only output."""


def _learn(data: Dataset, is_quiet: bool) -> Strudel:
    from strudel.models.strudel import Strudel

    model = Strudel(random_state=0)
    with CircuitProgress(options_of(model)["patience"], is_quiet) as progress:
        model.fit(data.train, X_valid=data.valid, callback=progress.update)
    model.circuit_ = model.circuit_.with_names(data.feature_names)
    return model


def _fit(data: Dataset, **options: Any) -> Strudel:
    from strudel.models.strudel import Strudel

    return Strudel(random_state=0, **options).fit(data.train, X_valid=data.valid)


def _mixture(tree: Circuit, data: Dataset) -> Mixture:
    """One component for every cluster of images, all on the circuit of the tree.

    `StrudelMixture` would continue from here by EM. This start has nothing more to compile, and is
    as good on these images: -16.80 both after 20 steps and at once.
    """
    import numpy as np
    from sklearn.cluster import KMeans

    from strudel.circuits.mixture import Mixture
    from strudel.learning.parameters import fit_parameters

    cluster = KMeans(N_TREES, n_init=1, random_state=0).fit_predict(data.train)
    weights = [np.where(cluster == number, 1.0, OTHERS) for number in range(N_TREES)]
    fitted = [fit_parameters(tree, data.train, sample_weight=w, pseudocount=0.01) for w in weights]
    log_theta = np.stack([component.edge_log_theta for component in fitted], axis=1)
    return Mixture(tree, log_theta, np.log(np.bincount(cluster) / len(cluster)))


def _scores(
    model: Strudel, tree: Strudel, mixture: Mixture, data: Dataset
) -> dict[str, dict[str, float]]:
    """The learned circuit against the two it could have stayed at, and the mixture of trees."""
    import numpy as np

    from strudel.queries.likelihood import log_likelihood

    models = {
        "all pixels independent": _fit(data, init="independent", max_splits=0),
        "Chow-Liu tree": tree,
        "Strudel": model,
    }
    found = {
        name: (float(fitted.score(data.test)), fitted.circuit_.n_edges)
        for name, fitted in models.items()
    }
    by_component = [
        log_weight + log_likelihood(mixture.component(number), data.test)
        for number, log_weight in enumerate(mixture.log_weight.tolist())
    ]
    mean = float(np.logaddexp.reduce(by_component).mean())
    found[f"mixture of {N_TREES} trees"] = mean, mixture.n_edges * N_TREES
    return {
        name: {
            "test_log_likelihood": mean,
            "bits_per_dimension": bits_per_dimension(mean, data.n_vars),
            "n_edges": n_edges,
        }
        for name, (mean, n_edges) in found.items()
    }


def _show_scores(model: Strudel, scores: dict[str, dict[str, float]]) -> None:
    history = model.history_
    say(f"   {int(history.n_splits[-1])} splits; the best circuit came after {int(history.best)}.")
    say()
    say("2. How well each model predicts images it has not seen (higher log-likelihood is better):")
    columns = ("model", "test log-likelihood", "bits per pixel", "edges")
    show_table(columns, [(name, *facts.values()) for name, facts in scores.items()])
    say()


def _answers(circuit: Circuit, data: Dataset) -> dict[str, str]:
    """Questions and answers in words."""
    import numpy as np

    from strudel.queries.likelihood import log_likelihood
    from strudel.queries.marginal import log_conditional, log_marginal

    nothing = np.full((1, data.n_vars), np.nan)
    total = float(np.exp(log_marginal(circuit, nothing)[0]))
    centre = {f"row{SIDE // 2}_col{SIDE // 2}": 1}
    top_is_white = {f"row0_col{column}": 0 for column in range(SIDE)}
    before = float(np.exp(log_marginal(circuit, centre)[0]))
    after = float(np.exp(log_conditional(circuit, centre, given=top_is_white)[0]))
    image = data.test[SHOWN_DIGITS[-1]]
    mirrored = image.reshape(SIDE, SIDE)[:, ::-1].ravel()
    real, unreal = log_likelihood(circuit, np.stack([image, mirrored]))
    return {
        f"Do the probabilities of all 2^{data.n_vars} images add up to one?": (
            f"Their sum is {total:.12f}, from one pass over {circuit.n_edges:,} edges that sums "
            f"out every unknown pixel, not from a list of {2**data.n_vars:,} images."
        ),
        "How likely is the centre pixel black?": f"{before:.4f}",
        "How likely is it, given that the whole top row is white?": (
            f"{after:.4f}: the ratio of two such passes, exact, with nothing sampled."
        ),
        "How much more probable is a real 7 than its mirror image?": (
            f"e^{real - unreal:.1f} times: log-likelihoods {real:.2f} and {unreal:.2f}."
        ),
    }


def _draw(model: Strudel, mixture: Mixture, data: Dataset, out: Path) -> dict[str, Path]:
    """All pictures, by what they show."""
    from strudel.plotting.canvas import new_figure, save_figure
    from strudel.plotting.learning_curve import plot_learning_curve
    from strudel.plotting.rows import plot_images
    from strudel.plotting.trees import plot_chow_liu_tree
    from strudel.plotting.vtrees import plot_vtree
    from strudel.trees.chow_liu import learn_chow_liu_tree

    circuit = model.circuit_
    files: dict[str, Path] = {}

    @contextmanager
    def picture(name: str, title: str, width: float, height: float) -> Iterator[Any]:
        figure = new_figure(width, height)
        ax = figure.add_subplot()
        figure.suptitle(title, fontsize=11)
        yield ax
        files[title.split(":")[0].lower()] = save_figure(figure, out / name)

    with picture("learning_curve.png", "Learning curve: digits", 7, 4.2) as ax:
        plot_learning_curve(model.history_, ax=ax)
    with picture("samples.png", "Samples: images the mixture makes up", 7, 3.2) as ax:
        plot_images(_samples(mixture, 40), (SIDE, SIDE), ax=ax)
    title = "Completions: the lower half of unseen digits, from their upper half"
    with picture("completions.png", title, 6.2, 6.4) as ax:
        rows, labels = _completions(circuit, data)
        shape = (SIDE, SIDE)
        plot_images(rows, shape, ax=ax, n_columns=len(labels), column_labels=labels)
    with picture("vtree.png", "Vtree: how the circuit divides the pixels", 11, 5) as ax:
        names = [f"{pixel // SIDE},{pixel % SIDE}" for pixel in range(data.n_vars)]
        plot_vtree(circuit.vtree, names, ax=ax)
    title = "Chow-Liu tree: the strongest links between pixels, root in red"
    with picture("chow_liu_tree.png", title, 5, 5) as ax:
        grid = [(pixel % SIDE, -(pixel // SIDE)) for pixel in range(data.n_vars)]
        plot_chow_liu_tree(learn_chow_liu_tree(data.train), ax=ax, positions=grid)
    return files


def _samples(mixture: Mixture, n_samples: int) -> AnyArray:
    """Draw a component, then an image of it: the components need no kernels of their own."""
    import numpy as np

    from strudel.queries.sampling import sample

    rng = np.random.default_rng(0)
    chosen = rng.choice(mixture.n_components, n_samples, p=mixture.weights)
    return np.stack([sample(mixture.component(int(c)), random_state=rng)[0] for c in chosen])


def _completions(circuit: Circuit, data: Dataset) -> tuple[AnyArray, list[str]]:
    """Per digit: what is seen, the most probable rest, three random ones, and the truth."""
    import numpy as np

    from strudel.queries.maximum.most_probable import most_probable_state
    from strudel.queries.sampling import sample

    n_samples = 3
    truth = data.test[list(SHOWN_DIGITS)].astype(float)
    given = truth.copy()
    given[:, HALF:] = np.nan
    best, _ = most_probable_state(circuit, given)
    drawn = sample(circuit, n_samples, given=given, random_state=np.random.default_rng(0))
    rows = np.concatenate([given[:, None], best[:, None], drawn, truth[:, None]], axis=1)
    labels = ["seen", "most\nprobable", *["sampled"] * n_samples, "truth"]
    return rows.reshape(-1, data.n_vars), labels


def _save(model: Strudel, path: Path) -> Path:
    from strudel.io.model_file import save

    save(model, path, provenance={"source": "digits"})
    return path


def _explore(model: Strudel, path: Path) -> Path:
    centre = f"row{SIDE // 2}_col{SIDE // 2}"
    return model.explore(target=centre, title="Digits, pixel by pixel").save(path)
