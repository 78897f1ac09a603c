"""A process that begins warm is as one that was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.warm import Warm, WarmProcess
from tests.tables import each_row

PROGRAM = """
import json, os, sys
print(json.dumps([
    __name__, sys.argv[1:], os.getcwd(), sys.path[0], sys.stdin.readline(), sorted(os.environ.items()),
    sorted(os.listdir("/proc/self/fd")), [
        (stream.line_buffering, stream.write_through, stream.encoding, stream.errors)
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    ],
]))
print("täglich", file=sys.stderr)
{end}
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at descriptors in /proc")
@each_row(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('in words')", 1),
        ("import atexit; atexit.register(print, 'at its end')", 0),
        ("raise ValueError('a fault')", 1),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_what_it_has_and_how_it_ends(end: str, code: int, warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(end=end))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env = {**kept, "PYTHONPATH": str(tmp_path), "HERE": "yes"}
    options: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options |= {"cwd": tmp_path, "env": env, "text": True}
    with (
        WarmProcess(warm, ["a", "b c"], module="program", **options) as forked,
        subprocess.Popen([sys.executable, "-m", "program", "a", "b c"], **options) as started,
    ):
        ends = [
            (*process.communicate("typed\n", timeout=60), process.wait()) for process in (started, forked)
        ]
    (_, error, _), (_, error_of_fork, _) = ends
    assert ends[1][0] == ends[0][0]
    assert [returned for *_, returned in ends] == [code, code]
    assert error.splitlines()[-1] == error_of_fork.splitlines()[-1]


SLEEPS: dict[str, Any] = {"module": "timeit", "before": "import time; time.sleep(60)"}


def test_it_is_killed_by_an_error_of_who_began_it(warm: Warm) -> None:
    """Otherwise a test that waited too long would wait for ever."""
    with pytest.raises(ZeroDivisionError), WarmProcess(warm, ["json.tool"], **SLEEPS) as process:
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGKILL


def test_signals_reach_it(warm: Warm) -> None:
    with WarmProcess(warm, ["json.tool"], **SLEEPS) as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
        assert process.poll() == -signal.SIGTERM
