"""A verb of the joined text, and its contract with Python."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from rq_dlq.values.cached import cached_property

PAIRS = {"ack_and_claim": ("ack", "claim")}
"""Verbs that one call runs, in this order, by its name (rq_dlq/core/steps/riding.py)."""

_MODULE = re.compile(r"do -- (\w+\.lua)")


def run_by(call: str) -> tuple[str, ...]:
    """The verbs that a call of this name runs: itself, or both of a pair."""
    return PAIRS.get(call, (call,))


@dataclass(frozen=True)
class Contract:
    """What a caller must know of a verb.

    Attributes:
        keys: names of its keys, in order.
        args: names of its arguments, in order.
        items: names of the values for each item, after the arguments; empty: it takes no items.
        families: names of the keys for each of several queues, after `keys`.
        drains: whether it must run when memory is full, so that a full server can be emptied.
        reads: whether it changes nothing, so that it needs no right to write, and may run on a replica.
        commands: the Redis commands that it needs the right to run. PUBLISH is not among them: without it,
            callers that wait for a result poll every second.
    """

    name: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    items: tuple[str, ...]
    families: tuple[str, ...]
    drains: bool
    reads: bool
    commands: frozenset[bytes]

    @property
    def flag(self) -> str:
        """What Redis 7 must know of it; empty: nothing."""
        return "no-writes" if self.reads else "allow-oom" if self.drains else ""

    def arguments(self, given: Mapping[str, object]) -> list[object]:
        """The values in the verb's order.

        Raises:
            TypeError: the names are not exactly those that the verb binds.
        """
        if set(given) != set(self.args):
            raise TypeError(f"{self.name} takes {', '.join(self.args)}; given: {', '.join(given)}")
        return [given[name] for name in self.args]


@dataclass(frozen=True)
class Library:
    """The joined text.

    Attributes:
        name: of the library in Redis; the verbs are `NAME_VERB`.
        text: without its first line.
        verbs: their contracts.
    """

    name: str
    text: str
    verbs: Mapping[str, Contract]

    @property
    def source(self) -> str:
        """What FUNCTION LOAD takes."""
        return f"#!lua name={self.name}\n{self.text}"

    def place(self, line: int) -> str:
        """Where a line stands, such as `claim.lua:57`; empty: in no module.

        Args:
            line: its number in an error; the first line is the one before the text.
        """
        before = self.text.splitlines()[: line - 1]
        for number, other in enumerate(reversed(before)):
            if found := _MODULE.fullmatch(other):
                return f"{found[1]}:{number}" if number else ""
        return ""


@dataclass(frozen=True)
class Verb(Contract):
    """A verb as a server runs it.

    Attributes:
        source: the text that the server loads.
        word: the command that runs it.
        function: its name, if it is a Redis Function; empty: a script.
        tail: what follows its items: the name of the verb, if it is a script, which has all verbs.
    """

    source: str
    word: bytes
    function: str = ""
    tail: tuple[str, ...] = ()

    @cached_property
    def sha(self) -> str:
        """The name by which Redis identifies it: of a script, its hash."""
        return self.function or _sha1(self.source)

    @cached_property
    def key(self) -> str:
        """A name that no other verb has, and no other way to run it."""
        return f"{self.word!r}{self.sha}{''.join(self.tail)}"

    @property
    def load(self) -> tuple[bytes, bytes, str]:
        """The command that makes it known to a server."""
        return (b"FUNCTION" if self.function else b"SCRIPT", b"LOAD", self.source)


class Verbs(Protocol):
    """All verbs, as a server runs them."""

    def __getitem__(self, name: str, /) -> Verb:
        """The verb with this name."""
        ...

    def names(self) -> list[str]:
        """The verbs, in alphabetical order."""
        ...

    @property
    def library(self) -> Library:
        """The text and the contracts."""
        ...


@lru_cache(maxsize=16)  # the verbs of a form have three texts
def _sha1(source: str) -> str:
    return hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
