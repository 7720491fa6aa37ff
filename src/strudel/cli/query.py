"""`strudel query`: exact answers from a model, as tables for people or JSON for machines.

In:  a question, and what is given, for one row or for every row of a table.
Out: one answer per row: facts and lines, the same on the screen and in JSON.

A question is a function of a model; what it takes besides is what the command takes as options.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import typer

from strudel import queries
from strudel.cli import files
from strudel.cli.console import (
    InputError,
    JsonOption,
    note,
    option,
    print_json,
    say,
    tell,
    warnings_as_notes,
)

SHOWN_LINES = 20  # of one answer
SHOWN_ROWS = 5  # answers
SHOWN_VALUES = 8  # of a state in a line

Line: TypeAlias = dict[str, Any]
Names: TypeAlias = Sequence[str] | None  # of columns; all by default
Seconds: TypeAlias = float | None


class Answer(NamedTuple):
    """Facts, and lists of lines under the same headers."""

    report: Line
    by: Callable[[Line], float] | None = None  # which lines come first, if the first list is long
    more: Line | None = None  # for JSON


def marginal_probabilities(model: Any, given: Any = None, variables: Names = None) -> Answer:
    """The probability of each value of a column; of 1, where columns are 0 and 1."""
    now, before = _chances(model, given), _chances(model, None)
    lines: list[Line] = []
    for name in variables or now:
        for value, p in now[name].items():
            if value == "0" and files.columns_of(model).are_bits:
                continue
            line: Line = {"column": name, "value": value, "probability": p}
            if given is not None:
                line["without_evidence"] = old = before[name].get(value, math.nan)
                line["change"] = p - old
            lines.append(line)
    by = "probability" if given is None else "change"
    # What is known comes last.
    return Answer(
        {"probabilities": lines},
        lambda line: -abs(line[by]) * (0.0 < line["probability"] < 1.0),
    )


def most_probable_state(
    model: Any, given: Any = None, k: int = 1, max_seconds: Seconds = None
) -> Answer:
    """The most probable values of all columns that are not given."""
    states, log_p = queries.most_probable_state(model, given, k, max_seconds=max_seconds)
    rows = files.rows_of(states, files.columns_of(model).names)
    both = zip(rows, np.atleast_1d(log_p).tolist(), strict=True)  # there may be fewer than k
    return _states(model, given, [pair for pair in both if pair[1] > -math.inf])


def marginal_map(
    model: Any, given: Any = None, *, variables: Names, k: int = 1, max_seconds: Seconds = None
) -> Answer:
    """The most probable values of --variables, the rest summed out.

    With -k 5 the five most probable profiles.
    """
    best = queries.marginal_map(model, variables, given, k, max_seconds=max_seconds)
    every = best if isinstance(best, list) else [best]
    bounds: Line = {"proven_to_be_the_best": every[0].is_optimal}
    if not every[0].is_optimal:
        bounds["no_state_is_above"] = every[0].upper_bound
    return _states(model, given, [(one.state, one.log_probability) for one in every], bounds)


def _chances(model: Any, given: Any) -> dict[str, dict[str, float]]:
    """The probability of every value of every column, by how it is written."""
    chances, columns = queries.marginal_probabilities(model, given), files.columns_of(model)
    if columns.are_bits:
        ones = zip(columns.names, chances.tolist(), strict=True)
        return {name: {"0": 1.0 - p, "1": p} for name, p in ones}
    return {name: {_word(v): p for v, p in of_one.items()} for name, of_one in chances.items()}


def _word(value: Any) -> str:
    """A value of a column as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(files.as_plain(value))


def _states(
    model: Any, given: Any, best: list[tuple[Line, float]], bounds: Line | None = None
) -> Answer:
    """The values of the best state, the least expected first, and in what others differ from it."""
    chances, states = _chances(model, given), [state for state, _ in best]
    log_given = float(queries.log_marginal(model, given, density=False)[0])
    if not files.columns_of(model).are_bits:  # of a number, its cell
        cells = [_chances(model, state) for state in states]
        states = [{name: max(of[name], key=of[name].get) for name in states[0]} for of in cells]  # type: ignore[arg-type]
    facts = [
        {"log_probability": log_p, "probability_given_evidence": math.exp(log_p - log_given)}
        for _, log_p in best
    ]
    values = [
        {"column": name, "value": value, "probability_of_value_alone": chances[name][str(value)]}
        for name, value in states[0].items()
    ]
    differ = [name for name in states[0] if any(one[name] != states[0][name] for one in states)]
    lines = [
        {"state": place + 1} | fact | {name: state[name] for name in differ[:SHOWN_VALUES]}
        for place, (state, fact) in enumerate(zip(states, facts, strict=True))
    ]
    return Answer(
        {**facts[0], **(bounds or {}), "values": values, "differences": lines if differ else []},
        lambda line: line["probability_of_value_alone"],
        {"states": [{"state": state} | fact for state, fact in zip(states, facts, strict=True)]},
    )


