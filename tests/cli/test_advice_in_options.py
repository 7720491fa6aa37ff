from strudel.cli.advice_in_options import in_options
from strudel.errors import NotBinaryError, UnseenValueError


def test_other_errors_say_what_they_say():
    assert in_options(ValueError("X is empty.")) == "X is empty."


def test_only_a_table_to_learn_from_can_be_encoded():
    problem, advice = "X must hold only 0 and 1.", "Binarise the data first."
    assert in_options(NotBinaryError(problem, advice)) == f"{problem} {advice}"
    assert "strudel fit takes text" in in_options(
        NotBinaryError(problem, advice, can_be_encoded=True)
    )


def test_python_is_not_spoken_to_a_shell():
    error = UnseenValueError("Column 'a' holds 3.", "Take TableEncoder(unknown='missing').")
    assert in_options(error.within("part.0.parquet")).startswith("part.0.parquet: Column 'a' ")
    assert "TableEncoder" not in in_options(error)
