"""Answers about columns of numbers, unusual rows, and groups: how each is found and shown.

In:  a `Question`.
Out: `find_*` gives one dict per row of evidence, ready for JSON; `show_*` prints one as a table.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from strudel._names import did_you_mean
from strudel.cli.answers.question import Answer, Line, Question, show_lines
from strudel.cli.console import InputError, note, say, show_facts, show_table

QUARTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")


# One column of numbers


def find_posteriors(question: Question) -> list[Answer]:
    """The mean, the standard deviation and quantiles of columns of numbers and dates."""
    from strudel.queries.columns.column_posterior import posterior

    model, wanted = _model_and_columns(question, "posterior")
    answers = []
    for row in range(len(question.rows)):
        known = question.known_of(row)
        found = {name: posterior(model, name, known) for name in wanted}
        answers.append(
            {
                name: {
                    "mean": _plain(own.mean),
                    "deviation": own.variance**0.5,
                    "quantiles": {str(q): _plain(own.quantile(q)) for q in (0.05, 0.5, 0.95)},
                }
                for name, own in found.items()
            }
        )
    return [{"columns": answer} for answer in answers]


def _model_and_columns(question: Question, what: str) -> tuple[Any, list[str]]:
    """The model in columns, and those in question: all of numbers or dates by default."""
    if question.code is None:
        raise InputError(
            f"{what} is about columns of numbers, but the model has only 0 and 1: marginal gives "
            "their probabilities."
        )
    numeric = [column.name for column in question.code.columns if column.is_numeric]
    wanted = question.asked_columns or numeric
    if not wanted:
        raise InputError(f"{what} is about columns of numbers, but the table has none.")
    for name in wanted:
        if name not in numeric:
            raise InputError(
                f"{what} is about columns of numbers, but {name!r} has none: marginal gives the "
                f"probabilities of its values. {did_you_mean(name, numeric)}"
            )
    return question.model.with_table_code(question.code), wanted


def _plain(value: Any) -> Any:
    """A number, or a date or duration as text; to the second, unless it is short."""
    from strudel.tables.columns import as_duration, duration_text

    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, int | float):
        return value
    if isinstance(value, datetime.timedelta):
        duration = as_duration(value)
        is_long = abs(duration) >= 60e6
        return duration_text(round(duration / 1e6) * 1e6 if is_long else duration)
    return str(value).partition(".")[0].removesuffix(" 00:00:00")


def show_posteriors(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per column."""
    lines: list[Line] = []
    for name, own in answer["columns"].items():
        days = " days" if isinstance(own["mean"], str) else ""
        quantiles = map(_short, own["quantiles"].values())
        lines.append((name, _short(own["mean"]), _short(own["deviation"]) + days, *quantiles))
    columns = ("column", "mean", "deviation", "5 %", "median", "95 %")
    show_lines(columns, lines, n_lines, lambda line: 0.0)


def _short(value: Any) -> str:
    """A number with about five digits; a date without its time of day; a duration as it is."""
    if isinstance(value, str):
        return value.partition(" ")[0] if re.match(r"\d{4}-\d\d-\d\d", value) else value
    digits = 0 if abs(value) >= 1e5 else 4 if abs(value) < 1.0 else 2
    return f"{value:,.{digits}f}" if 1e-3 <= abs(value) < 1e9 or value == 0 else f"{value:.4g}"


def find_of_column(what: str) -> Callable[[Question], list[Answer]]:
    """How to find an expectation, variance, quantile, cdf or pdf of columns."""

    def find(question: Question) -> list[Answer]:
        from strudel.queries.columns import column_posterior

        ask = getattr(column_posterior, what)
        model, wanted = _model_and_columns(question, what)
        at = question.at or list(QUARTILES if what == "quantile" else ())
        if what in ("cdf", "pdf") and (question.asked_columns is None or len(wanted) > 1):
            raise InputError(f"{what} is about one column: name it, as in --variables {wanted[0]}.")
        answers = []
        for row in range(len(question.rows)):
            known = question.known_of(row)
            columns = {}
            for name in wanted:
                if not at:
                    columns[name] = _plain(ask(model, name, known))
                else:
                    found = [ask(model, name, _place(what, x), known) for x in at]
                    columns[name] = dict(zip(at, map(_plain, found), strict=True))
            answers.append({"columns": columns})
        return answers

    return find


