"""Changes as a maintainer makes them: a setting, a key, a field of messages and a verb, kept as patches.

$ python -m tests.changes        make each in a copy of the checkout, and run the linters and its tests there
$ python -m tests.changes verb   only this one

The patches have what is written by hand, without docs and CHANGELOG.md. Their first line says what they
add, the second which tests belong to it, as arguments of pytest. `tests.house` counts the files.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.checkout import ROOT

FOLDER = Path(__file__).with_name("changes")
GENERATED_BY = ("tests.colours_twin",)
LINTERS = ("ruff check .", "ruff format --check .", "lint-imports", "python3 -m tests.joined_lua")


class DoesNotApply(Exception):  # noqa: N818 - a finding
    """Who changed the lines of a patch makes the patch anew."""


@dataclass(frozen=True)
class Change:
    """A patch.

    Attributes:
        file: named after the kind of thing that it adds.
        adds: in words.
        tests: that belong to it, as arguments of pytest.
    """

    file: Path
    adds: str
    tests: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> Change:
        """The patch in a file."""
        adds, tests, *_ = file.read_text("utf-8").splitlines()
        return cls(file, adds, tuple(shlex.split(tests.removeprefix("Tests: "))))

    @property
    def touches(self) -> list[str]:
        """All files that it changes or adds."""
        return [row.split("\t")[2] for row in self._git(ROOT, "--numstat").splitlines()]

    def apply(self, root: Path, *parts: str) -> None:
        """Apply it to a copy of the checkout; `parts`: `--include=…` or `--exclude=…` of `git apply`.

        Raises:
            DoesNotApply: the lines that it changes are others by now.
        """
        self._git(root, *parts)

    def product(self) -> list[str]:
        """The files of the product that differ once it is applied, to a copy of what it touches."""
        with copy_of(self.touches) as copy:
            before = code_in(copy)
            self.apply(copy)
            after = code_in(copy)
        return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))

    def _git(self, root: Path, *options: str) -> str:
        # Else git would look for a repository around the copy, and apply the patch there.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
        ran = subprocess.run(
            ["git", "apply", *options, str(self.file)],
            cwd=root, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise DoesNotApply(
                f"{self.file.name} does not apply: {ran.stderr.strip()}\nApply it with "
                "`git apply --reject`, mend the rest by hand, and write `git diff -U1` below its two lines"
            )
        return ran.stdout


CHANGES = {file.stem: Change.read(file) for file in sorted(FOLDER.glob("*.patch"))}


def code_in(root: Path) -> dict[str, str]:
    """The code of the product."""
    files = [*root.glob("lua/**/*.lua"), *root.glob("rq_dlq/**/*.py")]
    return {file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files}


@contextmanager
def copy_of(paths: list[str]) -> Iterator[Path]:
    """A copy of these files of the checkout, as far as they are there."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory).resolve()
        for path in paths:
            if (ROOT / path).is_file():
                (copy / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, copy / path)
        yield copy


def whole() -> list[str]:
    """All files of the checkout that git does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    return subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")


def wrong(change: Change) -> list[str]:
    """What is wrong with a change where it is made: its tests fail, or would not notice that it lacks."""
    with copy_of(whole()) as copy:
        tests = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *change.tests]
        change.apply(copy, "--include=tests/*")
        found = [] if said(tests, copy) else ["its tests pass without it"]
        change.apply(copy, "--exclude=tests/*")
        steps = [[sys.executable, "-m", module, "--write"] for module in GENERATED_BY]
        steps += [words for line in LINTERS if shutil.which((words := line.split())[0])]
        return found + list(filter(None, (said(step, copy) for step in (*steps, tests))))


def said(command: list[str], root: Path) -> str:
    """What a command says that fails in a copy; empty: it does not fail."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    return f"$ {shlex.join(command)}\n{ran.stdout[-5_000:]}{ran.stderr[-5_000:]}" if ran.returncode else ""


def main(arguments: list[str]) -> int:
    """The command line."""
    if unknown := {*arguments} - CHANGES.keys():
        sys.stderr.write(f"no such change: {', '.join(sorted(unknown))}\n{__doc__}\n")
        return 2
    failed = False
    for name in arguments or CHANGES:
        found = wrong(CHANGES[name])
        sys.stdout.write("\n".join([f"{'no ' if found else 'ok '} {CHANGES[name].adds}", *found, ""]))
        failed = failed or bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
