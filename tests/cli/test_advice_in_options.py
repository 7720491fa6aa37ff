import pytest

from strudel.cli.advice_in_options import in_options
from strudel.errors import MovedBoundWarning, NotBinaryError, UnseenValueError


def test_other_errors_say_what_they_say():
    assert in_options(ValueError("X is empty.")) == "X is empty."


@pytest.mark.parametrize(
    ("edges", "ask", "expected"),
    [
        (["60", "70"], "", "learn with --edges age=60,70,...."),
        ([], "ask for an interval", "learn with --edges age=... and ask for an interval."),
        (None, "ask for age >= 60", "For an exact answer, ask for age >= 60."),
    ],
)
def test_edges_are_an_option(edges, ask, expected):
    warning = MovedBoundWarning("Moved.", "", column="age", edges=edges, ask=ask)
    assert in_options(warning).endswith(expected)


def test_only_a_table_to_learn_from_can_be_encoded():
    problem, advice = "X must hold only 0 and 1.", "Binarise the data first."
    assert in_options(NotBinaryError(problem, advice)) == f"{problem} {advice}"
    assert "--encode auto" in in_options(NotBinaryError(problem, advice, can_be_encoded=True))


def test_python_is_not_spoken_to_a_shell():
    error = UnseenValueError("Column 'a' holds 3.", "Take TableEncoder(unknown='missing').")
    assert in_options(error.within("part.0.parquet")).startswith("part.0.parquet: Column 'a' ")
    assert "TableEncoder" not in in_options(error)
