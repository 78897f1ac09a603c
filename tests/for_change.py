"""The tests that a change needs, chosen by what each test ran when it was recorded.

python -m tests.for_change                    of what differs from the last commit
python -m tests.for_change --since main       of what differs from this one
python -m tests.for_change lua/settle.lua     of these files, whatever is in them
python -m tests.for_change --list             only say which, and why
python -m tests.for_change --most 1000        up to so many, instead of 200
python -m tests.for_change --record           run the whole suite, and record what each test runs
python -m tests.for_change --record tests/web record these tests alone, beside what is known of the others

Of a changed function in the package the tests run that ran its changed lines, then those that ran the rest of
it; of a name outside functions, those that ran functions which use it. Of a Lua function run the tests that
killed its mutants, then those that called a verb which can reach it. What runs is recorded again, so the
record follows the changes. Other files have the tests that name them, and those of CONTRIBUTING.md.

They are not chosen by names: a name found no test for a `send_many` that no longer raised `Unconfirmed`. The
record is a cache of the checkout: in the repository somebody would have to keep it up to date. It holds the
text of each recorded file, so a line of today is found by comparing texts, and no commit has to be known. A
Lua function has no coverage on a server that is not ours to change.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from tests.chosen.choice import MOST, Changed, Found, as_arguments, chosen, is_recorded
from tests.chosen.record import FILE, ROOT, Record, hash_of

HEAD = "| change in | tests |"
PROOFS = "tests/proofs/"
"""Their tests run with them, and for changes of them."""
NO_RECORD = (
    f"no record of what each test runs ({FILE.relative_to(ROOT)}): python -m tests.for_change --record"
)
PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.chosen.recording", "-n", "auto")


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


def by_name(path: str, record: Record) -> list[Found]:
    """The files of tests that a table or a name asks for; of recorded ones the record says what they ran."""
    if is_test(path):
        return [Found("is the change", [path] if path in texts() else [])]
    room = max((room for room in table() if f"{path}/".startswith(f"{room}/")), key=len, default="")
    found = [
        Found(
            f"in the row of `{room}`", [file for tests in table().get(room, []) for file in files_in(tests)]
        )
    ]
    if path.endswith("conftest.py"):
        found.append(Found("in its folder", files_in(str(PurePosixPath(path).parent))))
    else:
        users = [
            file
            for file, text in texts().items()
            if is_test(file) and naming(path).search(text)
            and not (is_recorded(path) and file in record.files)
        ]  # fmt: skip
        found.append(Found("name it", users))
    return [
        Found(one.reason, tests)
        for one in found
        if (tests := [test for test in one.tests if path.startswith(PROOFS) or not test.startswith(PROOFS)])
    ]


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


def git(*words: str) -> str:
    """What git says; empty: nothing, or it knows no such thing."""
    ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout if ran.returncode == 0 else ""


def changes(since: str) -> list[Changed]:
    """What differs from a commit, with new files."""
    words = (("diff", "--name-only", "--no-renames", since), ("ls-files", "--others", "--exclude-standard"))
    paths = sorted({path for each in words for path in git(*each).splitlines()})
    return [Changed(path, git("show", f"{since}:{path}"), text_of(path)) for path in paths]


def named(paths: Sequence[str]) -> list[Changed]:
    """These files, or those in these folders: all that is in them."""
    found: list[Changed] = []
    for name in paths:
        path = Path(name).resolve()
        for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
            if file.suffix != ".pyc":
                short = file.relative_to(ROOT).as_posix()
                found.append(Changed(short, text_of(short), ""))
    return found


def text_of(path: str) -> str:
    """A file as it is; empty: it is gone, or no text."""
    try:
        return (ROOT / path).read_text("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def gaps(record: Record, changed: Sequence[Changed]) -> list[str]:
    """What the record does not know, since it is older."""
    now = {one.path for one in changed}
    others = [path for path, text in record.texts.items() if path not in now and text != text_of(path)]
    tests = [path for path in files_in("tests") if not path.startswith(PROOFS) and is_unknown(path, record)]
    counts = {
        "other files of the package have changed since it was recorded": len(others),
        "files of tests are not recorded as they are": len(tests),
    }
    return [f"{number} {what}" for what, number in counts.items() if number]


def is_unknown(file: str, record: Record) -> bool:
    """Whether a file of tests was not recorded as it is."""
    return record.files.get(file) != hash_of(ROOT / file)


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.for_change", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--since", default="HEAD")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--record", action="store_true")
    return parser.parse_args(given)


def main(given: Sequence[str], file: Path = FILE) -> int:
    """The command line; what pytest returns, or 2: no tests were chosen. `file`: of the record."""
    options = arguments(given)
    if options.record:
        return subprocess.call([*PYTEST, *options.paths], cwd=ROOT)
    changed = named(options.paths) if options.paths else changes(options.since)
    record = Record.read(file)
    if record is None and any(is_recorded(one.path) for one in changed):
        sys.stderr.write(f"{NO_RECORD}\n")
        return 2
    try:
        tests = selected(changed, record or Record(), options.most)
    except SyntaxError as error:
        sys.stderr.write(f"a changed file is no Python: {error}\n")
        return 2
    if not tests:
        what = ", ".join(one.path for one in changed) or "no change"
        sys.stderr.write(f"no tests for {what}: see {HEAD!r} in CONTRIBUTING.md\n")
        return 2
    if options.list:
        sys.stdout.write("\n".join(tests) + "\n")
        return 0
    return subprocess.call([*PYTEST, *tests], cwd=ROOT)


def selected(changed: Sequence[Changed], record: Record, most: int) -> list[str]:
    """The arguments of pytest; it says why, and what is left out."""
    asked, ran = list[Found](), list[Found]()
    for one in changed:
        more = one.found(record) if is_recorded(one.path) else []
        ran += more
        by_names = by_name(one.path, record)
        asked += by_names
        for found in (*more, *by_names):
            what = "tests" if found in more else "files of tests"
            sys.stdout.write(f"{one.path}: {len(found.tests):,} {what} {found.reason}\n")
    picked = chosen(ran, most)
    every = {test for found in ran for test in found.tests}
    if left := len(every) - len(picked):
        sys.stdout.write(f"{left:,} of these tests are left out; --most {len(every)} runs all\n")
    if any(is_recorded(one.path) for one in changed):
        for gap in gaps(record, changed):
            sys.stdout.write(f"{gap}: python -m tests.for_change --record\n")
    files = [test for found in asked for test in found.tests]
    return as_arguments([*files, *picked], record)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
