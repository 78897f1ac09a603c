"""Converts other brokers' names with wildcards to our patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rq_dlq.errors import PolicyError
from rq_dlq.policy import Pattern
from rq_dlq.policy.patterns import ONE, REST, WILDCARDS


@dataclass(frozen=True, slots=True)
class Names:
    """A broker's syntax for names, and new names for its queues.

    Attributes:
        delimiter: the delimiter between words.
        any_words: the wildcard for any number of words.
        single_word: the wildcard for one word.
        literal: the two characters around a name without wildcards; empty: the broker has no such syntax.
        renamed: the user's new names, by the broker's names.
    """

    delimiter: str = "."
    any_words: str = REST
    single_word: str = ONE
    literal: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])

    def pattern(self, name: str) -> Pattern:
        """Our pattern for a broker's name.

        Raises:
            PolicyError: the name has no equivalent pattern; the error says what to do.
        """
        if name in self.renamed:
            return Pattern.parse(self.renamed[name])
        try:
            return Pattern.parse(self._translated(name))
        except PolicyError as error:
            raise PolicyError(f"choose the pattern here with --map '{name}=…', since {error}") from None

    def queue(self, name: str) -> str:
        """Our name for a broker's queue; for `address::queue`, the name of the queue."""
        return self.renamed.get(name, ".".join(name.rpartition("::")[2].split(self.delimiter)))

    def _translated(self, name: str) -> str:
        marked = bool(self.literal) and name[:1] == self.literal[0] and name[-1:] == self.literal[1]
        name = name[1:-1] if marked else name
        if self.delimiter != "." and "." in name:
            raise PolicyError(f"{name!r} has dots in its words, and here dots separate words")
        wildcards = {} if marked else {self.any_words: REST, self.single_word: ONE}
        words = name.split(self.delimiter)
        taken = [word for word in words if word in WILDCARDS and word not in wildcards]
        if taken:
            raise PolicyError(f"{name!r} has the word {taken[0]!r}, which is a wildcard here but not there")
        return ".".join(wildcards.get(word, word) for word in words)


def common(one: Pattern, other: Pattern) -> str | None:
    """The pattern for all queues that both patterns match; None: no queue matches both."""
    both = [pattern.text.split(".") for pattern in (one, other)]
    length = max(len(words) - (words[-1] == REST) for words in both)
    mine, its = (_stretched(words, length) for words in both)
    pairs = list(zip(mine, its, strict=False))
    if len(mine) != len(its) or any(ONE not in pair and pair[0] != pair[1] for pair in pairs):
        return None
    end = [REST] if all(words[-1] == REST for words in both) else []
    return ".".join([*(theirs if word == ONE else word for word, theirs in pairs), *end])


def _stretched(words: list[str], length: int) -> list[str]:
    """The words of a pattern; an open end becomes one-word wildcards, up to this length."""
    return [*words[:-1], *[ONE] * (length - len(words) + 1)] if words[-1] == REST else words
