"""Answers about 0/1 variables, or the values of columns: how each is found, and how it is shown.

In:  a `Question`.
Out: `find_*` gives one dict per row of evidence, ready for JSON; `show_*` prints one as a table.

Long tables start with what is most probable, what the evidence changed most, or what is least
expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel.cli.answers.question import Answer, Line, Question, show_lines
from strudel.cli.column_words import in_words
from strudel.cli.console import say, show_facts, show_table

if TYPE_CHECKING:
    from strudel._types import FloatArray

SHOWN_VALUES = 8  # of a state in one line


# Marginals


def find_marginals(question: Question) -> list[Answer]:
    """How probable each variable is to be 1, or each value, and was before the evidence."""
    answers = [{"probabilities": found} for found in _marginals(question, question.rows)]
    if question.has_evidence:
        nothing = replace(question, model=question.before)
        (before,) = _marginals(nothing, np.full((1, question.model.n_vars), np.nan))
        answers = [answer | {"without_evidence": before} for answer in answers]
    return answers


def _marginals(question: Question, rows: FloatArray) -> list[dict[str, Any]]:
    """For every row the probability of 1 by variable, or that of each value by column."""
    from strudel.queries.variable_probabilities import marginal_probabilities

    if question.code is None:
        columns = question.columns
        ones = marginal_probabilities(question.model, rows)[:, columns]
        return [question.by_name(columns, row) for row in ones]
    # With the code of its table, a model answers in columns.
    found = marginal_probabilities(question.model.with_table_code(question.code), rows)
    labels = {
        name: question.code.column(name).labels
        for name in question.asked_columns or question.code.names
    }
    return [
        {
            name: dict(zip(own, (p[row] for p in found[name].values()), strict=True))
            for name, own in labels.items()
        }
        for row in range(len(rows))
    ]


def show_marginals(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per variable or value that is not given; with evidence, largest changes first."""
    known = {name for name, said in answer["given"].items() if " or " not in str(said)}
    now = _flat(answer["probabilities"])
    lines: list[Line] = [(*key, p) for key, p in now.items() if key[0] not in known]
    columns: tuple[str, ...] = ("variable", "probability of 1")
    if question.code is not None:
        columns = ("column", "value", "probability")
    if not question.has_evidence:
        show_lines(columns, lines, n_lines, lambda line: -line[-1])
        return
    before = _flat(answer["without_evidence"])
    lines = [(*key, p, before[tuple(key)], p - before[tuple(key)]) for *key, p in lines]
    columns = (*columns, "without evidence", "change")
    show_lines(columns, lines, n_lines, lambda line: -abs(line[-1]))


def _flat(probabilities: Mapping[str, Any]) -> dict[tuple[str, ...], float]:
    """Probabilities by name, or by name and value."""
    flat: dict[tuple[str, ...], float] = {}
    for name, found in probabilities.items():
        if isinstance(found, dict):
            flat |= {(name, label): p for label, p in found.items()}
        else:
            flat[(name,)] = found
    return flat


# Most probable states


def find_states(question: Question) -> list[Answer]:
    """The k most probable completions."""
    from strudel.queries.marginal import log_marginal
    from strudel.queries.maximum.most_probable import most_probable_state

    model, rows, k = question.model, question.rows, question.k
    states, log_p = most_probable_state(model, rows, k, max_seconds=question.max_seconds)
    states, log_p = states.reshape(len(rows), k, -1), log_p.reshape(len(rows), k)
    log_given = log_marginal(model, rows).tolist()
    answers = []
    for row, ones in enumerate(_unknown_ones(question)):
        best = [
            {
                "state": question.state(state),
                "log_probability": value + question.log_parts,
                "probability_given_evidence": math.exp(value - log_given[row]),
            }
            for state, value in zip(states[row], log_p[row].tolist(), strict=True)
            if value > -math.inf  # there may be fewer than k
        ]
        answers.append({"states": best, "marginals": ones})
    return answers


def show_states(question: Question, answer: Answer, n_lines: float) -> None:
    """The best state and its values, the least expected first; then in what the others differ."""
    states = answer["states"]
    if not states:
        return
    best = states[0]["state"]
    show_facts("", _state_facts(states[0]))
    say()
    _show_values(best, answer["marginals"], n_lines)
    _show_others(states)


def _show_others(states: Sequence[Answer]) -> None:
    """In what other states differ from the first."""
    if len(states) > 1:
        best = states[0]["state"]
        say()
        columns = ("state", "log-probability", "probability given evidence", "unlike state 1")
        lines = [
            (i, *_state_facts(state).values(), _differences(state["state"], best))
            for i, state in enumerate(states[1:], 2)
        ]
        show_table(columns, lines)