def log_marginal(model: Any, given: Any = None) -> Answer:
    """The probability of what is given."""
    return _probability(queries.log_marginal(model, given, density=False)[0])


def probability(model: Any, given: Any = None, *, text: str) -> Answer:
    """How probable an EVENT is, as in "a & ~(b | c)" or "at_least(2, a, b, c)".

    It may also be a .cnf, .dnf, .nnf or .sdd file.
    """
    event = files.read_text(text)
    return _probability(queries.probability(model, event, given, log=True))


def _probability(log_p: Any) -> Answer:
    return Answer({"probability": math.exp(log_p), "log_probability": float(log_p)})


def entropy(model: Any, given: Any = None) -> Answer:
    """How uncertain all variables are together."""
    return _nats(queries.entropy(model, given))


def mutual_information(
    model: Any, given: Any = None, *, a: Names, b: Names, beyond: Names = None
) -> Answer:
    """The mutual information of --a and --b."""
    return _nats(queries.mutual_information(model, a, b, given, beyond=beyond))


def _nats(value: Any) -> Answer:
    return Answer({"nats": float(value), "bits": float(value) / math.log(2.0)})


def posterior(
    model: Any, given: Any = None, variables: Names = None, at: str = "5%,50%,95%"
) -> Answer:
    """Mean, deviation and quantiles of columns of numbers; quantiles --at some shares."""
    shares = {text: _share(text) for text in at.split(",")}
    numeric = [column.name for column in files.columns_of(model) if column.is_numeric]
    if not numeric:
        raise InputError("posterior is about columns of numbers, but the model has none.")
    lines = []
    for name in variables or numeric:
        of_column = queries.posterior(model, name, given)
        line = {"column": name, "mean": files.as_plain(of_column.mean)}
        line["deviation"] = of_column.variance**0.5
        quantiles = {text: files.as_plain(of_column.quantile(q)) for text, q in shares.items()}
        lines.append(line | quantiles)
    return Answer({"columns": lines})


def _share(text: str) -> float:
    share = math.nan
    with suppress(ValueError):
        share = float(text.strip().removesuffix("%")) / (100.0 if "%" in text else 1.0)
    if not 0.0 < share < 1.0:
        raise InputError(f"--at must be between 0 and 1, as in 0.05,0.5, not {text!r}.")
    return share


def correlations(model: Any, given: Any = None, variables: Names = None) -> Answer:
    """How strongly numbers rise and fall together."""
    of_pairs = queries.correlations(model, given)
    for name in set(variables or ()) - set(of_pairs.names):
        raise InputError(
            f"{name!r} has more than two values without an order, so it has no correlation: pairs "
            "gives its mutual information with all others."
        )
    return _pairs(of_pairs.names, variables, {"correlation": of_pairs.values})


def pairs(model: Any, given: Any = None, variables: Names = None) -> Answer:
    """Which columns go together, by their mutual information."""
    from strudel.queries.column_pairs import column_pairs

    of_pairs = column_pairs(model, given)
    measures = {"mutual_information": of_pairs.information}
    measures["share_of_the_smaller_entropy"] = of_pairs.share
    return _pairs(of_pairs.names, variables, measures)


def _pairs(names: Sequence[str], asked: Sequence[str] | None, measures: Line) -> Answer:
    """Every two columns in question, the strongest by the first measure first; NaN comes last."""
    place = np.array([names.index(name) for name in asked or names])
    first, second = (place[side] for side in np.triu_indices(len(place), k=1))
    order = np.argsort(-np.abs(next(iter(measures.values()))[first, second]), kind="stable")
    lines = [
        {"a": names[i], "b": names[j]} | {name: float(m[i, j]) for name, m in measures.items()}
        for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)
    ]
    return Answer({"pairs": lines})


