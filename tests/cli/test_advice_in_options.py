from strudel.cli.console import in_options
from strudel.errors import UnseenValueError


def test_other_errors_say_what_they_say():
    assert in_options(ValueError("X is empty.")) == "X is empty."


def test_python_is_not_spoken_to_a_shell():
    error = UnseenValueError("Column 'a' holds 3.", "Take TableEncoder(unknown='missing').")
    assert in_options(error.within("part.0.parquet")).startswith("part.0.parquet: Column 'a' ")
    assert "TableEncoder" not in in_options(error)
