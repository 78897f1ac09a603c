"""The tests that a change needs.

python -m tests.for_change                       of what differs from the last commit
python -m tests.for_change lua/nack.lua          of these files
python -m tests.for_change --list lua/nack.lua   only say which, and why

A table in CONTRIBUTING.md names the tests of each room. Of a folder there those files run that are named
after the subject of the change, as tests/behaviour/test_redrive_pace.py after rq_dlq/core/redrive, or all
where none is. Test files that import or name what changed run, too. A verb in Lua has the subject of the
calls that name it, and every Lua file has the cases that killed its mutants.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath

from tests.proofs.mutants.mutate import mutants
from tests.proofs.mutants.results import killers

ROOT = Path(__file__).parent.parent
HEAD = "| change in | tests |"
EVERYBODYS = 12
"""What so many test files import has its tests elsewhere: in its row."""
PROOFS = "tests/proofs/"
"""Their tests run with them, and for changes of them."""


@cache
def table() -> dict[str, list[str]]:
    """CONTRIBUTING.md: by room, its tests."""
    lines = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(HEAD)[2].splitlines()[2:]
    rooms: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        changed, tests = (re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|"))
        rooms |= dict.fromkeys(changed, tests)
    return rooms


@cache
def texts() -> dict[str, str]:
    """The files in `tests`, by their paths."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")
    }


def files_in(folder: str) -> list[str]:
    """The files of tests in a folder, or the file itself."""
    return [path for path in sorted(texts()) if is_test(path) and f"{path}/".startswith(f"{folder}/")]


def is_test(path: str) -> bool:
    """Whether pytest collects a file."""
    return PurePosixPath(path).match("test_*.py")


def for_path(path: str) -> dict[str, list[str]]:
    """The tests that a change of one file needs, as arguments of pytest, by the reason."""
    if is_test(path):
        return {"itself": [path] if path in texts() else []}
    reasons: dict[str, list[str]] = {}
    room = max((room for room in table() if f"{path}/".startswith(f"{room}/")), key=len, default="")
    if room:
        reasons[f"the row of `{room}`"] = of_room(room, path)
    if path.startswith("lua/") and path.endswith(".lua"):
        file = path.removeprefix("lua/").removesuffix(".lua")
        for calls in sorted((ROOT / "rq_dlq" / "core").glob("*/calls.py")):
            if f'"{file}"' in calls.read_text("utf-8"):
                subject = calls.relative_to(ROOT).as_posix()
                reasons[f"{subject} names it"] = of_room("rq_dlq/core", subject)
        reasons["they killed its mutants"] = sorted(cases_of(file))
    elif path.endswith("conftest.py"):
        reasons["its folder"] = files_in(str(PurePosixPath(path).parent))
    else:
        users = [file for file, text in texts().items() if is_test(file) and naming(path).search(text)]
        if len(users) < EVERYBODYS or not room:
            reasons["they name it"] = users
    kept = {
        reason: [test for test in tests if path.startswith(PROOFS) or not test.startswith(PROOFS)]
        for reason, tests in reasons.items()
    }
    return {reason: tests for reason, tests in kept.items() if tests}


def of_room(room: str, path: str) -> list[str]:
    """What the table says of a room, for a change in this file of it."""
    words = stems(path.removeprefix(room))
    return [file for tests in table()[room] for file in of_row(tests, words)]


def of_row(tests: str, words: set[str]) -> list[str]:
    """A file; of a folder the files that are named after the subject."""
    files = files_in(tests)
    return [file for file in files if words & stems(PurePosixPath(file).stem)] or files


def stems(path: str) -> set[str]:
    """The words of a path, so that `settling` and `settle` are the same."""
    words = re.findall(r"[a-z]{3,}", re.sub(r"\.\w+$", "", path))
    return {re.sub(r"(ing|ed|es|e|s)$", "", word) for word in words} - {"test", "init", "call", "own"}


def naming(path: str) -> re.Pattern[str]:
    """How a file names another one: by an import, or by its name, of tables without the ending."""
    if not path.endswith(".py"):
        name, stem = (re.escape(part) for part in (PurePosixPath(path).name, PurePosixPath(path).stem))
        return re.compile(rf'\b{name}\b|"{stem}"' if name != stem else re.escape(path))
    module = ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    return re.compile(
        rf"\b{re.escape(module)}\b(?!\.\w+ import)|from {re.escape(package)} import (?:\([^)]*|.*)\b{name}\b"
    )


def cases_of(file: str) -> set[str]:
    """The cases that killed mutants of a Lua file."""
    known = killers()
    return {known[mutant.mark] for mutant in mutants(file) if mutant.mark in known}


def changed() -> list[str]:
    """What differs from the last commit, with new files."""
    commands = ("diff --name-only HEAD", "ls-files --others --exclude-standard")
    ran = (subprocess.check_output(["git", *words.split()], cwd=ROOT, text=True) for words in commands)
    return sorted({path for out in ran for path in out.splitlines()})


def files_at(path: Path) -> list[str]:
    """A file, or those in a folder."""
    files = sorted(path.rglob("*.*")) if path.is_dir() else [path]
    return [file.relative_to(ROOT).as_posix() for file in files if file.suffix != ".pyc"]


def selected(paths: Iterable[str]) -> list[str]:
    """The arguments of pytest: a case is left out where its file runs."""
    found = {test for path in paths for tests in for_path(path).values() for test in tests}
    return sorted(test for test in found if "::" not in test or test.partition("::")[0] not in found)


def main(arguments: list[str]) -> int:
    """The command line."""
    named = [path for path in arguments if path != "--list"]
    paths = changed() if not named else [file for path in named for file in files_at(Path(path).resolve())]
    for path in paths:
        for reason, tests in for_path(path).items():
            sys.stdout.write("\n  ".join((f"{path}: {reason}", *tests)) + "\n")
    tests = selected(paths)
    if not tests:
        sys.stderr.write(f"no tests for {', '.join(paths) or 'no change'}: see {HEAD!r} in CONTRIBUTING.md\n")
        return 2
    if "--list" in arguments:
        return 0
    return subprocess.call([sys.executable, "-m", "pytest", "-n", "auto", *tests], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
