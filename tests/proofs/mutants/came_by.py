"""Which statements of the Lua a test comes by: every statement says its number to the log of the server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from tests.proofs.mutants.lua import statements
from tests.proofs.mutants.mutate import files, text_of

# Around a verb. Through _G, since a test may have put another `redis` in its place.
HEAD = """\
local CAME = {}
local function verb()
"""
TAIL = """\
end
local ended, value = pcall(verb)
local said = {}
for number in pairs(CAME) do
  said[#said + 1] = number
end
_G.redis.log(3, 'came by ' .. table.concat(said, ' '))
if not ended then
  error(value, 0)
end
return value
"""
SAID = re.compile(rb"came by ([\d ]+)")


@dataclass
class Telling:
    """The files, each statement of which says that it was come by."""

    numbers: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    texts: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for file in files():
            self.texts[file] = self._telling(file)

    def _telling(self, file: str) -> str:
        text = text_of(file)
        lines = text.splitlines(keepends=True)
        for line in sorted({s.line for outer in statements(text) for s in outer.tree()}):
            blank = len(lines[line - 1]) - len(lines[line - 1].lstrip())
            if not re.match(r"local [\w, ]+ = .*(KEYS|ARGV)\[\d+\]", lines[line - 1]):
                number = len(self.numbers)
                self.numbers[number] = (file, line)
                lines[line - 1] = f"{lines[line - 1][:blank]}CAME[{number}] = true; {lines[line - 1][blank:]}"
        return "".join(lines) if file.startswith("lib/") else "".join((HEAD, *lines, TAIL))

    def change(self, name: str, text: str) -> str:
        """A file that says so; a text of a test's own stays as it is."""
        if name in self.texts and text == text_of(name):
            return self.texts[name]
        return text if name.startswith("lib/") else f"{HEAD}{text}{TAIL}"

    def read(self, log: bytes) -> set[tuple[str, int]]:
        """What is in a piece of the log: file and line."""
        numbers = {int(number) for said in set(SAID.findall(log)) for number in said.split()}
        return {self.numbers[number] for number in numbers}


@cache
def telling() -> Telling:
    """The files as they are now."""
    return Telling()
