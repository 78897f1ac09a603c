"""Which statements of the Lua a test comes by: every statement says its number to the log of the server.

Statements that define what a module needs run when the library is loaded, for all tests at once. A test comes
by one of these where it comes by a statement that uses a name which it defines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

from tests.proofs.mutants.lua import Statement, statements
from tests.proofs.mutants.mutate import files, text_of

# Before the joined text. Through _G, since a test may have put another `redis` in its place.
HEAD = """\
local CAME = {}
local function telling(verb, ...)
  CAME = {}
  local ended, value = pcall(verb, ...)
  local said = {}
  for number in pairs(CAME) do
    said[#said + 1] = number
  end
  _G.redis.log(3, 'came by ' .. table.concat(said, ' '))
  if not ended then
    error(value, 0)
  end
  return value
end
"""
ENTRY = re.compile(r"^(return |local reply = |return { reply, )Verbs\.(\w+)\(", re.MULTILINE)
SAID = re.compile(rb"came by ([\d ]+)")
BINDS = re.compile(r"local [\w, ]+ = .*(KEYS|ARGV)\[\d+\]")
Line = tuple[str, int]
"""A module, and a line of it at which a statement begins."""


@dataclass
class Telling:
    """The modules, each statement of which says that it was come by.

    Attributes:
        numbers: the statements that say so, by their numbers.
        texts: the modules that do, by their names.
        leads: by a statement, those that define what it uses.
    """

    numbers: dict[int, Line] = field(default_factory=dict[int, Line])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    leads: dict[Line, set[Line]] = field(default_factory=lambda: defaultdict[Line, set[Line]](set))

    def __post_init__(self) -> None:
        parsed = {file: statements(text_of(file)) for file in files()}
        loaded = {(file, outer.line): outer for file, outers in parsed.items() for outer in outers}
        defined = {name: at for at, outer in loaded.items() for name in _defines(at[0], outer)}
        for file, outers in parsed.items():
            every = [statement for outer in outers for statement in outer.tree()]
            self.texts[file] = self._telling(file, {it.line for it in every if (file, it.line) not in loaded})
            for statement in every:
                self.leads[file, statement.line] |= {
                    defined[name] for name in _uses(file, statement) if name in defined
                }

    def _telling(self, file: str, told: set[int]) -> str:
        """A module whose statements in these lines tell."""
        lines = text_of(file).splitlines(keepends=True)
        for line in sorted(told):
            blank = len(lines[line - 1]) - len(lines[line - 1].lstrip())
            if not BINDS.match(lines[line - 1][blank:]):
                number = len(self.numbers)
                self.numbers[number] = (file, line)
                lines[line - 1] = f"{lines[line - 1][:blank]}CAME[{number}] = true; {lines[line - 1][blank:]}"
        return "".join(lines)

    def change(self, name: str, text: str) -> str:
        """A module that says so; what a test adds to it, or puts in its place, stays as it is."""
        sound = text_of(name)
        return self.texts[name] + text.removeprefix(sound) if text.startswith(sound) else text

    def joined(self, text: str) -> str:
        """The joined text, whose verbs say what they came by."""
        return HEAD + ENTRY.sub(r"\1telling(Verbs.\2, ", text)

    def read(self, log: bytes) -> set[Line]:
        """What is in a piece of the log."""
        numbers = {int(number) for said in set(SAID.findall(log)) for number in said.split()}
        found = set[Line]()
        more = {self.numbers[number] for number in numbers}
        while more:
            found |= more
            more = {line for at in more for line in self.leads[at]} - found
        return found


def _defines(file: str, statement: Statement) -> set[str]:
    """The names that a statement of a module defines, but for functions: `Table.name`, or `module:name`."""
    words = [token.text for token in statement.own]
    if "function" in words[:2]:
        return set()
    left = words[: words.index("=")] if "=" in words else words
    return {f"{file}:{word}" for word in left[1:]} if left[0] == "local" else _fields(left)


def _uses(file: str, statement: Statement) -> set[str]:
    words = [token.text for token in statement.own]
    return _fields(words) | {f"{file}:{word}" for word in words}


def _fields(words: list[str]) -> set[str]:
    return {f"{a}.{b}" for a, dot, b in zip(words, words[1:], words[2:], strict=False) if dot == "."}


@cache
def telling() -> Telling:
    """The modules as they are now."""
    return Telling()