def count_distribution(model: Any, given: Any = None, variables: Names = None) -> Answer:
    """How many of --variables, or of all, are 1."""
    p = queries.count_distribution(model, variables, given)
    at_least = np.cumsum(p[::-1])[::-1]
    lines = [
        {"ones": j, "probability": float(p[j]), "this_many_or_more": float(at_least[j])}
        for j in range(len(p))
    ]
    mean = float(p @ np.arange(len(p)))
    return Answer({"mean": mean, "counts": lines}, lambda line: -line["probability"])


def surprise(model: Any, given: Any = None, *, text: str, output: Path | None = None) -> Answer:
    """How unusual the rows of a TABLE are, and because of which column."""
    table = files.read_rows(text)
    with warnings_as_notes(text):
        unusual = queries.surprise(model, table, given)
    frame = unusual.to_frame()
    if not files.has_names(table):
        table.columns = unusual.names
    cells, shares = files.cells_of(table), files.cells_of(frame)
    lines = []
    for row in np.argsort(unusual.percentile, kind="stable").tolist():
        line = {"row": row, "percentile": shares["percentile"][row]}
        line["because_of"] = because = unusual.because[row]
        line["which_is"] = because and files.as_plain(cells[because][row])
        line["its_percentile"] = because and shares[f"{because}: percentile"][row]
        lines.append(line)
    if output is not None:
        frame.insert(0, "row", range(len(frame)))
        files.write_rows(output, frame)
    said = "of the rows that the model draws, how many are less probable"
    return Answer({"percentile": said, "rows": lines})


def compare(model: Any, *, text: str, other: str | None = None) -> Answer:
    """How the groups A and B differ, over all other columns."""
    groups = queries.compare(model, text, other)
    lines = []
    for name, divergence, means in zip(
        groups.names, groups.column_divergence.tolist(), groups.means, strict=True
    ):
        if means[0] == means[0]:
            of, (a, b) = "mean", map(files.as_plain, means)
        else:  # the value whose probability differs most stands for all; the last of two
            chances = groups.probabilities[name]
            values = [*chances][-1:] if len(chances) == 2 else [*chances]
            value = max(values, key=lambda value: abs(chances[value][0] - chances[value][1]))
            of, (a, b) = _word(value), chances[value]
        lines.append({"column": name, "of": of, "in_A": a, "in_B": b, "divergence": divergence})
    report = {
        "A": text,
        "B": other or "everybody",
        "divergence": groups.divergence,
        "standard_error": groups.standard_error,
        "share_of_the_largest_possible": groups.divergence / math.log(2.0),
    }
    return Answer({**report, "columns": lines})


def responsibilities(model: Any, given: Any = None) -> Answer:
    """How probable each component of a mixture is."""
    before = queries.responsibilities(model, {})[0].tolist()
    now = before if given is None else queries.responsibilities(model, given)[0].tolist()
    lines = [{"component": c, "probability": p} for c, p in enumerate(now)]
    if given is not None:
        lines = [line | {"without_evidence": p} for line, p in zip(lines, before, strict=True)]
    return Answer({"components": lines}, lambda line: -line["probability"])


QUESTIONS: dict[str, Callable[..., Answer]] = {
    "marginal": marginal_probabilities,
    "map": most_probable_state,
    "mmap": marginal_map,
    "evidence": log_marginal,
    "probability": probability,
    "posterior": posterior,
    "correlations": correlations,
    "pairs": pairs,
    "information": mutual_information,
    "entropy": entropy,
    "count": count_distribution,
    "surprise": surprise,
    "compare": compare,
    "responsibilities": responsibilities,
}
NEEDS = {
    "probability": "an EVENT, as in 'smoker = yes & age > 60'",
    "surprise": "a TABLE of rows to look at",
    "compare": "one or two groups, as in sex=f sex=m",
}
SAME = {"mean": "posterior", "expectation": "posterior", "quantile": "posterior"}
SAME |= {function.__name__: name for name, function in QUESTIONS.items()}


