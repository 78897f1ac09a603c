"""What a change to the product touches, and how large its parts are, counted for docs/design.md.

$ python -m tests.house           of this checkout
$ python -m tests.house f3cfe93   of a commit
$ python -m tests.house --write   into docs/design.md, too

A name touches each file in `lua/` and `rq_dlq/` whose code has one of its spellings as a word. Code is the
text without comments and docstrings. Literals count, since keys and fields are named in them, and so do the
comments of a Lua file that the loader reads. What is counted is names: a file that passes a value on under
another name is not found. A file whose first line says that it is generated is left out everywhere.

The calls of a send are those of the functions in `rq_dlq/` that `queue.send(body)` makes once all is open;
a generator that goes on is called again.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests import servers
from tests.assembled_lua import ROOT
from tests.scripts import test_needs

BEFORE = "f3cfe93"
"""The commit that the numbers are compared with."""
DESIGN = ROOT / "docs" / "design.md"
HEAD = f"| counted | at {BEFORE} | now | goal |"
LONG_FILE, LONG_FUNCTION = 300, 40
GENERATED = re.compile(r"\bgenerated\b", re.IGNORECASE)
READ_BY_THE_LOADER = re.compile(r"--\s*(needs:|gives:|drains\b|items from|families from|@include)")

SETTING = ("max_in_flight", "max-in-flight", "maxInFlight")
KEY = ("alarm",)
FIELD = ("persistent", "transient", "TRANSIENT")
HOMONYMS: Mapping[str, str] = {
    "rq_dlq/_redis/": "errors that pass are called TRANSIENT there",
    "rq_dlq/cli/send.py": "a progress bar is transient",
}
"""Files where a spelling of FIELD is another word."""


@dataclass(frozen=True)
class Tree:
    """The product's files: their texts, by their paths from the root, and where they are."""

    files: Mapping[str, str]
    root: Path = ROOT

    def touched_by(self, *spellings: str) -> list[str]:
        """The files whose code has one of these words."""
        word = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, spellings))})(?![\w-])")
        return [path for path, text in self.files.items() if word.search(code(path, text))]

    def of(self, suffix: str) -> Iterator[tuple[str, str]]:
        """The files of a language."""
        return ((path, text) for path, text in self.files.items() if path.endswith(suffix))

    @property
    def lines(self) -> int:
        """Of all files."""
        return sum(text.count("\n") for text in self.files.values())

    @property
    def rooms(self) -> set[str]:
        """What stands directly in the package: folders and modules."""
        return {path.split("/")[1].removesuffix(".py") for path, _ in self.of(".py")} - {
            "__init__",
            "__main__",
        }

    @property
    def long_files(self) -> list[str]:
        """More than LONG_FILE lines."""
        return [path for path, text in self.files.items() if text.count("\n") > LONG_FILE]

    @property
    def long_functions(self) -> list[str]:
        """More than LONG_FUNCTION lines, decorators and docstring left out."""
        return [
            f"{path}:{found.lineno} {found.name}"
            for path, text in self.of(".py")
            for found in ast.walk(ast.parse(text))
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) and length(found) > LONG_FUNCTION
        ]

    @property
    def circle(self) -> list[str]:
        """Modules of which each imports the next; empty: there is no circle."""
        modules = {module_of(path): text for path, text in self.of(".py")}
        graph = {name: set(imported(text, modules)) - {name} for name, text in modules.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            return [*error.args[1][1:]]
        return []


def product(root: Path = ROOT) -> Tree:
    """What is written by hand in this checkout."""
    paths = [*root.glob("lua/**/*.lua"), *root.glob("rq_dlq/**/*.py")]
    files = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(paths)}
    return written(files, root)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The files of the product at a commit, in a directory of their own."""
    command = ["git", "archive", commit, "lua", "rq_dlq"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as directory, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
        yield Path(directory)


def written(files: Mapping[str, str], root: Path = ROOT) -> Tree:
    """Without those that are generated."""
    return Tree({path: text for path, text in files.items() if not is_generated(text)}, root)


def is_generated(text: str) -> bool:
    """Whether its first line, a comment or a docstring, says so."""
    return bool(GENERATED.search(text.partition("\n")[0]))


def code(path: str, text: str) -> str:
    """A file without comments and docstrings."""
    return lua_code(text) if path.endswith(".lua") else python_code(text)


@cache
def lua_code(text: str) -> str:
    """But for the comments that the loader reads."""
    lines = (
        line if READ_BY_THE_LOADER.match(line.lstrip()) else re.sub(r"--.*", "", line)
        for line in text.split("\n")
    )
    return "\n".join(lines)


@cache
def python_code(text: str) -> str:
    """As Python itself would write it."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if name in {"body", "orelse", "finalbody"} and isinstance(value, list):
                setattr(node, name, [each for each in value if not is_text(each)] or [ast.Pass()])
    return ast.unparse(tree)


