"""Random events for tests, with their truth told by plain Python."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import strategies as st

from strudel.logic.events import at_least, at_most, exactly, less_than


def need_pysdd():
    """Skip, by name, where PySDD is not installed."""
    pytest.importorskip("pysdd", reason="needs PySDD: pip install 'strudel-pc[logic]'")


def random_truth(n_vars, rng, depth):
    """A random formula as nested tuples: an operator and its operands, or a variable's number."""
    if depth == 0 or rng.random() < 0.15:
        return rng.randrange(n_vars)
    kind = rng.choice(["and", "or", "xor", "iff", "implies", "not", "count", "less"])

    def some(low, high):
        return [random_truth(n_vars, rng, depth - 1) for _ in range(rng.randint(low, high))]

    if kind == "not":
        return kind, some(1, 1)
    if kind == "count":
        return rng.choice(["at_least", "at_most", "exactly"]), rng.randrange(5), some(1, 4)
    if kind == "less":
        a, b = some(1, 3), rng.choice([rng.randrange(9), some(1, 3)])
        return (kind, a, b) if rng.random() < 0.7 else (kind, b, a)
    return kind, some(2, 2)


def holds(truth, row):
    """Whether a row satisfies a formula made by `random_truth`."""
    if isinstance(truth, int):
        return bool(row[truth])
    kind = truth[0]
    if kind == "less":
        numbers = []
        for side in truth[1:]:
            if not isinstance(side, int):
                digits = "".join(str(int(holds(part, row))) for part in side)
                side = int(digits, 2)
            numbers.append(side)
        return numbers[0] < numbers[1]
    below = [holds(part, row) for part in truth[-1]]
    if kind in ("at_least", "at_most", "exactly"):
        n, k = sum(below), truth[1]
        return {"at_least": n >= k, "at_most": n <= k, "exactly": n == k}[kind]
    return {
        "and": all,
        "or": any,
        "not": lambda parts: not parts[0],
        "xor": lambda parts: parts[0] != parts[1],
        "iff": lambda parts: parts[0] == parts[1],
        "implies": lambda parts: parts[1] or not parts[0],
    }[kind](below)


def event_of_truth(truth, x):
    """The same formula as an event, by operators and calls."""
    if isinstance(truth, int):
        return x[truth]
    kind = truth[0]

    def event(part):
        return event_of_truth(part, x)

    if kind == "less":
        a, b = (
            side if isinstance(side, int) else [event(part) for part in side] for side in truth[1:]
        )
        return less_than(a, b)
    below = [event(part) for part in truth[-1]]
    if kind in ("at_least", "at_most", "exactly"):
        return {"at_least": at_least, "at_most": at_most, "exactly": exactly}[kind](truth[1], below)
    return {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "not": lambda a: ~a,
        "xor": lambda a, b: a ^ b,
        "iff": lambda a, b: a == b,
        "implies": lambda a, b: a >> b,
    }[kind](*below)


def text_of_truth(truth, names):
    """The same formula as text, by other operators than `str(event)` writes."""
    if isinstance(truth, int):
        return names[truth]
    kind = truth[0]

    def listed(parts):
        return ", ".join(text_of_truth(part, names) for part in parts)

    if kind == "less":
        sides = [str(side) if isinstance(side, int) else f"[{listed(side)}]" for side in truth[1:]]
        return f"less_than({sides[0]}, {sides[1]})"
    if kind in ("at_least", "at_most", "exactly"):
        return f"{kind}({truth[1]}, {listed(truth[2])})"
    parts = [f"({text_of_truth(part, names)})" for part in truth[-1]]
    words = {"and": "and", "or": "||", "xor": "!=", "iff": "<->", "implies": "=>"}
    return f"not {parts[0]}" if kind == "not" else f"{parts[0]} {words[kind]} {parts[1]}"


def all_rows(n_vars):
    return list(itertools.product((0, 1), repeat=n_vars))


seeds = st.integers(0, 2**32 - 1)
