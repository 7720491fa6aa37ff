"""`strudel query`: exact answers from a model, as tables for people or JSON for machines.

In:  a question, and what is given, for one row or for every row of a table.
Out: one answer per row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.answers import of_columns as columns
from strudel.cli.answers import of_variables as answers
from strudel.cli.answers.question import Question
from strudel.cli.column_words import column_variables
from strudel.cli.console import InputError, JsonOption, note, print_json, say, warnings_as_notes
from strudel.cli.evidence import (
    GivenOption,
    read_condition,
    read_event,
    read_given,
    read_looked_at,
    read_variables,
    read_what,
)
from strudel.cli.model_files import ForceOption, ModelArgument, read_model
from strudel.cli.outputs import check_table_output, write_table
from strudel.cli.shell_completion import complete_from

if TYPE_CHECKING:
    from strudel.queries.model import Model

SHOWN_LINES = 20  # of one answer
SHOWN_ROWS = 5  # answers


class What(StrEnum):
    """The questions."""

    MARGINAL = "marginal"
    MAP = "map"
    MMAP = "mmap"
    EVIDENCE = "evidence"
    CONDITIONAL = "conditional"
    PROBABILITY = "probability"
    POSTERIOR = "posterior"
    EXPECTATION = "expectation"
    VARIANCE = "variance"
    QUANTILE = "quantile"
    CDF = "cdf"
    PDF = "pdf"
    CORRELATIONS = "correlations"
    PAIRS = "pairs"
    INFORMATION = "information"
    ENTROPY = "entropy"
    COUNT = "count"
    SURPRISE = "surprise"
    COMPARE = "compare"
    RESPONSIBILITIES = "responsibilities"


SAME = {  # other words for them, as functions are called
    "mean": "expectation",
    "marginal_map": "mmap",
    "marginal-map": "mmap",
    "most_probable_state": "map",
    "mutual_information": "information",
    "comparison": "compare",
}
OF_A_COLUMN = (What.EXPECTATION, What.VARIANCE, What.QUANTILE, What.CDF, What.PDF)
ANSWERS: dict[What, tuple[Any, Any]] = {  # how to find each answer, and how to show it
    What.MARGINAL: (answers.find_marginals, answers.show_marginals),
    What.MAP: (answers.find_states, answers.show_states),
    What.MMAP: (answers.find_marginal_map, answers.show_marginal_map),
    What.EVIDENCE: (answers.find_evidence, answers.show_probability),
    What.CONDITIONAL: (answers.find_conditional, answers.show_probability),
    What.PROBABILITY: (answers.find_probability, answers.show_probability),
    What.POSTERIOR: (columns.find_posteriors, columns.show_posteriors),
    **{what: (columns.find_of_column(what), columns.show_of_column(what)) for what in OF_A_COLUMN},
    What.CORRELATIONS: (columns.find_correlations, columns.show_correlations),
    What.PAIRS: (answers.find_pairs, answers.show_pairs),
    What.INFORMATION: (answers.find_information, answers.show_nats),
    What.ENTROPY: (answers.find_entropy, answers.show_nats),
    What.COUNT: (answers.find_counts, answers.show_counts),
    What.SURPRISE: (columns.find_surprise, columns.show_surprise),
    What.COMPARE: (columns.find_comparison, columns.show_comparison),
    What.RESPONSIBILITIES: (answers.find_responsibilities, answers.show_responsibilities),
}
TEXTS = {  # what a question takes behind it, and at most how many
    What.PROBABILITY: ("an EVENT, as in 'smoker = yes & age > 60'", 1),
    What.SURPRISE: ("a TABLE of rows to look at", 1),
    What.COMPARE: ("one or two groups, as in sex=f sex=m", 2),
}
OWNERS = {  # which questions an option belongs to
    "-k": (What.MAP, What.MMAP),
    "--variables": (
        What.MARGINAL,
        What.MMAP,
        What.COUNT,
        What.PAIRS,
        What.POSTERIOR,
        *OF_A_COLUMN,
        What.CORRELATIONS,
    ),
    "--at": (What.QUANTILE, What.CDF, What.PDF),
    "--of": (What.CONDITIONAL,),
    "--a": (What.INFORMATION,),
    "--b": (What.INFORMATION,),
    "--beyond": (What.INFORMATION,),
    "--max-seconds": (What.MAP, What.MMAP),
    "--output": (What.SURPRISE,),
    "--given": tuple(what for what in What if what not in (What.SURPRISE, What.COMPARE)),
}
NEEDS = {
    What.MMAP: ("--variables",),
    What.CONDITIONAL: ("--of",),
    What.INFORMATION: ("--a", "--b"),
    What.CDF: ("--variables", "--at"),
    What.PDF: ("--variables", "--at"),
}


def query(
    model: ModelArgument,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="One of the questions above.",
            autocompletion=complete_from(What),
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
    given: GivenOption = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="map, mmap: how many states.")] = None,
    variables: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y", help="Of these variables or columns; mmap, cdf and pdf need it."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="V,W", help="quantile: at these shares; cdf, pdf: at these values."),
    ] = None,
    of: Annotated[
        str | None, typer.Option(metavar="X=1,Y=0", help="conditional: the values in question.")
    ] = None,
    a: Annotated[str | None, typer.Option(metavar="X,Y", help="information: one set.")] = None,
    b: Annotated[str | None, typer.Option(metavar="X,Y", help="information: the other.")] = None,
    beyond: Annotated[
        str | None,
        typer.Option(metavar="X,Y", help="information: beyond what these columns say."),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, help="map, mmap: stop after this many seconds, with bounds."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help=f"Show this many lines; {SHOWN_LINES} by default.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show all lines and rows.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="surprise: write all rows as a csv, tsv or parquet file."
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a question exactly.

    \b
    marginal          the probability of each value of a column; of 1, where columns are 0 and 1
    map               the most probable values of all columns that are not given
    mmap              the most probable values of --variables, the rest summed out; with -k 5 the
                      five most probable profiles
    evidence          the probability of what is given
    conditional       the probability of --of
    probability       how probable an EVENT is, as in "a & ~(b | c)" or "at_least(2, a, b, c)",
                      or in a .cnf, .dnf, .nnf or .sdd file
    posterior         mean, deviation and quantiles of the columns of numbers, or of --variables
    expectation, variance, quantile, cdf, pdf
                      one of them, of --variables; the last three --at some places
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
        raise InputError(f"say WHAT to ask: {', '.join(What)}. --help says what each means.")
    asked = {
        "-k": k,
        "--variables": variables,
        "--at": at,
        "--of": of,
        "--a": a,
        "--b": b,
        "--beyond": beyond,
        "--max-seconds": max_seconds,
        "--output": output,
        "--given": given,
    }
    kind = read_what(SAME.get(what, what), What)
    _check_options(kind, asked, texts or [])
    if beyond is not None and given is not None:
        raise InputError("--beyond averages over all values, so it does not go with --given.")
    if output is not None:
        check_table_output(output, "the rows", {str(model), *(texts or ())})
    held = read_model(model, force)
    find, show = ANSWERS[kind]
    # A search that had to stop says how far it came.
    with warnings_as_notes():
        question = _question(held, kind, asked, texts or [])
        found = [{"given": question.given(row)} | facts for row, facts in enumerate(find(question))]
    if output is not None:
        write_table(output, columns.surprise_table(found[0]))
    if as_json:
        print_json({"query": kind.value, "model": model, "given": given, "answers": found})
        return
    n_shown = len(found) if show_all else min(len(found), SHOWN_ROWS)
    for row in range(n_shown):
        if row > 0:
            say()
        if len(found) > 1:
            say(f"Row {row}")
        show(question, found[row], math.inf if show_all else top or SHOWN_LINES)
    if n_shown < len(found):
        note(f"note: {n_shown} of {len(found):,} rows shown; --all or --json gives all")


def _question(held: Model, what: What, asked: Mapping[str, Any], texts: list[str]) -> Question:
    """What was typed, checked against the model."""
    names = {
        option: read_variables(held, asked[option], option)
        for option in ("--variables", "--a", "--b", "--beyond")
    }
    code = held.table_code
    sets = {
        option: own if own is None or code is None else column_variables(code, own)
        for option, own in names.items()
    }
    known = read_given(held, asked["--given"])
    at = asked["--at"]
    groups = texts if what is What.COMPARE else []
    return Question(
        model=known.model.with_table_code(None),
        before=known.before.with_table_code(None),
        kept=known.kept,
        code=known.model.table_code,
        rows=known.rows,
        log_parts=known.log_probability,
        words=known.words,
        has_evidence=asked["--given"] is not None,
        k=asked["-k"] or 1,
        max_seconds=asked["--max-seconds"],
        event=read_event(held, texts[0]) if what is What.PROBABILITY else None,
        of=None if asked["--of"] is None else read_condition(held, asked["--of"], "--of"),
        variables=sets["--variables"],
        asked_columns=names["--variables"],
        a=sets["--a"],
        b=sets["--b"],
        a_columns=names["--a"],
        b_columns=names["--b"],
        beyond=names["--beyond"],
        at=None if at is None else [place.strip() for place in at.split(",") if place.strip()],
        groups=[(text, read_condition(held, text, "AB"[i])) for i, text in enumerate(groups)],
        table=read_looked_at(held, texts[0]) if what is What.SURPRISE else None,
    )


def _check_options(what: What, asked: Mapping[str, Any], texts: list[str]) -> None:
    """Refuse options that would be ignored, and questions that lack one."""
    for option, value in asked.items():
        if value is None or what in OWNERS[option]:
            continue
        if option == "--given":
            raise InputError(f"{what} takes no --given, only {TEXTS[what][0]}.")
        raise InputError(f"{option} goes with {', '.join(OWNERS[option])}, not with {what}.")
    words, at_most = TEXTS.get(what, ("", 0))
    if len(texts) > at_most:
        rest = f"only {words}" if at_most else "nothing more"
        raise InputError(f"{what} takes {rest}, but got {texts[at_most]!r} as well.")
    if at_most and not texts:
        raise InputError(f"{what} needs {words}. See strudel query --help.")
    missing = [option for option in NEEDS.get(what, ()) if asked[option] is None]
    if missing:
        raise InputError(f"{what} needs {' and '.join(missing)}. See strudel query --help.")
