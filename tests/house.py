"""What a change to the product touches, how its rooms depend on each other, and how large its parts are.

$ python -m tests.house           the numbers, and what was counted where a goal is missed
$ python -m tests.house -v        what was counted everywhere, and the rooms that each subject lives in
$ python -m tests.house --write   the table in docs/design.md, too, and lower figures in tests/rooms.toml
$ python -m tests.house --grew worker "batch handlers"    a room is larger, and what for

A room may have as many lines as tests/rooms.toml says, and 2 % more. Its figure falls when it shrinks, and
rises only with a word about what came.

A subject of `core` lives in the rooms that import its modules, or have a module or a folder of its name; the
two colours are one room, and two registers that name everything, `_public` and `_redis/roles`, do not count.
Floors are the rooms on the longest way down from room to room.
A file whose first line says that it is generated is left out. The calls of a send are those of functions in
`rq_dlq/` that `queue.send(body)` makes once all is open; a generator that goes on is called again.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median_low

from tests import servers
from tests.changes import CHANGES, code_in
from tests.checkout import ROOT
from tests.room_imports import Rooms, module_of, parsed
from tests.sizes import FIGURES, figures, too_high, too_large

DESIGN = ROOT / "docs" / "design.md"
HEAD = "| counted | now | goal |"
LONG_FILE, LONG_FUNCTION = 280, 40
WHY = "# Long: "
GENERATED = re.compile(r"\bgenerated\b", re.IGNORECASE)
REDIS = "not counted: install redis-server"
SEND = """
import os, sys, rq_dlq
from tests.call_counts import calls
with rq_dlq.Broker(sys.argv[1]) as broker:
    queue = broker.queue("orders")
    for _ in range(3):  # opens the queue, proves the rights, loads the script
        queue.send("body")
    print(calls(lambda: queue.send("body"), os.path.dirname(rq_dlq.__file__)))
"""


@dataclass(frozen=True)
class Tree:
    """The product's files: their texts, by their paths from the root."""

    files: Mapping[str, str]

    def of(self, suffix: str) -> Iterator[tuple[str, str]]:
        """The files of a language."""
        return ((path, text) for path, text in self.files.items() if path.endswith(suffix))

    @cached_property
    def rooms(self) -> Rooms:
        """Of the package."""
        return Rooms({module_of(path): text for path, text in self.of(".py")})

    @cached_property
    def lines(self) -> dict[str, int]:
        """By room: `lua`, `worker`, a subject of `core` as `core/claiming`; `rq_dlq` has its modules."""
        lines: dict[str, int] = {}
        for path, text in self.files.items():
            room = room_of_file(path)
            lines[room] = lines.get(room, 0) + text.count("\n")
        return dict(sorted(lines.items()))

    @property
    def usual_rooms(self) -> int:
        """How many rooms half of the subjects of `core` live in at most."""
        subjects = [room.partition("/")[2] for room in self.lines if room.startswith("core/")]
        return median_low(len(self.rooms.lives_in(subject)) for subject in subjects)

    @property
    def long_files(self) -> list[str]:
        """Of Python, more than LONG_FILE lines, docstrings left out; tests/scripts counts those of Lua."""
        return [path for path, text in self.of(".py") if lines_of_code(text) > LONG_FILE]

    @property
    def long_functions(self) -> list[str]:
        """More than LONG_FUNCTION lines with the signature, but without decorators and docstring.

        A comment in it, `# Long: `, may say why.
        """
        return [
            f"{path}:{found.lineno} {found.name}"
            for path, text in self.of(".py")
            for found in ast.walk(parsed(text))
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) and length(found) > LONG_FUNCTION
            if not says_why(found, text)
        ]


def room_of_file(path: str) -> str:
    """The room that a file of the product is in."""
    parts = path.removesuffix(".py").split("/")
    if parts[0] != "rq_dlq" or len(parts) == 2:
        return parts[0]
    return "/".join(parts[1:3]) if parts[1] == "core" and parts[2] != "__init__" else parts[1]


def product(root: Path = ROOT) -> Tree:
    """What is written by hand in this checkout."""
    return Tree({path: text for path, text in sorted(code_in(root).items()) if not is_generated(text)})


def is_generated(text: str) -> bool:
    """Whether its first line, a comment or a docstring, says so."""
    return bool(GENERATED.search(text.partition("\n")[0]))


