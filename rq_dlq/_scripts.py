"""Find, assemble and hash the Lua files.

A script's first lines are its contract: `local ready, leases = KEYS[1], KEYS[2]` names the keys, the same
with ARGV the arguments, a comment `-- items from ARGV[3]: id, token` what follows for each item, and
`-- families from KEYS[2]: messages, states` the keys that follow for each of several queues. Python passes
keys and arguments by those names, so no number stands in two places.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.resources.abc import Traversable

_BINDING = re.compile(r"^local ([\w, ]+) = (.*(?:KEYS|ARGV)\[\d+\].*)$", re.MULTILINE)
_SLOT = re.compile(r"(KEYS|ARGV)\[(\d+)\]")
_ITEMS = re.compile(r"^-- items from ARGV\[(\d+)\]: (.+)$", re.MULTILINE)
_FAMILIES = re.compile(r"^-- families from KEYS\[(\d+)\]: (.+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^( *)-- @include (\S+)$")
_CALLED = re.compile(r"\bredis\.p?call\(\s*'(\w+)'")
# What has to run when memory is full, so that a full server can drain; Redis 6.2 has no word for it.
_DRAINS = {
    "claim",
    "begin",
    "ack",
    "ack_all",
    "nack",
    "poison",
    "release",
    "extend",
    "sweep",
    "promote",
    "expire",
    "purge",
    "retire",
    "pause",
    "extend_claim",
    "ack_claim",
    "divide_claim",
    "begin_batch",
    "note_batch",
}
_ALLOW_OOM = "#!lua flags=allow-oom\n"
_ASIDE = re.compile(r" ?\([^)]*\)|;.*$")


def _directory() -> Traversable:
    """The Lua files: inside the package where it is installed, beside it in a checkout."""
    inside = resources.files("rq_dlq") / "lua"
    if inside.is_dir():
        return inside
    return Path(__file__).resolve().parent.parent / "lua"


@cache
def _file(name: str) -> str:
    return _directory().joinpath(*f"{name}.lua".split("/")).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Script:
    """One assembled Lua file and its contract.

    Attributes:
        keys: names of its keys, in order.
        args: names of its arguments, in order.
        items: names of what is passed for each item after the arguments; empty: it takes no items.
        families: names of the keys that are passed for each of several queues after `keys`.
    """

    name: str
    source: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    items: tuple[str, ...]
    families: tuple[str, ...] = ()

    @cached_property
    def sha(self) -> str:
        """The name under which Redis knows it."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def commands(self) -> frozenset[bytes]:
        """The names of the Redis commands that it may run."""
        return frozenset(name.encode() for name in _CALLED.findall(self.source))

    def arguments(self, given: Mapping[str, object]) -> list[object]:
        """The values in the script's order.

        Raises:
            TypeError: the names are not exactly those that the script binds.
        """
        if tuple(given) == self.args:
            return list(given.values())
        if set(given) != set(self.args):
            message = f"{self.name}.lua takes {', '.join(self.args)}; given: {', '.join(given)}"
            raise TypeError(message)
        return [given[name] for name in self.args]


def parse(name: str, source: str) -> Script:
    """Read a script's contract from its first lines.

    Raises:
        ValueError: its numbers are not 1, 2, 3, … in the order of the names.
    """
    bound: dict[str, list[str]] = {"KEYS": [], "ARGV": []}
    for names, values in _BINDING.findall(source):
        slots = _SLOT.findall(values)
        for variable, (table, number) in zip(names.split(", "), slots, strict=True):
            bound[table].append(variable)
            if int(number) != len(bound[table]):
                message = f"{name}.lua binds {table}[{number}] to {variable} out of order"
                raise ValueError(message)
    items: tuple[str, ...] = ()
    if found := _ITEMS.search(source):
        items = tuple(_ASIDE.sub("", found[2]).split(", "))
        if int(found[1]) != len(bound["ARGV"]) + 1:
            message = f"{name}.lua has items from ARGV[{found[1]}] after {len(bound['ARGV'])} arguments"
            raise ValueError(message)
    families: tuple[str, ...] = ()
    if several := _FAMILIES.search(source):
        families = tuple(several[2].split(", "))
        if int(several[1]) != len(bound["KEYS"]) + 1:
            message = f"{name}.lua has families from KEYS[{several[1]}] after {len(bound['KEYS'])} keys"
            raise ValueError(message)
    return Script(name, source, tuple(bound["KEYS"]), tuple(bound["ARGV"]), items, families)


@dataclass(frozen=True)
class Scripts:
    """All scripts, assembled on first use.

    Args:
        fragments: text that takes the place of a fragment, by its name (`{"lib/now": "…"}`): how a test moves
            the clock of a real server.
        allow_oom: for Redis 7 and later, where a script can say that it may run when memory is full (I9).
    """

    fragments: Mapping[str, str] = field(default_factory=dict[str, str])
    allow_oom: bool = False
    _assembled: dict[str, Script] = field(default_factory=dict[str, Script], repr=False)
    _variants: dict[bool, Scripts] = field(default_factory=dict[bool, "Scripts"], repr=False)

    def __getitem__(self, name: str) -> Script:
        script = self._assembled.get(name)
        if script is None:
            shebang = _ALLOW_OOM if self.allow_oom and name in _DRAINS else ""
            script = self._assembled[name] = parse(name, shebang + self._assemble(name))
        return script

    def for_server(self, version: tuple[int, ...]) -> Scripts:
        """The same scripts, as this version of Redis can run them best."""
        allow_oom = version >= (7,)
        if allow_oom not in self._variants:
            self._variants[allow_oom] = Scripts(self.fragments, allow_oom=allow_oom)
        return self._variants[allow_oom]

    def names(self) -> list[str]:
        """The verbs, in alphabetical order."""
        files: Iterable[Traversable] = _directory().iterdir()
        return sorted(file.name.removesuffix(".lua") for file in files if file.name.endswith(".lua"))

    def _text(self, name: str) -> str:
        return self.fragments[name] if name in self.fragments else _file(name)

    def _assemble(self, name: str) -> str:
        """The text of a file with the fragments that it asks for, each as deep as it is asked for."""
        lines: list[str] = []
        for line in self._text(name).splitlines():
            if include := _INCLUDE.match(line):
                fragment = self._assemble(include[2]).splitlines()
                lines += [include[1] + text if text else "" for text in fragment]
            else:
                lines.append(line)
        return "\n".join(lines) + "\n"
