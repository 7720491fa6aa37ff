"""Events as text: meaning, precedence, and errors with their place."""

import pickle
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formulas import all_rows, event_of_truth, holds, random_truth, seeds, text_of_truth
from strategies import examples
from strudel.errors import EventSyntaxError
from strudel.logic.event_grammar import Words, parse_event
from strudel.logic.events import Event
from strudel.logic.terms import Term, variables
from strudel.tables.column import bit_column

NAMES = ("a", "b", "c", "d")


def words(names):
    """The names of some 0/1 variables, as those that a text may use."""
    return Words(
        names, (), lambda name: Term(bit_column(name)), lambda name: Event("variable", var=name)
    )


def truth_table(event, names=NAMES):
    return event.holds(all_rows(len(names)), names).tolist()


@given(seeds, st.integers(0, 4))
def test_text_means_what_it_says(seed, depth):
    truth = random_truth(4, random.Random(seed), depth)
    expected = [holds(truth, row) for row in all_rows(4)]
    assert truth_table(parse_event(text_of_truth(truth, NAMES))) == expected
    event = event_of_truth(truth, variables(NAMES))
    assert truth_table(parse_event(str(event))) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a | b & c", "a | (b & c)"),
        ("a ^ b & c", "a ^ (b & c)"),
        ("a | b ^ c", "a | (b ^ c)"),
        ("~a & b", "(~a) & b"),
        ("~a == b", "(~a) == b"),
        ("a == b | c", "a == (b | c)"),
        ("a -> b -> c", "a -> (b -> c)"),
        ("a & b -> c | d", "(a & b) -> (c | d)"),
        ("a -> b <-> c -> d", "(a -> b) <-> (c -> d)"),
        ("~a >> b", "(~a) >> b"),
        ("not a and b or c", "((not a) and b) or c"),
        ("a=1 & b=0", "a & ~b"),
        ("a = 0 -> b", "~a -> b"),
        ("at_least(2, [a, b, c])", "at_least(2, a, b, c)"),
        ("less_than([a, b], [c, d])", "~a & c | (a == c) & (~b & d)"),
        ("less_than(1, [a, b])", "a"),
        ("true & a | False", "a"),
    ],
)
def test_precedence(text, same):
    assert truth_table(parse_event(text)) == truth_table(parse_event(same))


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "~", "&", "^", "|", ">>", "==", "(", ")"])))
@example(["a", "&", "b", ">>", "c"])
def test_what_is_read_means_the_same_as_in_python(tokens):
    text = " ".join(tokens)
    try:
        event = parse_event(text)
    except EventSyntaxError:
        return
    x = variables(NAMES)
    in_python = eval(text, {"__builtins__": {}}, {name: x[name] for name in NAMES})
    assert truth_table(event) == truth_table(in_python)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected a variable"),
        ("a &", 3, "the end"),
        ("a b", 2, "an operator"),
        ("(a | b", 6, r"'\(' at 1 is never closed"),
        ("a | b)", 5, r"no '\(' is open"),
        ("at_least(2, [a, b)", 17, r"'\[' at 13 must be closed first"),
        ("a & b >> c", 2, "parentheses around '>>'"),
        ("a >> b >> c", 7, "parentheses"),
        ("a == b != c", 7, "parentheses"),
        ("a & smokr", 4, "Did you mean 'smoker'"),
        ("a & 'zzz'", 4, "'zzz' is not a variable. Choose from 'a', 'b', 'c', 'smoker'"),
        ("foo(a)", 0, "no foo"),
        ("a & 'b", 4, "never closed"),
        ("a & 3", 4, "a number"),
        ("a = 2", 2, "0 or 1"),
        ("a == 2", 2, "0 or 1"),
        ("exactly(a, smoker)", 0, "a number and then events"),
        ("a | at_most(2)", 4, "at least one event"),
        ("less_than(a, 3)", 0, "two numbers"),
        ("[a]", 0, "a list"),
        ("at_least(9999999999999999999, a)", 9, "too large"),
        ("a $ b", 2, "operator"),
    ],
)
def test_errors_say_where_and_why(text, position, message):
    with pytest.raises(EventSyntaxError, match=message) as caught:
        parse_event(text, words(["a", "b", "c", "smoker"]))
    assert caught.value.position == position
    assert f"at character {position + 1}" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).position == position


WORDS = (
    "a b c d ( ) [ ] , = == != & && | || ^ ~ ! >> -> => <-> and or not xor true false at_least "
    "at_most exactly less_than 0 1 2 ' \" ` \\ 'a' - < > . _"
)
PIECES = st.one_of(st.sampled_from(WORDS.split()), st.text(max_size=3))


@examples(400)
@given(st.lists(PIECES, max_size=20), st.sampled_from(["", " "]))
def test_any_text_is_an_event_or_an_error_with_a_place(pieces, between):
    text = between.join(pieces)
    position = 0
    try:
        event = parse_event(text, words(NAMES))
    except EventSyntaxError as error:
        position = error.position
    else:
        assert truth_table(parse_event(str(event))) == truth_table(event)
    assert 0 <= position <= len(text)


@given(st.text(min_size=1, max_size=12))
def test_any_name_can_be_quoted(name):
    event = variables([name])[0]
    assert str(parse_event(str(event), words([name])).var) == name


def test_no_depth_breaks_the_reader():
    n = 3_000
    assert truth_table(parse_event("(" * n + "a" + ")" * n)) == truth_table(parse_event("a"))
    assert truth_table(parse_event("~" * (2 * n) + "a")) == truth_table(parse_event("a"))
    assert truth_table(parse_event("(a ^ " * n + "b" + ")" * n)) == truth_table(parse_event("b"))
    assert truth_table(parse_event(" & ".join(["a"] * n))) == truth_table(parse_event("a"))
    deep = "at_least(1, " * n + "a" + ")" * n
    assert truth_table(parse_event(deep)) == truth_table(parse_event("a"))
    with pytest.raises(EventSyntaxError):
        parse_event("(" * n)
