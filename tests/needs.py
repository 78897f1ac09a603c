"""What a test needs and may not find: then it is skipped, and fails in CI, where all is there.

`needs("java", "tls")` marks a test, a class or a file. The end of a run has a line for each thing that is not
here, with the number of tests that need it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import NoReturn

import pytest

PACKAGES = {
    "chromium": "chromium",
    "gcc": "gcc libc6-dev",
    "git": "git",
    "ip": "iproute2",
    "java": "default-jre-headless",
    "luacheck": "lua-check",
    "make": "make",
    "openssl": "openssl",
    "promtool": "prometheus",
    "systemd-analyze": "systemd",
    "taskset": "util-linux",
}
"""Programs that tests use, by the names of Debian's packages."""
LACK = re.compile(r"no \S.* here: .+")


needs = pytest.mark.needs
"""By the names of PACKAGES, and "tls": a server that was built with it, on which the test then runs."""


def missing(program: str) -> str:
    """That a program is not here, and how to get it; empty where it is."""
    return "" if shutil.which(program) else f"no {program} here: apt-get install {PACKAGES[program]}"


def lack(reason: str) -> NoReturn:
    """End the test for want of something: `no THIS here: HOW TO GET IT`."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def need(module: str, extra: str) -> None:
    """Go on only where this module is installed."""
    if find_spec(module) is None:
        lack(f"no {module} here: pip install -e '.[{extra}]'")


def need_release(version: Sequence[int], oldest: int) -> None:
    """Go on only where the server is as new as this release of Redis, or a Valkey."""
    if version[0] < oldest:
        lack(f"no Redis {oldest} here: leave RQ_DLQ_TEST_SERVER unset")


def need_program(program: str) -> None:
    """Go on only where this program is on the PATH."""
    if reason := missing(program):
        lack(reason)


def summary(reasons: Iterable[str]) -> list[str]:
    """A line for each thing that is not here, of the reasons for which tests were skipped."""
    lacking, others = Counter[str](), 0
    for reason in reasons:
        found = LACK.search(reason)
        lacking.update([found[0]] if found else [])
        others += found is None
    lines = [f"{count:5} not run: {reason}" for reason, count in lacking.most_common()]
    return [*lines, f"{others:5} not run for other reasons, which -rs tells"] if others else lines


def fold(skipped: Iterable[pytest.TestReport | pytest.CollectReport]) -> None:
    """Have `-rs` tell each thing that is not here once: pytest has a line for each place that skips."""
    for report in skipped:
        if isinstance(report.longrepr, tuple) and (found := LACK.search(report.longrepr[2])):
            report.longrepr = (__file__, lack.__code__.co_firstlineno, found[0])