def query(
    typed: typer.Context,
    model: files.ModelArgument,
    what: str | None = typer.Argument(
        None,
        metavar="WHAT",
        help="One of the questions above.",
        autocompletion=lambda: list(QUESTIONS),
    ),
    text: str | None = typer.Argument(
        None,
        metavar="TEXT",
        help="probability: an EVENT, such as 'x1 & ~x2'. surprise: a TABLE. compare: what is known "
        "of the group A, such as sex=f.",
    ),
    other: str | None = typer.Argument(
        None, metavar="OTHER", help="compare: the group B, such as sex=m; everybody by default."
    ),
    given: str | None = files.GIVEN,
    k: int | None = option("map, mmap: how many states.", None, "-k", min=1),
    variables: str | None = option("Of these columns; mmap needs it.", "X,Y"),
    at: str | None = option("posterior: quantiles at these shares, as in 5%,50%.", "V,W"),
    a: str | None = option("information: one set.", "X,Y"),
    b: str | None = option("information: the other.", "X,Y"),
    beyond: str | None = option("information: beyond what these columns say.", "X,Y"),
    max_seconds: Seconds = option("map, mmap: stop after so many seconds.", min=0.0),
    top: int | None = option(f"Show this many lines; {SHOWN_LINES} by default.", min=1),
    show_all: bool = option("Show all lines and rows.", None, "--all", default=False),
    output: Path | None = option("surprise: write all rows to a table.", None, *files.OUTPUT),
    as_json: JsonOption = False,
) -> None:
    """Answer a question exactly.

    \b
    QUESTIONS

    All answers are given --given; a table asks once for each of its rows. Long answers start with
    what is most probable, most changed or least expected.
    """  # noqa: D301
    if what is None:
        raise InputError(f"say WHAT to ask: {', '.join(QUESTIONS)}. --help says what each means.")
    what = files.read_meant(SAME.get(what, what), QUESTIONS)
    options = _checked(what, typed.params)
    files.check_output(output, "a table", files.TABLES, model, text)
    held = files.read_model(model)
    for name in ("variables", "a", "b", "beyond"):
        if name in options:
            options[name] = files.read_names(held, options[name], files.flag(name))
    with warnings_as_notes(given or ""):  # such as that of a search that had to stop
        rows = files.read_given(held, options.pop("given", None))
        known: list[Line] = [{} if row is None else {"given": row} for row in rows]
        answers = [QUESTIONS[what](held, **options, **row) for row in known]
    if as_json:
        told = [
            {"given": row} | answer.report | (answer.more or {})
            for row, answer in zip(rows, answers, strict=True)
        ]
        print_json({"query": what, "model": model, "given": given, "answers": told})
        return
    n_shown = len(answers) if show_all else min(len(answers), SHOWN_ROWS)
    for row, answer in enumerate(answers[:n_shown]):
        if len(answers) > 1:
            say(f"{chr(10) if row else ''}Row {row}")
        _show(answer, math.inf if show_all else top or SHOWN_LINES)
    if n_shown < len(answers):
        note(f"note: {n_shown} of {len(answers):,} rows shown; --all or --json gives all")


_LIST = [f"{name:<18}{' '.join((one.__doc__ or '').split())}" for name, one in QUESTIONS.items()]
_LIST = [fill(line, 78, subsequent_indent=22 * " ") for line in _LIST]
query.__doc__ = (query.__doc__ or "").replace("QUESTIONS", "\n    ".join(_LIST))


def _checked(what: str, typed: Line) -> Line:
    """The options of a question, unless one is not its own, or it lacks one."""
    takes = {name: [*signature(one).parameters][1:] for name, one in QUESTIONS.items()}
    options: Line = files.options_of(what, takes, typed)
    parameters = [*signature(QUESTIONS[what]).parameters.values()][1:]
    missing = {one.name for one in parameters if one.default is one.empty} - options.keys()
    if missing:
        needs = NEEDS.get(what) or " and ".join(map(files.flag, sorted(missing)))
        raise InputError(f"{what} needs {needs}. See strudel query --help.")
    return options


def _show(answer: Answer, n_lines: float) -> None:
    """Facts, then lists; of a long one the first lines."""
    report, notes, by = dict(answer.report), [], answer.by
    for name, lines in answer.report.items():
        if isinstance(lines, list) and len(lines) > n_lines:
            report[name] = (sorted(lines, key=by) if by else lines)[: int(n_lines)]
            notes.append(f"{n_lines} of {len(lines):,} lines shown; --all or --json gives all")
        by = None if isinstance(lines, list) else by  # of the first list
    tell(report, False)
    for line in notes:
        note(f"note: {line}")