def _place(what: str, text: str) -> Any:
    """Where to ask: a share of a quantile, else a value as it was typed."""
    if what != "quantile":
        return text
    share = math.nan
    with contextlib.suppress(ValueError):
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0.0 < share < 1.0:
        raise InputError(f"--at of quantile must be between 0 and 1, as in 0.05,0.5, not {text!r}.")
    return share


def show_of_column(what: str) -> Callable[[Question, Answer, float], None]:
    """How to show them: a line per column, or per place of it."""

    def show(question: Question, answer: Answer, n_lines: float) -> None:
        lines: list[Line] = []
        for name, found in answer["columns"].items():
            if isinstance(found, dict):
                lines += [(name, at, _short(value)) for at, value in found.items()]
            else:
                lines.append((name, _short(found)))
        words = {"expectation": "mean", "cdf": "probability of this or less", "pdf": "density"}
        columns: tuple[str, ...] = ("column", "at", words.get(what, what))
        columns = columns if lines and len(lines[0]) == 3 else (columns[0], columns[2])
        show_lines(columns, lines, n_lines, lambda line: 0.0)

    return show


# Correlations


def find_correlations(question: Question) -> list[Answer]:
    """Pearson's correlation of every two columns that have an order, the strongest first."""
    from strudel.queries.columns.correlations import correlations

    model = question.model.with_table_code(question.code)
    answers = []
    for row in range(len(question.rows)):
        found = correlations(model, question.known_of(row))
        wanted = question.asked_columns or list(found.names)
        for name in wanted:
            if name not in found.names:
                raise InputError(
                    f"{name!r} has more than two values without an order, so it has no "
                    "correlation: pairs gives its mutual information with all others."
                )
        place = [found.names.index(name) for name in wanted]
        first, second = (np.array(place)[side] for side in np.triu_indices(len(place), k=1))
        order = np.argsort(-np.abs(found.values[first, second]), kind="stable")  # NaN comes last
        pairs = [
            {"a": found.names[i], "b": found.names[j], "correlation": float(found.values[i, j])}
            for i, j in zip(first[order], second[order], strict=True)
        ]
        answers.append({"pairs": pairs})
    return answers


