"""`strudel query`: exact answers from a model, as tables for people or JSON for machines.

In:  a question, and what is given, for one row or for every row of a table.
Out: one answer per row: facts and lines, the same on the screen and in JSON.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer

from strudel import queries
from strudel._names import did_you_mean
from strudel.cli import files
from strudel.cli.console import (
    InputError,
    JsonOption,
    keyed,
    note,
    option,
    print_json,
    say,
    show_facts,
    show_table,
    warnings_as_notes,
)

SHOWN_LINES = 20  # of one answer
SHOWN_ROWS = 5  # answers
SHOWN_VALUES = 8  # of a state in one line

Line: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Facts, and lines under the same headers."""

    facts: Line
    tables: dict[str, list[Line]] = field(default_factory=dict)
    by: Callable[[Line], float] | None = None  # which lines of a long table come first
    known: Set[str] = frozenset()  # columns that are left out on the screen
    more: Line = field(default_factory=dict)  # for JSON
    frame: Any = None  # for a file


@dataclass(frozen=True, eq=False)
class Asked:
    """What was typed, checked against the model, for one row of what is given."""

    model: Any
    columns: Any  # of the model
    given: Any  # text or values of one row; None for nothing
    texts: list[str]  # behind the question
    options: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """The columns in question, all by default."""
        return self.options["--variables"] or list(self.columns.names)

    def marginals(self, given: Any) -> dict[str, dict[str, float]]:
        """The probability of every value of every column, by how it is written."""
        chances = queries.marginal_probabilities(self.model, given)
        if self.columns.are_bits:
            ones = zip(self.columns.names, chances.tolist(), strict=True)
            return {name: {"0": 1.0 - one, "1": one} for name, one in ones}
        return {
            name: {_word(value): p for value, p in of_column.items()}
            for name, of_column in chances.items()
        }

    def known(self, marginals: Mapping[str, Mapping[str, float]]) -> set[str]:
        """The columns of which the value is given, or follows."""
        is_given = self.given is not None
        return {name for name, chances in marginals.items() if is_given and 1.0 in chances.values()}

    def log_given(self) -> float:
        """The log-probability of what is given; of numbers, that of their cells."""
        return float(queries.log_marginal(self.model, self.given, density=False)[0])


