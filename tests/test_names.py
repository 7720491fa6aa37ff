import pytest

from strudel._names import did_you_mean, find_name, names_of, quote


def test_variables_without_names_are_numbered():
    assert names_of(2, None) == ("x0", "x1")


def test_a_name_that_is_no_variable_is_refused_with_the_one_that_was_meant():
    with pytest.raises(ValueError, match=r"The event names 'smokr'.*Did you mean 'smoker'\?"):
        find_name("smokr", {"smoker": 0, "cough": 1}, "The event")


def test_a_beginning_is_enough():
    assert did_you_mean("prob", ["marginal", "probability"]) == "Did you mean 'probability'?"


def test_names_that_are_close_come_first_and_in_any_case():
    assert did_you_mean("AGE", ["wage", "age", "smoker"]) == "Did you mean 'age', 'wage'?"


def test_where_none_is_close_the_first_are_listed():
    names = [f"x{var}" for var in range(9)]
    assert did_you_mean("smoker", names) == "Choose from 'x0', 'x1', 'x2', 'x3', 'x4' and 4 more."


def test_a_value_that_is_no_text_can_be_close():
    assert did_you_mean(11.0, ["1.0", "2.0"]) == "Did you mean '1.0'?"


def test_many_names_are_counted():
    assert quote(["a", "b", "c"], at_most=2) == "'a', 'b' and 1 more"
