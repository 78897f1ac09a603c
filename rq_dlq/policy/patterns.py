"""Patterns: queue names with wildcards."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, cast

from rq_dlq.errors import InvalidName, PolicyError
from rq_dlq.values.durations import shown
from rq_dlq.values.names import MAX_BYTES, check_name

ONE: Final = "*"
REST: Final = "#"
WILDCARDS: Final = frozenset({ONE, REST, ">"})

LITERAL, ANY, END, TAIL = range(4)
"""The kind of a word; a lower kind is more specific."""

EXAMPLE: Final = "'orders', 'orders.*' (one more word) or 'orders.#' (any number of words, or none)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Words between dots: `*` matches any one word, `#` or `>` at the end any number of words, or none.

    Make a pattern with `parse`. Two patterns with the same text are equal: `a.>` is `a.#`.

    Attributes:
        text: with `#` for `>`.
        rank: the sort key of patterns that match the same name, the most specific first: word by word from
            the left, a literal before `*`, then the end, then `#`.
    """

    text: str
    rank: tuple[tuple[int, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the rank; the words in it distinguish patterns that match no name in common."""
        kinds = {ONE: (ANY, ""), REST: (TAIL, "")}
        ranks = [kinds.get(word, (LITERAL, word)) for word in self.text.split(".")]
        object.__setattr__(self, "rank", (*ranks, (END, "")))

    @classmethod
    def parse(cls, text: object) -> Pattern:
        """Parse a pattern.

        Raises:
            PolicyError: it is not a pattern; the error says why.
        """
        if not isinstance(text, str) or not text:
            raise PolicyError(f"a pattern is text such as {EXAMPLE}, not {shown(text)}")
        words = text.split(".")
        _check_wildcards(words, text)
        try:
            check_name(".".join("x" if word in WILDCARDS else word for word in words))
        except InvalidName as error:
            raise PolicyError(f"{shown(text)} is not a pattern, since {error}") from None
        return cls(".".join(REST if word == ">" else word for word in words))

    def matches(self, name: str) -> bool:
        """Whether the pattern matches a queue's name."""
        return _fits(self.text.split("."), name.split("."), operator.eq)

    def covers(self, other: Pattern) -> bool:
        """Whether the pattern matches every queue that the other one matches."""
        wanted, words = self.text.split("."), other.text.split(".")
        if words[-1] == REST:
            return wanted[-1] == REST and _fits(wanted, words[:-1], operator.eq)
        return _fits(wanted, words, operator.eq)

    @property
    def literal(self) -> bool:
        """Whether the pattern names a single queue."""
        return WILDCARDS.isdisjoint(self.text.split("."))


class PatternIndex:
    """An index of patterns: it finds those that cover another one without trying each.

    Args:
        patterns: the patterns, in any order.
    """

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._by_words = {tuple(pattern.text.split(".")): pattern for pattern in patterns}
        self._beginnings = {words[:end] for words in self._by_words for end in range(1, len(words) + 1)}

    def covering(self, pattern: Pattern) -> list[Pattern]:
        """The patterns that cover this one, including itself if it is indexed; the most specific first."""
        words = pattern.text.split(".")
        open_ended = words[-1] == REST
        reached: set[tuple[str, ...]] = {()}
        candidates: set[tuple[str, ...]] = {(REST,)}
        for word in words[:-1] if open_ended else words:
            reached = {(*start, step) for start in reached for step in (word, ONE)} & self._beginnings
            candidates |= {(*start, REST) for start in reached}
        if not open_ended:
            candidates |= reached
        found = [self._by_words[words] for words in candidates if words in self._by_words]
        return sorted(found, key=lambda one: one.rank)


def names(value: object, name: str) -> tuple[str, ...]:
    """Check a list of names, whose words between dots are wildcards or regular expressions.

    Args:
        value: a list, or text with spaces between the names.
        name: the argument's name, for the error.

    Raises:
        PolicyError: a name is not valid, or there are no names: an empty list must never mean all.
    """
    given: object = value.split() if isinstance(value, str) else value
    listed = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else []
    if not listed:
        raise PolicyError(f"{name} is {shown(value)}. Pass at least one name, or leave it out for all")
    return tuple(_checked(item, name) for item in listed)


def meant(listed: tuple[str, ...], name: str) -> bool:
    """Whether one of these names, as `names` returned them, matches a queue."""
    words = name.split(".")
    return any(
        _fits(item.split("."), words, lambda one, word: bool(re.fullmatch(one, word))) for item in listed
    )


def _fits(wanted: list[str], words: list[str], same: Callable[[str, str], object]) -> bool:
    """Whether the words of a pattern match the words of a name, one by one."""
    if wanted[-1] in {REST, ">"}:
        wanted = wanted[:-1]
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(
        want == ONE or bool(same(want, word)) for want, word in zip(wanted, words, strict=True)
    )


def _check_wildcards(words: list[str], text: str) -> None:
    for word in words:
        if word not in WILDCARDS and not WILDCARDS.isdisjoint(word):
            raise PolicyError(
                f"{shown(text)} is not a pattern: a wildcard is a whole word between dots. Write {EXAMPLE}"
            )
    if not {REST, ">"}.isdisjoint(words[:-1]):
        message = f"{shown(text)} is not a pattern: # and > are allowed only at the end. Write * for one word"
        raise PolicyError(message)


def _checked(item: object, name: str) -> str:
    if not isinstance(item, str) or not item or item.split() != [item] or len(item) > MAX_BYTES:
        message = f"{name} has {shown(item)}. Pass names of 1 to {MAX_BYTES} characters without spaces"
        raise PolicyError(message)
    words = item.split(".")
    if not {REST, ">"}.isdisjoint(words[:-1]):
        message = f"{name} has {shown(item)}: # and > are allowed only at the end. Write * for one word"
        raise PolicyError(message)
    try:
        for word in words:
            re.compile("" if word in WILDCARDS else word)
    except (re.error, OverflowError, RecursionError) as error:
        raise PolicyError(
            f"{name} has {shown(item)}, with a word that is not a regular expression: {error}. Dots separate "
            "words; a word is *, or # at the end, or an expression such as [0-9]{3}"
        ) from None
    return item
