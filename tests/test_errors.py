import copy
import pickle

import pandas as pd
import pytest

from strudel import Strudel
from strudel.errors import (
    EventSyntaxError,
    ManyCategoriesWarning,
    NotBinaryError,
    UnseenValueError,
)
from strudel.logic.event_grammar import parse_event
from strudel.tables import TableEncoder


def test_text_in_a_table_of_bits_names_its_cell():
    model = Strudel(n_components=1, max_splits=0).fit(pd.DataFrame({"age": [1, 0], "sex": [0, 1]}))
    with pytest.raises(NotBinaryError, match="must hold only 0") as caught:
        model.score(pd.DataFrame({"age": [1, 0], "sex": [0, "f"]}))
    assert (caught.value.row, caught.value.column) == (1, "sex")


def test_an_unseen_value_names_its_cell():
    encoder = TableEncoder(unknown="error").fit(pd.DataFrame({"sex": ["f", "m"]}))
    with pytest.raises(UnseenValueError) as caught:
        encoder.transform(pd.DataFrame({"sex": ["f", "w"]}))
    error = caught.value
    assert (error.row, error.column, error.value) == (1, "sex", "w")
    assert str(error) == f"{error.problem} {error.advice}"


def test_too_many_categories_name_the_column():
    table = pd.DataFrame({"name": [f"{row}.5" for row in range(40)]})
    with pytest.warns(ManyCategoriesWarning) as caught:
        TableEncoder().fit(table)
    assert caught[0].message.column == "name"
    assert caught[0].filename == __file__


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_of_an_error_has_its_facts(again):
    with pytest.raises(EventSyntaxError) as caught:
        parse_event("a & ")
    error = again(caught.value)
    assert str(error) == str(caught.value)
    assert error.__dict__ == caught.value.__dict__


def test_the_place_of_an_error_stands_before_its_problem():
    error = UnseenValueError("It holds 3.", "Put it right.", column="a")
    placed = error.within("In block 2", "Or drop it.")
    assert str(placed) == "In block 2: It holds 3. Put it right. Or drop it."
    assert placed.column == "a"
    assert str(error) == "It holds 3. Put it right."