def _differences(state: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The values that another state does not have."""
    differ = [
        f"{name} {value}" if str(value)[0] in "<>[" else f"{name}={value}"
        for name, value in state.items()
        if value != other[name]
    ]
    rest = f" and {len(differ) - SHOWN_VALUES} more" if len(differ) > SHOWN_VALUES else ""
    return ", ".join(differ[:SHOWN_VALUES]) + rest


def find_marginal_map(question: Question) -> list[Answer]:
    """The most probable values of some variables, with bounds; with k, also those that follow."""
    from strudel.queries.marginal import log_marginal
    from strudel.queries.maximum.marginal_map import marginal_map

    model, rows = question.model, question.rows
    log_given = log_marginal(model, rows).tolist()
    asked, code = question.variables, question.code
    if code is not None and set(question.asked_columns or ()) <= set(code.names):
        model, asked = model.with_table_code(code), question.asked_columns
    answers = []
    for row, ones in enumerate(_unknown_ones(question)):
        found = marginal_map(model, asked, rows[row], question.k, max_seconds=question.max_seconds)
        states = []
        for one in found if isinstance(found, list) else [found]:
            state: dict[Any, Any] = one.state
            if code is not None and model.table_code is not None:
                columns = map(code.column, state)
                state = {
                    column.name: column.labels[column.values.index(value)]
                    for column, value in zip(columns, state.values(), strict=True)
                }
            elif code is not None:
                best = np.full(model.n_vars, np.nan)
                best[[question.names.index(name) for name in state]] = list(state.values())
                state = dict(in_words(code, best))
            states.append(
                one._asdict()
                | {
                    "state": state,
                    "log_probability": one.log_probability + question.log_parts,
                    "upper_bound": one.upper_bound + question.log_parts,
                    "probability_given_evidence": math.exp(one.log_probability - log_given[row]),
                }
            )
        ones = {name: ones[name] for name in states[0]["state"] if name in ones}
        answers.append(states[0] | {"marginals": ones, "states": states})
    return answers


def show_marginal_map(question: Question, answer: Answer, n_lines: float) -> None:
    """The state's probability and whether it is proven to be the best, then its values."""
    facts = _state_facts(answer) | {"proven to be the best": answer["is_optimal"]}
    if not answer["is_optimal"]:
        facts["no state is above"] = answer["upper_bound"]
    show_facts("", facts)
    say()
    _show_values(answer["state"], answer["marginals"], n_lines)
    _show_others(answer["states"])


def _unknown_ones(question: Question) -> list[dict[str, Any]]:
    """For every row the marginals of the variables or columns that are not given."""
    answers = []
    for row, found in enumerate(_marginals(question, question.rows)):
        known = question.given(row)
        answers.append({name: one for name, one in found.items() if name not in known})
    return answers


def _state_facts(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "log-probability": state["log_probability"],
        "probability given evidence": _short(state["probability_given_evidence"]),
    }


def _show_values(state: Mapping[str, Any], ones: dict[str, Any], n_lines: float) -> None:
    """One line per variable or column that is not given."""
    lines: list[Line] = []
    for name, one in ones.items():
        if isinstance(one, dict):
            lines.append((name, state[name], one.get(state[name])))
        else:
            lines.append((name, state[name], one if state[name] else 1.0 - one))
    if lines:
        is_table = isinstance(next(iter(ones.values())), dict)
        columns = ("column" if is_table else "variable", "value", "probability of value alone")
        show_lines(columns, lines, n_lines, lambda line: line[-1])


# Single numbers


def find_evidence(question: Question) -> list[Answer]:
    """The probability of what is given."""
    from strudel.queries.marginal import log_marginal

    return _probabilities(log_marginal(question.model, question.rows) + question.log_parts)


def find_conditional(question: Question) -> list[Answer]:
    """The probability of some values, given others."""
    return _event_probabilities(question, question.of)


def find_probability(question: Question) -> list[Answer]:
    """The probability of an event."""
    found = _event_probabilities(question, question.event)
    return [{"event": str(question.event)} | answer for answer in found]


def _event_probabilities(question: Question, event: Any) -> list[Answer]:
    from strudel.algebra.event_probability import event_log_probabilities
    from strudel.algebra.evidence import columns_in
    from strudel.queries.columns.known_columns import with_values

    model = question.model
    if question.code is not None:
        model = model.with_table_code(question.code)
        known = set(np.flatnonzero((~np.isnan(question.rows)).any(axis=0)).tolist())
        given = (one.name for one in question.code.columns if known & {*range(one.start, one.stop)})
        model = with_values(model, columns_in(model, event).union(given))
    return _probabilities(event_log_probabilities(model, event, question.rows))


def _probabilities(log_p: FloatArray) -> list[Answer]:
    return [{"log_probability": value, "probability": math.exp(value)} for value in log_p.tolist()]


def show_probability(question: Question, answer: Answer, n_lines: float) -> None:
    """The probability and its logarithm."""
    facts = {
        "probability": _short(answer["probability"]),
        "log-probability": answer["log_probability"],
    }
    show_facts("", facts)


def find_entropy(question: Question) -> list[Answer]:
    """The entropy of all variables."""
    from strudel.queries.information import entropy

    return _nats(entropy(question.model, question.rows))


def find_information(question: Question) -> list[Answer]:
    """The mutual information of two sets of variables, or of columns beyond others."""
    from strudel.queries.information import mutual_information

    if question.beyond is not None:
        model = question.model.with_table_code(question.code)
        columns = question.a_columns, question.b_columns
        return _nats(np.array([mutual_information(model, *columns, beyond=question.beyond)]))
    return _nats(mutual_information(question.model, question.a, question.b, question.rows))


def _nats(values: Any) -> list[Answer]:
    return [{"nats": value, "bits": value / math.log(2.0)} for value in values.tolist()]


def show_nats(question: Question, answer: Answer, n_lines: float) -> None:
    """The same number in nats and in bits."""
    show_facts("", {unit: answer[unit] for unit in ("nats", "bits")})


# Counts and pairs


def find_counts(question: Question) -> list[Answer]:
    """How many of some variables are 1."""
    from strudel.queries.counting import count_distribution

    counts = count_distribution(question.model, question.variables, question.rows)
    return [{"probabilities": p, "mean": float(p @ np.arange(len(p)))} for p in counts]


def show_counts(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per number of ones; of many, the most probable."""
    p = answer["probabilities"]
    or_more = np.cumsum(p[::-1])[::-1]
    show_facts("", {"mean": answer["mean"]})
    say()
    lines: list[Line] = [(j, float(p[j]), float(or_more[j])) for j in range(len(p))]
    columns = ("ones", "probability", "this many or more")
    show_lines(columns, lines, n_lines, lambda line: -line[1], is_sorted=True)


def find_pairs(question: Question) -> list[Answer]:
    """All pairs of variables by covariance, or of columns by what they tell about each other."""
    from strudel.queries.column_pairs import column_pairs
    from strudel.queries.variable_probabilities import pair_probabilities

    code = question.code
    answers = []
    for row in question.rows:
        if code is not None:
            known = np.flatnonzero(~np.isnan(row))
            given = question.by_name(known.tolist(), row[known].astype(int))
            found = column_pairs(question.model.with_table_code(code), given)
            asked = [code.names.index(name) for name in question.asked_columns or code.names]
            names: Sequence[str] = code.names
            measures = {"nats": found.information, "share": found.share}
            size = found.information
        else:
            asked, names = question.columns, question.names
            both = pair_probabilities(question.model, row)
            one = both.diagonal()
            covariance = both - np.outer(one, one)
            deviation = np.sqrt(one * (1.0 - one))
            with np.errstate(invalid="ignore", divide="ignore"):  # a known variable has none
                correlation = covariance / np.outer(deviation, deviation)
            measures = {"probability": both, "covariance": covariance, "correlation": correlation}
            size = np.abs(covariance)
        first, second = (np.array(asked)[side] for side in np.triu_indices(len(asked), k=1))
        order = np.argsort(-size[first, second], kind="stable")
        pairs = [
            {"a": names[i], "b": names[j]} | {name: float(m[i, j]) for name, m in measures.items()}
            for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)
        ]
        answers.append({"pairs": pairs})
    return answers


def show_pairs(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per pair."""
    lines: list[Line] = [tuple(pair.values()) for pair in answer["pairs"]]
    columns: tuple[str, ...]
    if question.code is not None:
        columns = ("a", "b", "mutual information", "share of the smaller entropy")
        show_lines(columns, lines, n_lines, lambda line: -line[2])
        return
    columns = ("a", "b", "probability of both", "covariance", "correlation")
    show_lines(columns, lines, n_lines, lambda line: -abs(line[3]))


# Components


def find_responsibilities(question: Question) -> list[Answer]:
    """How probable each component is to have made a row, and was before the evidence."""
    from strudel.circuits.mixture import Mixture
    from strudel.queries.mixture_likelihood import responsibilities

    model, before = question.model, question.before
    weights = before.weights if isinstance(before, Mixture) else np.ones(1)
    shares = np.zeros((len(question.rows), len(weights)))
    kept = slice(None) if question.kept is None else question.kept
    shares[:, kept] = responsibilities(model, question.rows)
    answers: list[Answer] = [{"responsibilities": share.tolist()} for share in shares]
    if question.has_evidence:
        answers = [answer | {"without_evidence": weights.tolist()} for answer in answers]
    return answers


def show_responsibilities(question: Question, answer: Answer, n_lines: float) -> None:
    """One line per component; of many, the most probable, best first."""
    lines: list[Line] = list(enumerate(answer["responsibilities"]))
    columns: tuple[str, ...] = ("component", "probability")
    if question.has_evidence:
        before = answer["without_evidence"]
        lines = [(c, share, before[c]) for c, share in lines]
        columns = (*columns, "without evidence")
    show_lines(columns, lines, n_lines, lambda line: -line[1])


def _short(probability: float) -> str:
    """Four digits, however small."""
    return f"{probability:.4g}"
