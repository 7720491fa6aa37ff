"""`strudel query`: exact answers from a model, as tables for people or JSON for machines.

In:  a question, and what is given, for one row or for every row of a table.
Out: one answer per row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from strudel.cli import query_answers as answers
from strudel.cli.column_words import column_variables
from strudel.cli.console import InputError, JsonOption, note, print_json, say, warnings_as_notes
from strudel.cli.evidence import (
    GivenOption,
    read_asked,
    read_event,
    read_given,
    read_variables,
    read_what,
)
from strudel.cli.model_files import ForceOption, ModelArgument, read_model
from strudel.cli.shell_completion import complete_from

SHOWN_LINES = 20  # of one answer
SHOWN_ROWS = 5  # answers


class What(StrEnum):
    """The questions."""

    MARGINAL = "marginal"
    MAP = "map"
    MMAP = "mmap"
    EVIDENCE = "evidence"
    CONDITIONAL = "conditional"
    ENTROPY = "entropy"
    INFORMATION = "information"
    COUNT = "count"
    PAIRS = "pairs"
    RESPONSIBILITIES = "responsibilities"
    PROBABILITY = "probability"
    POSTERIOR = "posterior"


ANSWERS = {  # how to find each answer, and how to show it
    What.MARGINAL: (answers.find_marginals, answers.show_marginals),
    What.MAP: (answers.find_states, answers.show_states),
    What.MMAP: (answers.find_marginal_map, answers.show_marginal_map),
    What.EVIDENCE: (answers.find_evidence, answers.show_probability),
    What.CONDITIONAL: (answers.find_conditional, answers.show_probability),
    What.ENTROPY: (answers.find_entropy, answers.show_nats),
    What.INFORMATION: (answers.find_information, answers.show_nats),
    What.COUNT: (answers.find_counts, answers.show_counts),
    What.PAIRS: (answers.find_pairs, answers.show_pairs),
    What.RESPONSIBILITIES: (answers.find_responsibilities, answers.show_responsibilities),
    What.PROBABILITY: (answers.find_probability, answers.show_probability),
    What.POSTERIOR: (answers.find_posteriors, answers.show_posteriors),
}
OWNERS = {  # which questions an option belongs to
    "EVENT": (What.PROBABILITY,),
    "-k": (What.MAP,),
    "--variables": (What.MARGINAL, What.MMAP, What.COUNT, What.PAIRS, What.POSTERIOR),
    "--of": (What.CONDITIONAL,),
    "--a": (What.INFORMATION,),
    "--b": (What.INFORMATION,),
    "--max-seconds": (What.MAP, What.MMAP),
}
NEEDS = {
    What.MMAP: ("--variables",),
    What.CONDITIONAL: ("--of",),
    What.INFORMATION: ("--a", "--b"),
    What.PROBABILITY: ("EVENT",),
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
    event: Annotated[
        str | None,
        typer.Argument(metavar="EVENT", help="probability: of this event, such as 'x1 & ~x2'."),
    ] = None,
    given: GivenOption = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="map: how many states.")] = None,
    variables: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y", help="marginal, mmap, count, pairs, posterior: of these variables."
        ),
    ] = None,
    of: Annotated[
        str | None, typer.Option(metavar="X=1,Y=0", help="conditional: the values in question.")
    ] = None,
    a: Annotated[str | None, typer.Option(metavar="X,Y", help="information: one set.")] = None,
    b: Annotated[str | None, typer.Option(metavar="X,Y", help="information: the other.")] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, help="map, mmap: stop after this many seconds, with bounds."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help=f"Show this many lines; {SHOWN_LINES} by default.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show all lines and rows.")] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a question exactly.

    \b
    marginal          the probability of each value of a column; of 1, where columns are 0 and 1
    map               the most probable values of all columns that are not given
    mmap              the most probable values of --variables, the rest summed out
    evidence          the probability of what is given
    conditional       the probability of --of
    entropy           how uncertain all variables are together
    information       the mutual information of --a and --b
    count             how many of --variables, or of all, are 1
    pairs             which variables go together, or which columns of a table
    responsibilities  how probable each component of a mixture is
    probability       how probable an EVENT is, as in "a & ~(b | c)" or "at_least(2, a, b, c)",
                      or in a .cnf, .dnf, .nnf or .sdd file
    posterior         mean, deviation and quantiles of the columns of numbers, or of --variables

    All answers are given --given; a table asks once for each of its rows. Long answers start with
    what is most probable, most changed or least expected.
    """  # noqa: D301
    if what is None:
        raise InputError(f"say WHAT to ask: {', '.join(What)}. --help says what each means.")
    asked = {
        "EVENT": event,
        "-k": k,
        "--variables": variables,
        "--of": of,
        "--a": a,
        "--b": b,
        "--max-seconds": max_seconds,
    }
    question_kind = read_what(what, What)
    _check_options(question_kind, asked)
    held = read_model(model, force)
    find, show = ANSWERS[question_kind]
    # A search that had to stop says how far it came.
    with warnings_as_notes():
        asked_columns = read_variables(held, variables, "--variables")
        sets = [asked_columns, read_variables(held, a, "--a"), read_variables(held, b, "--b")]
        if held.table_code is not None:
            code = held.table_code
            sets = [None if names is None else column_variables(code, names) for names in sets]
        known = read_given(held, given)
        question = answers.Question(
            model=known.model.with_table_code(None),
            before=held.with_table_code(None),
            code=known.model.table_code,
            rows=known.rows,
            log_parts=known.log_probability,
            words=known.words,
            has_evidence=given is not None,
            k=k or 1,
            max_seconds=max_seconds,
            event=None if event is None else read_event(held, event),
            of=None if of is None else read_asked(held, of, "--of"),
            variables=sets[0],
            asked_columns=asked_columns,
            a=sets[1],
            b=sets[2],
        )
        found = [{"given": question.given(row)} | facts for row, facts in enumerate(find(question))]
    if as_json:
        print_json({"query": question_kind.value, "model": model, "given": given, "answers": found})
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


def _check_options(what: What, asked: Mapping[str, Any]) -> None:
    """Refuse options that would be ignored, and questions that lack one."""
    for option, value in asked.items():
        if value is not None and what not in OWNERS[option]:
            raise InputError(f"{option} goes with {', '.join(OWNERS[option])}, not with {what}.")
    missing = [option for option in NEEDS.get(what, ()) if asked[option] is None]
    if missing:
        raise InputError(f"{what} needs {' and '.join(missing)}. See strudel query --help.")