def is_text(node: ast.stmt) -> bool:
    """Whether it is a docstring, of whatever stands before it."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of its body."""
    body = [node for node in function.body if not is_text(node)]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def module_of(path: str) -> str:
    """The name by which a file is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The modules that a module imports, at once or in a function, but not for types alone."""
    for node in running(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules or node.module in modules:
                    yield whole if whole in modules else node.module


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All that is not under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from running(child)


def free_names(tree: Tree) -> list[str]:
    """The names that a fragment uses, and neither defines nor says that it needs; by luacheck."""
    with tempfile.TemporaryDirectory() as directory:
        for path, text in tree.of(".lua"):
            file = Path(directory, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        names = test_needs.found(Path(directory, "lua"))
    fragments = {file: found for file, found in names.items() if file.startswith("lib/")}
    return [
        f"{file}: {name}"
        for file, found in sorted(fragments.items())
        for name in sorted(found.free - needed(tree.files[f"lua/{file}.lua"]))
    ]


def needed(text: str) -> set[str]:
    """What a fragment says that it needs."""
    said = test_needs.lines_of("", text)
    return {name for line in said for name in (*line.names, *line.keys, *line.args, *line.locals)}


SEND = """
import os, sys, rq_dlq
from tests.effort import calls
with rq_dlq.Broker(sys.argv[1]) as broker:
    queue = broker.queue("orders")
    for _ in range(3):  # opens the queue, proves the rights, loads the script
        queue.send("body")
    print(calls(lambda: queue.send("body"), os.path.dirname(rq_dlq.__file__)))
"""


def calls_of_a_send(tree: Tree) -> int:
    """The calls of our functions that a plain send makes."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.root), str(ROOT)])}
    with servers.running() as socket:
        command = [sys.executable, "-c", SEND, f"unix://{socket}"]
        ran = subprocess.run(command, cwd=tree.root, env=paths, capture_output=True, text=True, check=True)
    return int(ran.stdout)


def of_the_field(tree: Tree) -> list[str]:
    """What the field touches, without its homonyms."""
    return [path for path in tree.touched_by(*FIELD) if not path.startswith(tuple(HOMONYMS))]


@dataclass(frozen=True)
class Goal:
    """A number, and what it may be.

    Attributes:
        before: what it was at the commit BEFORE.
        find: what is counted; or the number itself.
        missing: what this needs and is not here; empty: nothing.
    """

    what: str
    before: int
    most: int
    find: Callable[[Tree], list[str] | int]
    missing: str = ""

    def count(self, tree: Tree) -> tuple[int, list[str]]:
        """The number, and what was counted."""
        found = self.find(tree)
        return (found, []) if isinstance(found, int) else (len(found), found)


LUACHECK = "" if shutil.which("luacheck") else "luacheck (Debian: lua-check)"
REDIS = "" if servers.binary() else "a redis-server"

GOALS = (
    Goal("files that a setting touches, `max_in_flight`", 14, 5, lambda tree: tree.touched_by(*SETTING)),
    Goal("files that a key touches, `alarm`", 4, 4, lambda tree: tree.touched_by(*KEY)),
    Goal("files that a field of messages touches, `persistent`", 11, 15, of_the_field),
    Goal("names that a fragment of Lua uses without saying so", 199, 0, free_names, LUACHECK),
    Goal("lines of `lua` and `rq_dlq` written by hand", 30_139, 30_138, lambda tree: tree.lines),
    Goal("top-level rooms", 39, 22, lambda tree: sorted(tree.rooms)),
    Goal(f"files of more than {LONG_FILE} lines", 6, 0, lambda tree: tree.long_files),
    Goal(f"functions of more than {LONG_FUNCTION} lines", 0, 0, lambda tree: tree.long_functions),
    Goal("modules that import each other in a circle", 2, 0, lambda tree: tree.circle),
    Goal("calls of our functions that a send makes", 26, 30, calls_of_a_send, REDIS),
)


def table(tree: Tree) -> str:
    """As it stands in docs/design.md."""
    rows = [
        f"| {goal.what} | {goal.before:,} | {goal.count(tree)[0]:,} | {goal.most:,} |\n" for goal in GOALS
    ]
    return f"{HEAD}\n|---|---|---|---|\n" + "".join(rows)


def with_table(text: str, new: str) -> str:
    """The text of docs/design.md with the table in the place of the one that it has."""
    before, head, rest = text.partition(HEAD)
    return before + new + "".join(re.split(r"(?<=\n)(?!\|)", head + rest, maxsplit=1)[1:])


def main(arguments: list[str]) -> int:
    """Print the numbers, and what was counted where a goal is not reached."""
    commits = [word for word in arguments if word != "--write"]
    with checked_out(commits[0]) if commits else nullcontext(ROOT) as root:
        show(tree := product(root))
    if arguments == ["--write"]:
        DESIGN.write_text(with_table(DESIGN.read_text("utf-8"), table(tree)), "utf-8")
    return 0


def show(tree: Tree) -> None:
    """Print the numbers of a tree."""
    for goal in GOALS:
        if goal.missing:
            sys.stdout.write(f"??  {'':18}  {goal.what}: this needs {goal.missing}\n")
            continue
        count, found = goal.count(tree)
        missed = count > goal.most
        sys.stdout.write(f"{'no ' if missed else 'ok '} {count:>7,} of {goal.most:>7,}  {goal.what}\n")
        sys.stdout.write("".join(f"{'':27}{each}\n" for each in found if missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
