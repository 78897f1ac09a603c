"""`make .venv` installs what is needed, and goes on after an installation that was interrupted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.needs import needs

ROOT = Path(__file__).resolve().parent.parent
FILES = ("Makefile", ".ci/run", "pyproject.toml", "constraints.txt")
PYTHON = """\
#!/bin/sh
[ "$1 $2" != "-m venv" ] || { mkdir -p .venv/bin && cp pip .venv/bin; }
"""
PIP = """\
#!/bin/sh
echo "$1" >> calls
[ -e patience ] || kill -KILL $PPID
"""


@needs("make")
def test_an_interrupted_installation_is_done_again(tmp_path: Path) -> None:
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    for name, text in (("python3", PYTHON), ("pip", PIP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    def ran(*command: str) -> tuple[bool, list[str]]:
        """Whether it succeeds; and what pip has been asked for so far."""
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
        return done.returncode == 0, (tmp_path / "calls").read_text().split()

    make, patience = ("make", ".venv"), tmp_path / "patience"
    assert ran(*make) == (False, ["install"])
    patience.touch()
    assert ran(*make) == (True, ["install", "install", "check"])
    assert ran(*make) == (True, ["install", "install", "check"]), "it is up to date"
    patience.unlink()
    assert ran(".ci/run", "environment") == (False, ["install", "install", "check", "install"])
    patience.touch()
    assert ran(*make) == (True, ["install", "install", "check", "install", "install", "check"])
