"""An assembled script and its contract, read from its text.

`local ready, leases = KEYS[1], KEYS[2]` names the keys, and the same with ARGV names the arguments. Comments
name the rest: `-- items from ARGV[3]: id, token` lists the arguments for each item, `-- families from
KEYS[2]: messages` the keys for each of several queues.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rq_dlq.values.cached import cached_property

# Patterns that begin with letters, not with `^` or `\b`, match several times as fast.
_BINDING = re.compile(r"\nlocal ([\w, ]+) = (.*(?:KEYS|ARGV)\[\d+\].*)")
_SLOT = re.compile(r"(KEYS|ARGV)\[(\d+)\]")
_REST = re.compile(r"\n-- (items|families) from (KEYS|ARGV)\[(\d+)\]: (.+)")
_CALLED = re.compile(r"redis\.p?call\(\s*'(\w+)'")
_ASIDE = re.compile(r" ?\([^)]*\)|;.*$")


@dataclass(frozen=True)
class Script:
    """One assembled Lua file and its contract.

    Attributes:
        keys: names of its keys, in order.
        args: names of its arguments, in order.
        items: names of the values for each item, after the arguments; empty: it takes no items.
        families: names of the keys for each of several queues, after `keys`.
        drains: whether it must run when memory is full, so that a full server can be emptied.
        function: its name, if it is a Redis Function; empty: a script.
        tail: what follows its items: the name of the verb, if the text has several.
        reached: the commands of all functions that it can reach; None: those of its text.
    """

    name: str
    source: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    items: tuple[str, ...]
    families: tuple[str, ...] = ()
    drains: bool = False
    function: str = ""
    tail: tuple[str, ...] = ()
    reached: frozenset[bytes] | None = None

    @cached_property
    def sha(self) -> str:
        """The name by which Redis identifies it: of a script, its hash."""
        return self.function or hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def word(self) -> bytes:
        """The command that runs it."""
        return b"FCALL" if self.function else b"EVALSHA"

    @cached_property
    def key(self) -> str:
        """A name that no other verb has."""
        return self.sha + "".join(self.tail)

    @property
    def load(self) -> tuple[bytes, bytes, str]:
        """The command that makes it known to a server."""
        return (b"FUNCTION" if self.function else b"SCRIPT", b"LOAD", self.source)

    @cached_property
    def commands(self) -> frozenset[bytes]:
        """The Redis commands that it needs the right to run.

        PUBLISH is not included: without it, callers that wait for a result poll every second.
        """
        if self.reached is not None:
            return self.reached
        return frozenset(name.encode() for name in _CALLED.findall(self.source)) - {b"PUBLISH"}

    def arguments(self, given: Mapping[str, object]) -> list[object]:
        """The values in the script's order.

        Raises:
            TypeError: the names are not exactly those that the script binds.
        """
        if set(given) != set(self.args):
            raise TypeError(f"{self.name}.lua takes {', '.join(self.args)}; given: {', '.join(given)}")
        return [given[name] for name in self.args]


def bound(name: str, source: str) -> dict[str, list[str]]:
    """The names that a script binds to slots of KEYS and of ARGV, in order.

    Raises:
        ValueError: the slots are not 1, 2, 3, … in the order of the names.
    """
    found: dict[str, list[str]] = {"KEYS": [], "ARGV": []}
    for names, values in _BINDING.findall("\n" + source):
        for variable, (table, number) in zip(names.split(", "), _SLOT.findall(values), strict=True):
            found[table].append(variable)
            _check(name, variable, table, number, len(found[table]))
    return found


def parse(name: str, source: str) -> Script:
    """Read a script's contract from its text.

    Raises:
        ValueError: its numbers are not 1, 2, 3, … in the order of the names.
    """
    slots = bound(name, source)
    rest = rest_of(name, source, len(slots["ARGV"]), len(slots["KEYS"]))
    keys, args, drains = tuple(slots["KEYS"]), tuple(slots["ARGV"]), "\n-- drains\n" in source
    return Script(name, source, keys, args, rest["items"], rest["families"], drains)


def rest_of(name: str, source: str, args: int, keys: int = 0) -> dict[str, tuple[str, ...]]:
    """The names of each item, and of the keys of each of several queues, which follow the others.

    Raises:
        ValueError: they do not follow these.
    """
    rest: dict[str, tuple[str, ...]] = {"items": (), "families": ()}
    for what, table, number, names in _REST.findall("\n" + source):
        _check(name, what, table, number, (args if table == "ARGV" else keys) + 1)
        rest[what] = tuple(_ASIDE.sub("", names).split(", "))
    return rest


def _check(name: str, what: str, table: str, number: str, expected: int) -> None:
    if int(number) != expected:
        raise ValueError(f"{name}.lua has {what} in {table}[{number}], not in {table}[{expected}]")