def lines_of_code(text: str) -> int:
    """The lines of a file without its docstrings, which the reference is made of."""
    lines = text.count("\n")
    for found in ast.walk(parsed(text)):
        if isinstance(found, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = found.body[0] if ast.get_docstring(found, clean=False) is not None else None
            lines -= docstring.end_lineno - docstring.lineno + 1 if docstring and docstring.end_lineno else 0
    return lines


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of its signature and its body."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    signature = function.body[0].lineno - function.lineno
    return signature + ((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0)


def says_why(function: ast.FunctionDef | ast.AsyncFunctionDef, text: str) -> bool:
    """Whether a comment in it says why it is long."""
    lines = text.splitlines()[function.lineno : function.end_lineno]
    return any(line.lstrip().startswith(WHY) for line in lines)


def calls_of_a_send(_: Tree) -> int | str:
    """The calls of our functions that a plain send makes, in a process of its own."""
    if not servers.binary():
        return REDIS
    with servers.running() as socket:
        command = [sys.executable, "-c", SEND, f"unix://{socket}"]
        paths = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(command, cwd=ROOT, env=paths, capture_output=True, text=True, check=True)
    return int(ran.stdout)


@dataclass(frozen=True)
class Goal:
    """A number, and what it may be.

    Attributes:
        find: what is counted; or the number itself; or, in a sentence, why it cannot be counted.
    """

    what: str
    most: int
    find: Callable[[Tree], list[str] | int | str]

    def count(self, tree: Tree) -> tuple[int | None, list[str]]:
        """The number, and what was counted; None: it cannot be counted, and why."""
        found = self.find(tree)
        if isinstance(found, str):
            return None, [found]
        return (found, []) if isinstance(found, int) else (len(found), found)


GOALS = (
    Goal("files that a new setting touches", 5, lambda _: CHANGES["setting"].product()),
    Goal("files that a new key touches", 4, lambda _: CHANGES["key"].product()),
    Goal("files that a new field of messages touches", 15, lambda _: CHANGES["field"].product()),
    Goal("files that a new verb touches", 8, lambda _: CHANGES["verb"].product()),
    Goal("rooms larger than `tests/rooms.toml` says", 0, lambda tree: too_large(tree.lines, figures())),
    Goal("rooms that have shrunk since", 0, lambda tree: too_high(tree.lines, figures())),
    Goal("rooms that a subject of `core` lives in, the median", 5, lambda tree: tree.usual_rooms),
    Goal("top-level rooms", 22, lambda tree: sorted(tree.rooms.uses)),
    Goal("floors that they stand on", 12, lambda tree: tree.rooms.floors),
    Goal("arrows up between them", 0, lambda tree: tree.rooms.arrows_up),
    Goal("modules that import each other in a circle", 0, lambda tree: tree.rooms.circle),
    Goal(f"Python files over {LONG_FILE} lines, docstrings left out", 0, lambda tree: tree.long_files),
    Goal(
        f"functions of more than {LONG_FUNCTION} lines that do not say why",
        0,
        lambda tree: tree.long_functions,
    ),
    Goal("calls of our functions that a send makes", 30, calls_of_a_send),
)


def table(tree: Tree) -> str:
    """As it stands in docs/design.md."""
    counts = [(goal, goal.count(tree)[0]) for goal in GOALS]
    rows = [f"| {goal.what} | {shown(count)} | {goal.most:,} |\n" for goal, count in counts]
    return f"{HEAD}\n|---|---|---|\n" + "".join(rows)


def shown(count: int | None) -> str:
    """A number, if it could be counted."""
    return "?" if count is None else f"{count:,}"


def with_table(text: str, new: str) -> str:
    """The text of docs/design.md with the table in the place of the one that it has."""
    before, head, rest = text.partition(HEAD)
    return before + new + "".join(re.split(r"(?<=\n)(?!\|)", head + rest, maxsplit=1)[1:])


def report(tree: Tree, *, verbose: bool) -> Iterator[str]:
    """The numbers, and what was counted where a goal is missed; `verbose`: everywhere."""
    for goal in GOALS:
        count, found = goal.count(tree)
        missed = count is None or count > goal.most
        yield f"{'no ' if missed else 'ok '} {shown(count):>7} of {goal.most:>7,}  {goal.what}"
        yield from (f"{'':23}{each}" for each in found if missed or verbose)
    for change in CHANGES.values() if verbose else ():
        yield f"{change.adds} All files: {', '.join(change.touches)}"
    for room, lines in tree.lines.items() if verbose else ():
        within, _, subject = room.partition("/")
        lives = (
            f", lives in {', '.join(tree.rooms.lives_in(subject))}" if within == "core" and subject else ""
        )
        yield f"{room}, {lines:,} lines{lives}"


def main(arguments: list[str]) -> int:
    """The command line."""
    tree = product()
    match arguments:
        case [] | ["-v"] | ["--write"]:
            pass
        case ["--grew", room, what] if room in tree.lines and what.strip():
            FIGURES.write_text(figures().after(room, what, tree.lines).text(), "utf-8")
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    for line in report(tree, verbose=arguments == ["-v"]):
        sys.stdout.write(f"{line}\n")
    if arguments == ["--write"]:
        FIGURES.write_text(figures().shrunk(tree.lines).text(), "utf-8")
        DESIGN.write_text(with_table(DESIGN.read_text("utf-8"), table(tree)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