def _word(value: Any) -> str:
    """A value of a column as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(files.as_plain(value))


# Values


def marginal(asked: Asked) -> Answer:
    """How probable each value is, and was before the evidence; of 0/1 variables, that of 1."""
    now, before = asked.marginals(asked.given), asked.marginals(None)
    lines: list[Line] = []
    for name in asked.names:
        for value, p in now[name].items():
            line: Line = {"column": name, "value": value, "probability": p}
            if asked.columns.are_bits:
                line = {"variable": name, "probability of 1": p}
            if asked.given is not None:
                line["without evidence"] = old = before[name].get(value, math.nan)
                line["change"] = p - old
            if value == "1" or not asked.columns.are_bits:
                lines.append(line)
    by = "change" if asked.given is not None else [*lines[0]][-1]
    return Answer({}, {"probabilities": lines}, lambda line: -abs(line[by]), asked.known(now))


def most_probable(asked: Asked) -> Answer:
    """The k most probable completions."""
    k, max_seconds = asked.options["-k"] or 1, asked.options["--max-seconds"]
    states, log_p = queries.most_probable_state(
        asked.model, asked.given, k, max_seconds=max_seconds
    )
    if isinstance(states, np.ndarray):
        states = np.atleast_2d(states)
    cells = files.cells_of(files.as_frame(states, asked.columns.names))
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    logs = np.atleast_1d(log_p).tolist()  # there may be fewer than k
    return _states(asked, [pair for pair in zip(rows, logs, strict=True) if pair[1] > -math.inf])


def marginal_map(asked: Asked) -> Answer:
    """The most probable values of some columns, with bounds; with k, also those that follow."""
    k, max_seconds = asked.options["-k"] or 1, asked.options["--max-seconds"]
    best = queries.marginal_map(asked.model, asked.names, asked.given, k, max_seconds=max_seconds)
    every = best if isinstance(best, list) else [best]
    bounds: Line = {"proven to be the best": every[0].is_optimal}
    if not every[0].is_optimal:
        bounds["no state is above"] = every[0].upper_bound
    return _states(asked, [(state.state, state.log_probability) for state in every], bounds)


def _states(asked: Asked, found: list[tuple[Line, float]], bounds: Line | None = None) -> Answer:
    """The values of the best state, the least expected first, and in what the others differ."""
    log_given, marginals = asked.log_given(), asked.marginals(asked.given)
    states = [state if asked.columns.are_bits else _cells(asked, state) for state, _ in found]
    facts = [
        {"log-probability": log_p, "probability given evidence": math.exp(log_p - log_given)}
        for _, log_p in found
    ]
    alone = "probability of value alone"
    values: list[Line] = [
        {"column": name, "value": value, alone: marginals[name][str(value)]}
        for name, value in states[0].items()
    ]
    others = [
        {"state": i + 1} | facts[i] | {"unlike state 1": _differences(states[i], states[0])}
        for i in range(1, len(states))
    ]
    return Answer(
        facts[0] | (bounds or {}),
        {"values": values} | ({"others": others} if others else {}),
        lambda line: line[alone],
        asked.known(marginals),
        {"states": [{"state": state} | fact for state, fact in zip(states, facts, strict=True)]},
    )


def _cells(asked: Asked, state: Line) -> Line:
    """The values of a state as people say them: of a number, its cell."""
    chances = asked.marginals(state)
    return {name: max(chances[name], key=chances[name].__getitem__) for name in state}


def _differences(state: Line, other: Line) -> str:
    """The values that another state does not have."""
    differ = [
        f"{name} {value}" if str(value)[0] in "<>[" else f"{name}={value}"
        for name, value in state.items()
        if value != other[name]
    ]
    rest = f" and {len(differ) - SHOWN_VALUES} more" if len(differ) > SHOWN_VALUES else ""
    return ", ".join(differ[:SHOWN_VALUES]) + rest


# Single numbers


def evidence(asked: Asked) -> Answer:
    """The probability of what is given."""
    return _probability(asked.log_given())


def event(asked: Asked) -> Answer:
    """The probability of an event."""
    said = files.read_formula(asked.texts[0])
    return _probability(queries.probability(asked.model, said, asked.given, log=True))


def _probability(log_p: Any) -> Answer:
    return Answer({"probability": math.exp(log_p), "log-probability": float(log_p)})


def entropy(asked: Asked) -> Answer:
    """The entropy of all variables."""
    return _nats(queries.entropy(asked.model, asked.given))


def information(asked: Asked) -> Answer:
    """The mutual information of two sets of columns, perhaps beyond others."""
    a, b, beyond = (asked.options[name] for name in ("--a", "--b", "--beyond"))
    return _nats(queries.mutual_information(asked.model, a, b, asked.given, beyond=beyond))


def _nats(value: Any) -> Answer:
    return Answer({"nats": float(value), "bits": float(value) / math.log(2.0)})


# Columns of numbers, counts and pairs


def posterior(asked: Asked) -> Answer:
    """The mean, the standard deviation and quantiles of columns of numbers and dates."""
    shares = {text: _share(text) for text in (asked.options["--at"] or "5%,50%,95%").split(",")}
    numeric = [column.name for column in asked.columns if column.is_numeric]
    lines = []
    for name in asked.options["--variables"] or numeric:
        if name not in numeric:
            raise InputError(
                f"posterior is about columns of numbers, but {name!r} has none: marginal gives the "
                f"probabilities of its values. {did_you_mean(name, numeric) if numeric else ''}"
            )
        of_column = queries.posterior(asked.model, name, asked.given)
        line = {"column": name, "mean": files.as_plain(of_column.mean)}
        line["deviation"] = of_column.variance**0.5
        quantiles = {text: files.as_plain(of_column.quantile(q)) for text, q in shares.items()}
        lines.append(line | quantiles)
    if not lines:
        raise InputError("posterior is about columns of numbers, but the model has none.")
    return Answer({}, {"columns": lines})


def _share(text: str) -> float:
    share = math.nan
    with contextlib.suppress(ValueError):
        share = float(text.strip().removesuffix("%")) / (100.0 if "%" in text else 1.0)
    if not 0.0 < share < 1.0:
        raise InputError(f"--at must be between 0 and 1, as in 0.05,0.5, not {text!r}.")
    return share


def count(asked: Asked) -> Answer:
    """How many of some variables are 1."""
    p = queries.count_distribution(asked.model, asked.options["--variables"], asked.given)
    at_least = np.cumsum(p[::-1])[::-1]
    lines = [
        {"ones": j, "probability": float(p[j]), "this many or more": float(at_least[j])}
        for j in range(len(p))
    ]
    mean = float(p @ np.arange(len(p)))
    return Answer({"mean": mean}, {"counts": lines}, lambda line: -line["probability"])


def pairs(asked: Asked) -> Answer:
    """All pairs of variables by covariance, or of columns by what they tell about each other."""
    from strudel.queries.column_pairs import column_pairs

    names = asked.columns.names
    if not asked.columns.are_bits:
        of_pairs = column_pairs(asked.model, asked.given)
        measures = {"mutual information": of_pairs.information}
        measures["share of the smaller entropy"] = of_pairs.share
        return _pairs(asked, names, measures, "mutual information")
    both = queries.pair_probabilities(asked.model, asked.given)
    covariance = queries.covariance(asked.model, asked.given)
    deviation = np.sqrt(covariance.diagonal())
    with np.errstate(invalid="ignore", divide="ignore"):  # a known variable has none
        correlation = covariance / np.outer(deviation, deviation)
    measures = {"probability of both": both, "covariance": covariance, "correlation": correlation}
    return _pairs(asked, names, measures, "covariance")


def correlations(asked: Asked) -> Answer:
    """Pearson's correlation of every two columns that have an order."""
    of_pairs = queries.correlations(asked.model, asked.given)
    for name in asked.options["--variables"] or ():
        if name not in of_pairs.names:
            raise InputError(
                f"{name!r} has more than two values without an order, so it has no "
                "correlation: pairs gives its mutual information with all others."
            )
    return _pairs(asked, of_pairs.names, {"correlation": of_pairs.values}, "correlation")


