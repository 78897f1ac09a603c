"""The worker processes of the demo: the command that a user would run, several times."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rq_dlq.cli._processes import start, worker_command
from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from rq_dlq.cli.demo.app import App

PATIENCE = 5.0  # seconds for a worker to end


@dataclass
class Member:
    """One worker process and the file that it writes its log to."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    @property
    def started(self) -> bool:
        """Whether it has begun to consume, which is the first line of its log."""
        return self.log.stat().st_size > 0


@dataclass
class Crew:
    """Starts the workers, watches them, kills one on demand, and ends them all."""

    app: App
    number: int
    env: Mapping[str, str]
    members: list[Member] = field(default_factory=list[Member])
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rq-dlq-demo-")))
        self._stack.callback(self._end)
        with contextlib.ExitStack() as undo:
            undo.callback(self._stack.close)
            for number in range(1, self.number + 1):
                log = directory / f"worker-{number}.log"
                with log.open("wb") as output:
                    command = worker_command(f"{self.app.name}:broker")
                    process = start(command, env=self.env, cwd=self.app.directory, output=output)
                self.members.append(Member(number, process, log))
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def kill(self, member: Member) -> None:
        """Kill a worker without warning."""
        member.killed = True
        os.kill(member.pid, signal.SIGKILL)

    def check(self) -> None:
        """Check that no worker ended by itself.

        Raises:
            ConfigurationError: one did; the error has the end of its log.
        """
        for member in self.members:
            if not member.killed and member.process.poll() is not None:
                lines = member.log.read_text(errors="replace").strip().splitlines()[-3:]
                message = f"worker {member.number} ended by itself: {' / '.join(lines) or 'its log is empty'}"
                raise ConfigurationError(message)

    def _end(self) -> None:
        for member in self.members:
            member.process.terminate()
        for member in self.members:
            try:
                member.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            if member.process.stdin is not None:
                member.process.stdin.close()