def show_correlations(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per pair."""
    lines: list[Line] = [
        (one["a"], one["b"], None if math.isnan(one["correlation"]) else one["correlation"])
        for one in answer["pairs"]
    ]
    show_lines(("a", "b", "correlation"), lines, n_lines, lambda line: -abs(line[2] or 0.0))


# Unusual rows


def find_surprise(question: Question) -> list[Answer]:
    """How unusual every row of a table is, and because of which column; the oddest first."""
    from strudel.queries.columns.surprise import surprise

    found = surprise(question.before.with_table_code(question.code), question.table)
    values = _values_by_row(question)
    rows = []
    for row in np.argsort(found.percentile, kind="stable").tolist():
        because = found.because[row]
        shares = dict(zip(found.names, found.column_percentile[row].tolist(), strict=True))
        rows.append(
            {
                "row": row,
                "percentile": float(found.percentile[row]),
                "log_probability": float(found.log_probability[row]),
                "because": because,
                "value": None if because is None else values[because][row],
                "percentile_of_column": None if because is None else shares[because],
                "columns": shares,
            }
        )
    return [{"rows": rows}]


def _values_by_row(question: Question) -> dict[str, list[Any]]:
    """The cells of every column of the table that is looked at; durations as text."""
    from strudel.cli.table_columns import cells_of
    from strudel.tables.columns import duration_text

    cells: list[list[Any]]
    if question.code is None:
        rows = np.asarray(question.table, dtype=np.float64)
        cells = [[None if np.isnan(x) else int(x) for x in column] for column in rows.T]
    else:
        cells = [cells_of(column) for column in question.table.columns]
        for column, own in zip(question.table.columns, cells, strict=True):
            if column.dtype == "duration":
                own[:] = [None if cell is None else duration_text(cell) for cell in own]
    names = question.names if question.code is None else question.code.names
    return dict(zip(names, cells, strict=True))


def show_surprise(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per row, the oddest first."""
    say("Percentile: of the rows that the model draws, how many are less probable.")
    say("Rows are counted from 0.")
    say()
    lines: list[Line] = [
        (
            one["row"],
            _percent(one["percentile"]),
            one["because"],
            None if one["value"] is None else str(_plain(one["value"])),
            _percent(one["percentile_of_column"]),
        )
        for one in answer["rows"]
    ]
    columns = ("row", "percentile", "because of", "which is", "its percentile")
    shown = lines if math.isinf(n_lines) else lines[: int(n_lines)]
    show_table(columns, shown)
    if len(shown) < len(lines):
        note(
            f"note: the {len(shown)} most unusual of {len(lines):,} rows shown; -o FILE, --all or "
            "--json gives all"
        )


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100.0 * share:.1f} %"


def surprise_table(answer: Answer) -> dict[str, list[Any]]:
    """The same as columns of a file, in the order of the rows."""
    rows = sorted(answer["rows"], key=lambda one: one["row"])
    found = {name: [one[name] for one in rows] for name in ("row", "percentile", "because")}
    names = rows[0]["columns"] if rows else ()
    for name in names:
        shares = (one["columns"][name] for one in rows)
        found[f"{name}: percentile"] = [None if math.isnan(share) else share for share in shares]
    return found


# Groups


def find_comparison(question: Question) -> list[Answer]:
    """How two groups differ, as wholes and by column."""
    from strudel.queries.columns.compare_groups import compare

    model = question.before.with_table_code(question.code)
    found = compare(model, *(values for _, values in question.groups))
    columns = []
    for name, own, means in zip(found.names, found.column_divergence, found.means, strict=True):
        shares = {str(value): both for value, both in found.probabilities[name].items()}
        columns.append(
            {
                "column": name,
                "divergence": float(own),
                "means": None if means[0] != means[0] else [_plain(mean) for mean in means],
                "probabilities": shares,
            }
        )
    return [
        {
            "a": question.groups[0][0],
            "b": question.groups[1][0] if len(question.groups) > 1 else None,
            "divergence": found.divergence,
            "standard_error": found.standard_error,
            "columns": columns,
        }
    ]


def show_comparison(question: Question, answer: Answer, n_lines: float) -> None:
    """The divergence, then one line per column, those that differ most first."""
    error = answer["standard_error"]
    share = 100.0 * answer["divergence"] / math.log(2.0)
    facts = {
        "A": answer["a"],
        "B": answer["b"] or "everybody",
        "divergence": f"{answer['divergence']:.4f} nats" + (f" ± {error:.4f}" if error else ""),
        "of the largest possible": f"{share:.1f} %",
    }
    show_facts("", facts)
    say()
    lines: list[Line] = []
    for one in answer["columns"]:
        if one["means"] is not None:
            lines.append((one["column"], "mean", *map(_short, one["means"]), one["divergence"]))
            continue
        # The value whose probability differs most stands for all.
        value, both = max(
            one["probabilities"].items(), key=lambda item: abs(item[1][0] - item[1][1])
        )
        what = "1" if question.code is None else value
        lines.append((one["column"], what, *map(_percent, both), one["divergence"]))
    columns = ("column", "of", "in A", "in B", "divergence")
    show_lines(columns, lines, n_lines, lambda line: -line[-1])
