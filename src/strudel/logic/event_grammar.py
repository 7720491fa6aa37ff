"""The grammar of events as text, such as ``"a & ~(b | c)"``.

In:  a string, and the names it may use.
Out: an `Event`, or `EventSyntaxError` with the place.

    statement   a statement joined by operators, from the tightest:
                ~ !  not; >> (as in Python); & && and; ^ xor; | || or; == != ; -> => ; <-> <=>
                commas between statements mean and, and bind least tightly of all
    atom        a name; true; false; ( statement ); a call; a comparison
    comparison  a column, or a 0/1 variable, with = == != < <= > >= and a value, or in {a, b}; also
                30 <= age < 40. A value is a word, a number, a date such as 2020-01-31, or anything
                in quotes
    call        at_least(2, a, b, c), at_most(...), exactly(...), also at_least(2, [a, b, c]);
                less_than([a, b], [c, d]), less_than([a, b], 3)
    name        letters, digits, _ and . after a letter or _; anything else in '...', "..." or `...`

Operators that Python has keep Python's precedence, so that a string means what the same characters
mean in code. Where that would surprise, ``a & b >> c`` and ``a == b == c``, parentheses are
required; ``->`` and ``<->`` bind least tightly, as in logic.

The reader keeps a stack of its own, so no depth of parentheses breaks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from strudel._names import did_you_mean
from strudel.errors import EventSyntaxError, Explained
from strudel.logic.events import (
    BARE_NAME,
    FALSE_EVENT,
    TRUE_EVENT,
    Event,
    at_least,
    at_most,
    exactly,
    less_than,
    quoted,
)

TOKEN = re.compile(
    r"\s*(?:(?P<name>"
    + BARE_NAME.pattern
    + r")|(?P<date>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"""|(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`)"""
    r"|(?P<symbol><->|<=>|->|=>|>>|>=|<=|==|!=|&&|\|\||[-&|^~!()\[\]{},=<>])|(?P<end>$)|(?P<other>.))",
    re.DOTALL,
)
SAME = {  # other ways to write an operator
    "&&": "&",
    "and": "&",
    "||": "|",
    "or": "|",
    "xor": "^",
    "not": "~",
    "!": "~",
    "=>": "->",
    "<=>": "<->",
}
KIND = {
    ",": "and",
    "&": "and",
    "|": "or",
    "^": "xor",
    "!=": "xor",
    "==": "iff",
    "<->": "iff",
    ">>": "implies",
    "->": "implies",
}
TIGHTNESS = {",": -1, "<->": 0, "->": 1, "==": 2, "!=": 2, "|": 3, "^": 4, "&": 5, ">>": 6, "~": 7}
CONSTANTS = {"true": TRUE_EVENT, "True": TRUE_EVENT, "false": FALSE_EVENT, "False": FALSE_EVENT}
COUNTS: dict[str, Callable[[int, Any], Event]] = {
    "at_least": at_least,
    "at_most": at_most,
    "exactly": exactly,
}
CALLS = (*COUNTS, "less_than")
CLOSE = {"(": ")", "[": "]", "{": "}"}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}  # the same from the other side
COMPARISONS = ("=", "==", "!=", "<", "<=", ">", ">=")
QUOTES = "Text with spaces or signs needs quotes, as in town='Bad Ems'"
WHAT_IS = {
    "0": 0,
    "1": 1,
    "false": 0,
    "true": 1,
}  # values of 0/1 variables whose model is not known
QUOTE_MARKS = ("'", '"', "`")
MAX_DIGITS = 18


class _Token(NamedTuple):
    kind: str  # name, date, number, quoted, symbol, end or other
    text: str
    at: int  # the place of its first character

    @property
    def symbol(self) -> str:
        """The text of a symbol; empty for anything else."""
        return self.text if self.kind == "symbol" else ""


@dataclass
class _Group:
    """What is being read between two brackets, or in the whole text."""

    bracket: str = ""  # ( or [
    call: str = ""  # the function whose brackets these are
    at: int = 0
    arguments: list[Any] = field(default_factory=list)  # closed by commas
    operands: list[tuple[Event, str]] = field(default_factory=list)  # and the operator on top
    operators: list[_Token] = field(default_factory=list)


class Words(NamedTuple):
    """The names that a text may use."""

    variables: Collection[str]  # of columns that are events by themselves: of 0 and 1, of true
    columns: Collection[str]  # of columns that can be compared with a value
    term_of: Callable[[str], Any]  # a variable or column as something with `compare` and `isin`
    event_of: Callable[[str], Event]  # a variable as an event


def parse_event(text: str, words: Words | None = None) -> Event:
    """Read an event.

    Parameters
    ----------
    text : str
        For example ``"a & ~(b | c)"``; the grammar is at the top of this file.
    words : Words, optional
        Other names are refused, and close ones suggested; by default all are variables.

    Raises
    ------
    EventSyntaxError
        A `ValueError` that says where and why.

    Examples
    --------
    >>> parse_event("a & ~(b | 'age > 60')")
    Event("a & ~(b | 'age > 60')")
    >>> parse_event("a & ")
    Traceback (most recent call last):
    strudel.errors.EventSyntaxError: The event cannot be read at character 5, the end: expected ...
    """
    return _Reader(text, words).read()


class _Reader:
    def __init__(self, text: str, words: Words | None) -> None:
        self.text, self.words = text, words
        self.groups = [_Group()]
        self.token = self._next(0)

    def _next(self, start: int) -> _Token:
        found = TOKEN.match(self.text, start)
        assert found is not None
        assert found.lastgroup is not None
        word = found[found.lastgroup]
        token = _Token(found.lastgroup, word, found.start(found.lastgroup))
        if token.kind == "name" and word in SAME:
            return token._replace(kind="symbol", text=SAME[word])
        if token.kind == "symbol":
            return token._replace(text=SAME.get(word, word))
        return token

    def _advance(self) -> _Token:
        """Take the token, and look at the one after it."""
        taken = self.token
        self.token = self._next(TOKEN.match(self.text, taken.at).end())  # type: ignore[union-attr]
        return taken

    def _fail(
        self, message: str, at: int, advice: str = "", cause: ValueError | None = None
    ) -> NoReturn:
        bare = self._name_without_quotes(at)
        if bare is not None:
            message = f"the name {bare!r} needs quotes, since it is not a plain word"
            advice = f"Write {quoted(bare)}."
        near = repr(self.text[at : at + 12]) if at < len(self.text) else "the end"
        reason = f"{near}: {message.rstrip('.')}{'' if message.endswith('?') else '.'}"
        raise EventSyntaxError(
            f"The event cannot be read at character {at + 1}, {reason}",
            advice,
            position=at,
            reason=reason,
            cause=cause,
        )

    def _name_without_quotes(self, at: int) -> str | None:
        """The name that stands around a place where reading failed, if it only lacks quotes."""
        known = {*self.words.variables, *self.words.columns} if self.words is not None else set()
        for name in sorted(known, key=len, reverse=True):
            start = self.text.rfind(name, 0, at + len(name))
            is_around = name and start != -1 and start <= at <= start + len(name)
            if (
                is_around
                and quoted(name) != name
                and self.text[start - 1 : start] not in QUOTE_MARKS
            ):
                return name
        return None

    def read(self) -> Event:
        while True:
            self._operand()
            while not self._operator():  # a closed bracket also ends an operand
                if not self.groups:
                    return self.result

    def _operand(self) -> None:
        """Take an atom, with the brackets and negations before it."""
        while True:
            token, group = self.token, self.groups[-1]
            if token.symbol == "~":
                group.operators.append(self._advance())
            elif token.symbol == "(":
                self.groups.append(_Group("(", at=self._advance().at))
            elif token.symbol == "[":
                if not group.call or group.operators or group.operands:
                    self._fail(f"a list is allowed only inside {', '.join(CALLS)}", token.at)
                self.groups.append(_Group("[", at=self._advance().at))
            elif token.kind in ("number", "date"):
                if not self._starts_with_value():
                    self._number()
                return
            elif token.kind == "name" and token.text in CONSTANTS:
                group.operands.append((CONSTANTS[self._advance().text], ""))
                return
            elif token.kind in ("name", "quoted"):
                if not self._name():
                    return
            else:
                what = "expected a variable, 'true', 'false', '~' or '('"
                if token.kind == "other" and token.text in "'\"`":
                    what = "this quotation mark is never closed"
                self._fail(what, token.at)

    def _number(self) -> None:
        """A number as an argument of a call."""
        token, group = self._advance(), self.groups[-1]
        is_argument = self.token.symbol in (",", ")")
        if not group.call or group.operators or group.operands or not is_argument:
            self._fail(
                "a number is allowed only as in a=1 or at_least(2, a, b, c); a name that starts "
                "with a digit needs quotes",
                token.at,
            )
        if not token.text.isdigit():
            self._fail("this number must be whole", token.at)
        if len(token.text) > MAX_DIGITS:
            self._fail("this number is too large", token.at)
        group.arguments.append(int(token.text))

    def _name(self) -> bool:
        """A variable, perhaps with its value; or the start of a call, not yet an operand."""
        token = self._advance()
        name = token.text
        if token.kind == "quoted":
            name = _unquoted(name)
        elif self.token.symbol == "(":
            if name not in CALLS:
                self._fail(f"there is no {name}(...), only {', '.join(CALLS)}", token.at)
            self._advance()
            self.groups.append(_Group("(", name, token.at))
            return True
        if self._is_comparison(name):
            self.groups[-1].operands.append((self._comparison(name), ""))
            return False
        if self.words is not None and name not in self.words.variables:
            self._fail_unknown(name, token.at)
        event = Event("variable", var=name) if self.words is None else self.words.event_of(name)
        if self.token.symbol == "=":  # nothing is known of the names
            self._advance()
            value = self._advance()
            if value.text.lower() not in WHAT_IS:
                self._fail("a value must be 0 or 1; use == for two events that agree", value.at)
            event = event if WHAT_IS[value.text.lower()] else ~event
        self.groups[-1].operands.append((event, ""))
        return False

    def _fail_unknown(self, name: str, at: int) -> NoReturn:
        assert self.words is not None
        if not self.words.columns:
            known = did_you_mean(name, self.words.variables)
            self._fail(f"{name!r} is not a variable. {known}", at)
        if name in self.words.columns:
            column = self.words.term_of(name).column
            sign = "=" if column.kind == "category" else ">="
            some = f"{quoted(name)} {sign} {column.values[-1]!r}"
            self._fail(f"{name!r} is a column: compare it with a value, as in {some}", at)
        self._fail(f"{name!r} is not a column. {did_you_mean(name, self.words.columns)}", at)

    def _is_comparison(self, name: str) -> bool:
        """Whether a comparison of a column with a value starts here, and not an operator."""
        token = self.token
        if not self._is_known(name):
            return False
        if token.kind == "name":
            return token.text == "in"
        if token.symbol not in COMPARISONS:
            return False
        # `flag == other` says that two variables agree; `flag = 1` and `flag == 1` are values.
        is_variable = self.words is not None and name in self.words.variables
        return not is_variable or token.text not in ("==", "!=") or self._after().kind == "number"

    def _is_known(self, name: str) -> bool:
        """Whether there is a column or a 0/1 variable of this name, as far as that is known."""
        words = self.words
        return words is not None and (name in words.columns or name in words.variables)

    def _after(self) -> _Token:
        """The token after the one that comes next."""
        found = TOKEN.match(self.text, self.token.at)
        assert found is not None
        return self._next(found.end())

    def _starts_with_value(self) -> bool:
        """Take a comparison such as 30 <= age < 40, if that is what starts here."""
        if self.words is None or self._after().text not in TURNED:
            return False
        value, sign, name = self._value(), self._advance(), self._advance()
        column = _unquoted(name.text) if name.kind == "quoted" else name.text
        if not self._is_known(column):
            self._fail_unknown(column, name.at)
        if sign.text == "<=" and self.token.text == "<":
            self._advance()
            event = self._compare(column, sign._replace(text="between"), (value, self._value()))
        else:
            event = self._compare(column, sign._replace(text=TURNED[sign.text]), value)
            if self.token.symbol in TURNED:
                event = event & self._comparison(column)
        self.groups[-1].operands.append((event, ""))
        return True

    def _comparison(self, name: str) -> Event:
        """A column, an operator and a value."""
        sign = self._advance()
        return self._compare(name, sign, self._list() if sign.text == "in" else self._value())

    def _compare(self, name: str, sign: _Token, value: Any) -> Event:
        assert self.words is not None
        term = self.words.term_of(name)
        try:
            if sign.text == "in":
                return term.isin(value)
            if sign.text == "between":
                return term.between(*value)
            return term.compare("==" if sign.text == "=" else sign.text, value)
        except ValueError as error:
            is_cut = self.token.kind in ("name", "number") and isinstance(value, str)
            problem = error.problem if isinstance(error, Explained) else str(error)
            advice = error.advice if isinstance(error, Explained) else ""
            if is_cut:
                advice = f"{advice} {QUOTES}.".lstrip()
            if sign.text == "=" and value in self.words.variables:
                advice = "Write == for two variables that agree."
            self._fail(problem, sign.at, advice, error)

    def _list(self) -> list[Any]:
        """Values in brackets."""
        opening = self._advance()
        if opening.symbol not in CLOSE:
            self._fail("expected values in brackets such as {a, b}", opening.at)
        values = [self._value()]
        while self.token.symbol == ",":
            self._advance()
            values.append(self._value())
        closing = self._advance()
        if closing.symbol != CLOSE[opening.text]:
            self._fail(f"expected a comma or '{CLOSE[opening.text]}'. {QUOTES}", closing.at)
        return values

    def _value(self) -> Any:
        """The value that a column is compared with."""
        token = self._advance()
        if token.symbol == "-" and self.token.kind == "number":
            return _number(f"-{self._advance().text}")
        if token.kind == "quoted":
            return _unquoted(token.text)
        if token.kind in ("name", "date"):
            return token.text
        if token.kind != "number":
            self._fail("expected a value: a word, a number, a date, or text in quotes", token.at)
        return _number(token.text)

    def _operator(self) -> bool:
        """Take what may follow an operand; whether another operand must come next."""
        token, group = self.token, self.groups[-1]
        text = token.symbol
        if text == "," and not group.bracket and self._after().kind == "end":
            self._advance()  # one comma too many
            return False
        if text in KIND and (text != "," or not group.bracket):
            if not group.operands:  # after a number or a list
                self._fail("expected a comma or a closing bracket", token.at)
            self._reduce(group, text)
            group.operators.append(self._advance())
            return True
        if text == "," and (group.call or group.bracket == "["):
            self._close_argument(group)
            self._advance()
            return True
        if token.kind == "end" and not group.bracket:
            self._reduce(group, None)
            self.result = group.operands[0][0]
            self.groups.pop()
            return False
        if group.bracket and text == CLOSE[group.bracket]:
            self._close(group)
            return False
        if group.bracket and token.kind == "end":
            self._fail(f"the '{group.bracket}' at {group.at + 1} is never closed", token.at)
        if group.bracket and text in (")", "]"):
            self._fail(f"the '{group.bracket}' at {group.at + 1} must be closed first", token.at)
        if text in (")", "]"):
            self._fail(f"no '{ {')': '(', ']': '['}[text] }' is open here", token.at)
        self._fail("expected an operator such as & or |", token.at)

    def _close_argument(self, group: _Group) -> None:
        if group.operands:
            self._reduce(group, None)
            group.arguments.append(group.operands.pop()[0])

    def _close(self, group: _Group) -> None:
        """A bracket closes: what it holds becomes an operand, or a list an argument."""
        self._advance()
        self.groups.pop()
        outer = self.groups[-1]
        if group.bracket == "[":
            self._close_argument(group)
            outer.arguments.append(group.arguments)
        elif group.call:
            self._close_argument(group)
            outer.operands.append((self._call(group), ""))
        else:
            self._reduce(group, None)
            outer.operands.append((group.operands[0][0], ""))

    def _call(self, group: _Group) -> Event:
        call, arguments = group.call, group.arguments
        if call == "less_than":
            if len(arguments) != 2 or any(isinstance(item, Event) for item in arguments):
                self._fail(
                    "less_than takes two numbers, each a list of digits or a number, as in "
                    "less_than([a, b], 3)",
                    group.at,
                )
            return less_than(*arguments)
        k, *events = arguments
        if len(events) == 1 and isinstance(events[0], list):
            events = events[0]
        if not isinstance(k, int) or not all(isinstance(item, Event) for item in events):
            self._fail(f"{call} takes a number and then events, as in {call}(2, a, b, c)", group.at)
        if not events:
            self._fail(f"{call} takes at least one event after the number", group.at)
        return COUNTS[call](k, events)

    def _reduce(self, group: _Group, coming: str | None) -> None:
        """Join operands by the operators that bind at least as tightly as the one coming."""
        while group.operators:
            token = group.operators[-1]
            if coming is not None:
                waits = TIGHTNESS[coming] - TIGHTNESS[token.text]
                if waits > 0 or (waits == 0 and coming == "->"):  # -> goes from right to left
                    return
            group.operators.pop()
            right, right_top = group.operands.pop()
            if token.text == "~":
                group.operands.append((~right, "~"))
                continue
            left, left_top = group.operands.pop()
            for top in (left_top, right_top):
                self._check_clear(token, top)
            group.operands.append((Event(KIND[token.text], (left, right)), token.text))

    def _check_clear(self, token: _Token, top: str) -> None:
        """Refuse what Python and people read in different ways."""
        is_arrow = top == ">>" and token.text in ("&", "|", "^", ">>")
        is_chain = top in ("==", "!=") and token.text in ("==", "!=")
        if is_arrow or is_chain:
            self._fail(
                f"put parentheses around {top!r} next to this, as it binds more tightly than it "
                "may seem"
                if is_arrow
                else f"put parentheses around one of these {top!r}",
                token.at,
            )


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() and len(text) <= MAX_DIGITS else float(text)