def _pairs(asked: Asked, names: Sequence[str], measures: Line, by: str) -> Answer:
    """Every two columns in question with their measures, the strongest first; NaN comes last."""
    place = np.array([names.index(name) for name in asked.options["--variables"] or names])
    first, second = (place[side] for side in np.triu_indices(len(place), k=1))
    order = np.argsort(-np.abs(measures[by][first, second]), kind="stable")
    lines = [
        {"a": names[i], "b": names[j]} | {name: float(m[i, j]) for name, m in measures.items()}
        for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)
    ]
    return Answer({}, {"pairs": lines})


# Rows, groups and components


def surprise(asked: Asked) -> Answer:
    """How unusual every row of a table is, and because of which column; the oddest first."""
    table = files.read_rows(asked.texts[0])
    with warnings_as_notes(asked.texts[0]):
        unusual = queries.surprise(asked.model, table)
    frame = files.as_frame(unusual.to_frame())
    if not files.has_names(table):
        table.columns = unusual.names
    cells, shares = files.cells_of(table), files.cells_of(frame)
    lines = []
    for row in np.argsort(unusual.percentile, kind="stable").tolist():
        because = unusual.because[row]
        line = {"row": row, "percentile": shares["percentile"][row], "because of": because}
        line["which is"] = None if because is None else files.as_plain(cells[because][row])
        line["its percentile"] = None if because is None else shares[f"{because}: percentile"][row]
        lines.append(line)
    facts = {"percentile": "of the rows that the model draws, how many are less probable"}
    frame.insert(0, "row", range(len(frame)))
    return Answer(facts, {"rows": lines}, frame=frame)


def compare(asked: Asked) -> Answer:
    """How two groups differ, as wholes and by column, those that differ most first."""
    groups = queries.compare(asked.model, *asked.texts)
    lines = []
    for name, divergence, means in zip(
        groups.names, groups.column_divergence.tolist(), groups.means, strict=True
    ):
        # The value whose probability differs most stands for all.
        chances = groups.probabilities[name]
        value = max(chances, key=lambda value: abs(chances[value][0] - chances[value][1]))
        of, both = "1" if asked.columns.are_bits else _word(value), chances[value]
        if means[0] == means[0]:
            of, both = "mean", tuple(map(files.as_plain, means))
        line = {"column": name, "of": of, "in A": both[0], "in B": both[1]}
        lines.append(line | {"divergence": divergence})
    facts = {
        "A": asked.texts[0],
        "B": asked.texts[1] if len(asked.texts) > 1 else "everybody",
        "divergence": groups.divergence,
        "standard error": groups.standard_error,
        "share of the largest possible": groups.divergence / math.log(2.0),
    }
    return Answer(facts, {"columns": lines})


