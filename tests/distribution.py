"""How `pytest -n auto` shares out the tests: which run in one process, and which begin first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK = "tests/spark/"
QUICK = "tests/test_tables.py"
"""Shows at once that the run goes."""
FIRST = (
    QUICK,
    SPARK,
    "tests/model/test_stops.py",
    "tests/cli/",
    "tests/worker/",
    "tests/test_embedded.py",
    "tests/web/",
    "tests/connections/",
)
"""What takes long follows, the longest first, and what starts processes and waits for them."""
LAST = "tests/behaviour/"
"""Many short files that only compute: at the end each processor still has something to do."""


class Shares(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """What one process takes at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def share_of(nodeid: str) -> str:
    """Its file, whose tests have servers in common; all of Spark's tests have one session."""
    file = nodeid.split("::", 1)[0]
    return SPARK if file.startswith(SPARK) else file


def rank(nodeid: str) -> int:
    """When it begins."""
    if nodeid.startswith(LAST):
        return len(FIRST) + 1
    return next((n for n, path in enumerate(FIRST) if nodeid.startswith(path)), len(FIRST))


def processes() -> int:
    """One more than there are processors, since tests also wait; each takes seconds to collect all tests."""
    return (os.cpu_count() or 1) + 1


def compile_once(directory: Path) -> None:
    """Keep compiled code here for all processes to come, if the environment forbids it beside the source.

    Hundreds of processes start, and would each compile what they import.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = str(directory)


def import_own(files: Sequence[Path], number: int, of: int) -> None:
    """Import the own part of the test files, of which this is process `number` of so many.

    pytest rewrites the assertions of each file and keeps what it compiled. In a clean clone all processes
    would begin with the same file, and each would do the work of all.
    """
    for file in files[number::of]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it says so
            import_module(".".join(file.with_suffix("").parts))


def scheduler(config: Any, log: Any) -> Shares | None:
    """That shares in the order in which the tests were collected; None: `--dist` names another one."""
    if config.option.dist != "load":
        return None
    config.option.loadscopereorder = False
    return Shares(config, log)
