"""README's two lines in a clean clone, on a machine that has Python and little else.

$ make stranger                                            # all tests
$ python -m tests.stranger --part $(git rev-parse HEAD)    # as CI: a part, the same for a commit
$ python -m tests.stranger --python ~/pythons/3.13/bin/python

Its PATH has no server, no Java, no browser and no linter. pip keeps what it has downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from tests import once_more
from tests.part import VARIABLE

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"^```sh\n(python3 -m venv .+)\n```$", re.MULTILINE)
ABSENT = re.compile(
    r"(redis|valkey)-.+|java.*|chrom.+|google-chrome.*|firefox.*|luacheck|prom(tool|etheus)|node(js)?|npm|npx"
    r"|openssl|ruff|mypy|pyright.*|lint-imports|python3?|pytest"
)
"""Programs that are not on the PATH; Python is put there."""
KEPT = re.compile(r"PIP_.+|.+_(PROXY|proxy)|SSL_CERT_.+|LANG|LC_.+|TMPDIR|OPENBLAS_.+")
"""Variables that are left."""


def lines() -> list[str]:
    """The two lines: what starts the demo, and what runs the tests."""
    found = LINE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(found) == 2, found
    return found


def programs() -> Iterator[Path]:
    """What is on our PATH, but beside our Python."""
    own = Path(sys.executable).parent
    for folder in map(Path, os.get_exec_path()):
        if folder.is_dir() and folder != own:
            yield from folder.iterdir()


def path(folder: Path, python: str) -> Path:
    """A folder with links to those programs that are not absent, and with Python."""
    folder.mkdir()
    for program in programs():
        link = folder / program.name
        if not ABSENT.fullmatch(program.name) and not link.is_symlink() and os.access(program, os.X_OK):
            link.symlink_to(program)
    start = folder / "python3"
    start.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n', encoding="utf-8")
    start.chmod(0o755)
    return folder


def variables(home: Path, python: str, part: str) -> dict[str, str]:
    """Of a shell of somebody who has just come."""
    home.mkdir()
    cache = subprocess.run([python, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True)
    return {
        **{name: value for name, value in os.environ.items() if KEPT.fullmatch(name)},
        "HOME": str(home),
        "PATH": str(path(home / "bin", python)),
        "PIP_CACHE_DIR": cache.stdout.strip(),
        "PIP_NO_COMPILE": "no",  # which to pip says that it does not compile
        **({VARIABLE: part} if part else {}),
    }


def after(status: int, clone: Path, environment: Mapping[str, str]) -> int:
    """As `once_more.status`, of a part of the tests: those that failed are no part of their own."""
    whole = {name: value for name, value in environment.items() if name != VARIABLE}
    return once_more.status(status, ".venv/bin/pytest", clone, whole)


@click.command()
@click.option("--part", default="", help="Run the tests that this text draws; by default all.")
@click.option("--python", help="The interpreter; by default the one that runs this.")
def main(part: str, python: str | None) -> None:
    """Run them; the status is that of the line that fails."""
    found = shutil.which(python or str(getattr(sys, "_base_executable", sys.executable)))
    if found is None:
        raise click.BadParameter("no such interpreter", param_hint="--python")
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory:
        clone = Path(directory, "rq_dlq")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        environment = variables(Path(directory, "home"), found, part)
        for line in lines():
            began = time.monotonic()
            click.echo(f"$ {line}")
            done = subprocess.run(["bash", "-c", line], cwd=clone, env=environment, check=False)
            click.echo(f"status {done.returncode}, {time.monotonic() - began:.0f} s")
            in_ci = part and "pytest" in line
            if status := after(done.returncode, clone, environment) if in_ci else done.returncode:
                sys.exit(status)


if __name__ == "__main__":
    main()