def responsibilities(asked: Asked) -> Answer:
    """How probable each component is to have made a row, and was before the evidence."""
    before = queries.responsibilities(asked.model, {})[0].tolist()
    lines = [{"component": c, "probability": p} for c, p in enumerate(before)]
    if asked.given is not None:
        now = queries.responsibilities(asked.model, asked.given)[0].tolist()
        for line, p in zip(lines, now, strict=True):
            line |= {"probability": p, "without evidence": line["probability"]}
    return Answer({}, {"components": lines}, lambda line: -line["probability"])


# The command


class Question(NamedTuple):
    """How an answer is found, what it takes and needs, and what comes behind it."""

    answer: Callable[[Asked], Answer]
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    text: str = "nothing more"
    most: int = 0  # texts
    has_given: bool = True


MOST = ("-k", "--max-seconds")
EVENT, TABLE = "an EVENT, as in 'smoker = yes & age > 60'", "a TABLE of rows to look at"
GROUPS = "one or two groups, as in sex=f sex=m"
QUESTIONS = {
    "marginal": Question(marginal, ("--variables",)),
    "map": Question(most_probable, MOST),
    "mmap": Question(marginal_map, (*MOST, "--variables"), ("--variables",)),
    "evidence": Question(evidence),
    "probability": Question(event, text=EVENT, most=1),
    "posterior": Question(posterior, ("--variables", "--at")),
    "correlations": Question(correlations, ("--variables",)),
    "pairs": Question(pairs, ("--variables",)),
    "information": Question(information, ("--a", "--b", "--beyond"), ("--a", "--b")),
    "entropy": Question(entropy),
    "count": Question(count, ("--variables",)),
    "surprise": Question(surprise, ("--output",), text=TABLE, most=1, has_given=False),
    "compare": Question(compare, text=GROUPS, most=2, has_given=False),
    "responsibilities": Question(responsibilities),
}
SAME = {  # as functions are called
    "mean": "posterior",
    "expectation": "posterior",
    "quantile": "posterior",
    "log_marginal": "evidence",
    "count_distribution": "count",
    "marginal_probabilities": "marginal",
    "marginal_map": "mmap",
    "most_probable_state": "map",
    "mutual_information": "information",
}


