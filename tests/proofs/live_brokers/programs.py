"""Programs that live no longer than we do, and the side of a comparison that is made of one."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests import servers
from tests.proofs.live_brokers.driver import Side

STARTS = 60.0
"""Seconds until a broker answers, on a machine that is busy."""
TIED = '"$@" >>"$0" 2>&1 & cat; kill -9 $!; wait'
"""Runs a command, and kills it as soon as standard input ends: also when whoever started it was killed."""


class Program:
    """A server that lives no longer than this process.

    Args:
        command: what is started.
        directory: its own; the log is in it.
        answers: whether it takes requests yet.
    """

    def __init__(self, command: Sequence[str], directory: Path, answers: Callable[[], bool]) -> None:
        self._command, self._answers = command, answers
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._log = directory, directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            TimeoutError: it does not; with the end of its log.
        """
        command = ["sh", "-c", TIED, str(self._log), *self._command]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, cwd=self._directory, start_new_session=True
        )
        deadline = time.monotonic() + STARTS
        while not self._answers():
            if time.monotonic() > deadline:
                self.kill()
                message = (
                    f"{self._command[0]} does not answer: {self._log.read_text(errors='replace')[-2000:]}"
                )
                raise TimeoutError(message)
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL it."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def restart(self) -> None:
        """Kill it, and start it on what is on its disk."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def listens(port: int) -> Callable[[], bool]:
    """Whether somebody takes connections there."""

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return answers


@contextmanager
def here(directory: Path, policies: Path | None) -> Iterator[Side]:
    """A Redis that writes all to its disk, the policies imported by our command, and maintenance."""
    path = directory / "redis.sock"
    command = [servers.needed(), "--port", "0", "--unixsocket", str(path), "--dir", str(directory)]
    command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
    rq_dlq = [sys.executable, "-m", "rq_dlq", "--url", f"unix://{path}"]
    maintain = Program(
        [*rq_dlq, "maintain", "--period", "100ms"], directory / "maintain", lambda: servers.answers(str(path))
    )
    drive = [sys.executable, "-m", "tests.proofs.live_brokers.here", f"unix://{path}"]
    with Program(command, directory, lambda: servers.answers(str(path))) as program:
        if policies is not None:
            subprocess.run([*rq_dlq, "policy", "import", str(policies)], check=True, capture_output=True)
        with maintain, driven(drive, program) as side:
            yield side


@contextmanager
def driven(command: Sequence[str], program: Program) -> Iterator[Side]:
    """The side of a program that runs."""
    side = Side(command, program.restart)
    try:
        yield side
    finally:
        side.close()
