"""The evaluation of expressions: values (None is NULL), and conditions (None is unknown)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rq_dlq.errors import InvalidDuration
from rq_dlq.values.durations import milliseconds

if TYPE_CHECKING:
    from rq_dlq.filters._facts import MessageFacts

    Evaluate: TypeAlias = Callable[[MessageFacts], object]
    Test: TypeAlias = Callable[[Any, Any], bool]

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,300}")
_FLAGS: Final = {"true": True, "false": False}
_TESTS: Final[Mapping[str, Test]] = {
    "=": operator.eq,
    "==": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITY: Final = (operator.eq, operator.ne)
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda one, other: one / other,
}


def number(value: object) -> int | float | None:
    """A number, also from text; None: it is not a number, or does not fit into a double."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return None
        value = int(value) if _WHOLE.fullmatch(value) else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def flag(value: object) -> bool | None:
    """True or False, also from text; None: it is neither."""
    if isinstance(value, str):
        return _FLAGS.get(value.lower())
    return value if isinstance(value, bool) else None


def seconds(value: object) -> object:
    """A value compared with an age: text is read as a duration, and is None if it is not one."""
    if not isinstance(value, str):
        return value
    try:
        return milliseconds(value, name="a duration") / 1000
    except InvalidDuration:
        return None


def as_seconds(term: Evaluate) -> Evaluate:
    """The same term, with its text read as a duration."""
    return lambda facts: seconds(term(facts))


def _compared(test: Test, left: object, right: object) -> bool | None:
    """Compare two values as a common type; unknown if one is NULL or of another type."""
    one: Any = left
    other: Any = right
    if not (isinstance(left, str) and isinstance(right, str)):
        logical = isinstance(left, bool) or isinstance(right, bool)
        if logical and test not in _EQUALITY:
            return None
        read = flag if logical else number
        one, other = read(left), read(right)
    return None if one is None or other is None else test(one, other)


def _decided(verdicts: Iterable[bool | None], *, by: bool) -> bool | None:
    """The result of AND, which one False decides, or of OR, which one True decides."""
    outcome: bool | None = not by
    for verdict in verdicts:
        if verdict is by:
            return by
        if verdict is None:
            outcome = None
    return outcome


def joined(terms: Sequence[Evaluate], *, by: bool) -> Evaluate:
    """Conditions under AND (decided by False) or OR (decided by True)."""
    return lambda facts: _decided((flag(term(facts)) for term in terms), by=by)


def negation(term: Evaluate) -> Evaluate:
    """NOT: unknown stays unknown."""

    def evaluate(facts: MessageFacts) -> bool | None:
        verdict = flag(term(facts))
        return None if verdict is None else not verdict

    return evaluate


def comparison(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """The test for a comparison sign."""
    test = _TESTS[sign]
    return lambda facts: _compared(test, left(facts), right(facts))


def between(term: Evaluate, low: Evaluate, high: Evaluate) -> Evaluate:
    """BETWEEN; both ends are included."""

    def evaluate(facts: MessageFacts) -> bool | None:
        value = term(facts)  # once: evaluated twice, nested terms would double the work at each level
        above = _compared(operator.ge, value, low(facts))
        return _decided((above, _compared(operator.le, value, high(facts))), by=False)

    return evaluate


def membership(term: Evaluate, choices: Sequence[object]) -> Evaluate:
    """IN: equal to one of the choices."""
    texts = frozenset(choice for choice in choices if isinstance(choice, str))
    others = [choice for choice in choices if not isinstance(choice, str)]

    def evaluate(facts: MessageFacts) -> bool | None:
        value = term(facts)
        if isinstance(value, str):  # the common case: thousands of ids take one lookup
            return value in texts or _decided(
                (_compared(operator.eq, value, other) for other in others), by=True
            )
        return _decided((_compared(operator.eq, value, choice) for choice in choices), by=True)

    return evaluate


def is_null(term: Evaluate) -> Evaluate:
    """IS NULL: the only test that is never unknown."""
    return lambda facts: term(facts) is None


def arithmetic(first: Evaluate, rest: Sequence[tuple[str, Evaluate]]) -> Evaluate:
    """A chain of + and -, or of * and /, from the left."""
    steps = [(_ARITHMETIC[sign], term) for sign, term in rest]

    def evaluate(facts: MessageFacts) -> int | float | None:
        result = number(first(facts))
        for act, term in steps:
            value = number(term(facts))
            if result is None or value is None:
                return None
            try:
                result = number(act(result, value))
            except ArithmeticError:  # a division by zero, or too large for a double
                return None
        return result

    return evaluate


def like(term: Evaluate, pattern: str, escape: str | None) -> Evaluate:
    """LIKE, for text only.

    Raises:
        ValueError: the pattern ends with the escape character.
    """
    matches = _matcher(pattern, escape)

    def evaluate(facts: MessageFacts) -> bool | None:
        value = term(facts)
        return matches(value) if isinstance(value, str) else None

    return evaluate


def _matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Find each piece at its first match after the previous one. It never backtracks, so it stays fast."""
    pieces = _pieces(pattern, escape)
    first, *middle = [re.compile("".join(piece), re.DOTALL) for piece in pieces]
    if not middle:
        return lambda text: first.fullmatch(text) is not None
    last, width = middle.pop(), len(pieces[-1])

    def matches(text: str) -> bool:
        found = first.match(text)
        for piece in middle:
            found = found and piece.search(text, found.end())
        start = len(text) - width
        return found is not None and found.end() <= start and last.match(text, start) is not None

    return matches


def _pieces(pattern: str, escape: str | None) -> list[list[str]]:
    """The parts between the percent signs; a regular expression for each character."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise ValueError("nothing follows the escape")
            pieces[-1].append(re.escape(literal))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
    return pieces