def query(
    model: files.ModelArgument,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="One of the questions above.",
            autocompletion=files.complete_from(QUESTIONS),
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="probability: an EVENT, such as 'x1 & ~x2'. surprise: a TABLE. compare: what is "
            "known of the groups A and B, such as sex=f sex=m; B is everybody by default.",
            show_default=False,
        ),
    ] = None,
    given: files.GivenOption = None,
    k: Annotated[int | None, option("map, mmap: how many states.", None, "-k", min=1)] = None,
    variables: Annotated[str | None, option("Of these columns; mmap needs it.", "X,Y")] = None,
    at: Annotated[
        str | None, option("posterior: quantiles at these shares, as in 5%,50%.", "V,W")
    ] = None,
    a: Annotated[str | None, option("information: one set.", "X,Y")] = None,
    b: Annotated[str | None, option("information: the other.", "X,Y")] = None,
    beyond: Annotated[
        str | None, option("information: beyond what these columns say.", "X,Y")
    ] = None,
    max_seconds: Annotated[
        float | None, option("map, mmap: stop after so many seconds, with bounds.", min=0.0)
    ] = None,
    top: Annotated[
        int | None, option(f"Show this many lines; {SHOWN_LINES} by default.", min=1)
    ] = None,
    show_all: Annotated[bool, option("Show all lines and rows.", None, "--all")] = False,
    output: Annotated[
        Path | None, option("surprise: write all rows to a table.", None, *files.OUTPUT)
    ] = None,
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a question exactly.

    \b
    marginal          the probability of each value of a column; of 1, where columns are 0 and 1
    map               the most probable values of all columns that are not given
    mmap              the most probable values of --variables, the rest summed out; with -k 5 the
                      five most probable profiles
    evidence          the probability of what is given
    probability       how probable an EVENT is, as in "a & ~(b | c)" or "at_least(2, a, b, c)",
                      or in a .cnf, .dnf, .nnf or .sdd file
    posterior         mean, deviation and quantiles of the columns of numbers, or of --variables;
                      quantiles --at some shares
    correlations      how strongly numbers rise and fall together
    pairs             which variables go together, or which columns of a table
    information       the mutual information of --a and --b
    entropy           how uncertain all variables are together
    count             how many of --variables, or of all, are 1
    surprise          how unusual the rows of a TABLE are, and because of which column
    compare           how the groups A and B differ, over all other columns
    responsibilities  how probable each component of a mixture is

    All answers are given --given; a table asks once for each of its rows. Long answers start with
    what is most probable, most changed or least expected.
    """  # noqa: D301
    if what is None:
        raise InputError(f"say WHAT to ask: {', '.join(QUESTIONS)}. --help says what each means.")
    what, texts = files.read_meant(SAME.get(what, what), QUESTIONS), texts or []
    options: dict[str, Any] = {
        "-k": k,
        "--variables": variables,
        "--at": at,
        "--a": a,
        "--b": b,
        "--beyond": beyond,
        "--max-seconds": max_seconds,
        "--output": output,
        "--given": given,
    }
    _check_options(what, options, texts)
    files.check_table_output(output, "the rows", model, *texts)
    held = files.read_model(model, force)
    for name in ("--variables", "--a", "--b", "--beyond"):
        options[name] = files.read_names(held, options[name], name)
    if what == "compare":
        texts = [files.read_said(held, text, "AB"[i]) for i, text in enumerate(texts)]
    with warnings_as_notes(given or ""):  # such as that of a search that had to stop
        rows, columns = files.read_given(held, given), files.columns_of(held)
        answers = [
            QUESTIONS[what].answer(Asked(held, columns, row, texts, options)) for row in rows
        ]
    if output is not None:
        files.write_rows(output, answers[0].frame)
    if as_json:
        told = [keyed(answer.facts | answer.tables | answer.more) for answer in answers]
        report: Line = {"query": what, "model": model, "given": given}
        both = zip(rows, told, strict=True)
        print_json(report | {"answers": [{"given": row} | answer for row, answer in both]})
        return
    n_shown = len(answers) if show_all else min(len(answers), SHOWN_ROWS)
    for row in range(n_shown):
        if row > 0:
            say()
        if len(answers) > 1:
            say(f"Row {row}")
        _show(answers[row], math.inf if show_all else top or SHOWN_LINES)
    if n_shown < len(answers):
        note(f"note: {n_shown} of {len(answers):,} rows shown; --all or --json gives all")


def _check_options(what: str, options: Line, texts: list[str]) -> None:
    """Refuse options that would be ignored, and questions that lack one."""
    asked = QUESTIONS[what]
    for name, value in options.items():
        if value is None or name in asked.takes or (name == "--given" and asked.has_given):
            continue
        if name == "--given":
            raise InputError(f"{what} takes no --given, only {asked.text}.")
        owners = ", ".join(key for key, one in QUESTIONS.items() if name in one.takes)
        raise InputError(f"{name} goes with {owners}, not with {what}.")
    if options["--beyond"] is not None and options["--given"] is not None:
        raise InputError("--beyond averages over all values, so it does not go with --given.")
    if len(texts) > asked.most:
        only = f"only {asked.text}" if asked.most else asked.text
        raise InputError(f"{what} takes {only}, but got {texts[asked.most]!r} as well.")
    missing = [name for name in asked.needs if options[name] is None]
    if missing or (asked.most and not texts):
        needs = " and ".join(missing) or asked.text
        raise InputError(f"{what} needs {needs}. See strudel query --help.")


def _show(answer: Answer, n_lines: float) -> None:
    """Facts, then tables; of a long one the first lines."""
    if answer.facts:
        show_facts("", answer.facts)
    for place, lines in enumerate(answer.tables.values()):
        if answer.facts or place > 0:
            say()
        shown = lines = [line for line in lines if next(iter(line.values())) not in answer.known]
        if len(lines) > n_lines:
            by = answer.by if place == 0 else None
            shown = (sorted(lines, key=by) if by else lines)[: int(n_lines)]
        show_table(shown)
        if len(shown) < len(lines):
            note(f"note: {len(shown)} of {len(lines):,} lines shown; --all or --json gives all")
