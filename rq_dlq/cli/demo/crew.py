"""The worker processes of the demo: the command that a user would run, several times."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rq_dlq.cli._processes import start, worker_command
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.cli.demo.app import App

PATIENCE = 5.0  # seconds for a worker to end


@dataclass
class Member:
    """One worker process and the file that it writes its log to."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False

    def kill(self) -> None:
        """Kill it without warning."""
        self.killed = True
        self.process.kill()

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

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Run the workers, and end them on leaving."""
        command = worker_command(f"{self.app.name}:broker")
        with tempfile.TemporaryDirectory(prefix="rq-dlq-demo-") as directory:
            try:
                for number in range(1, self.number + 1):
                    log = Path(directory, f"worker-{number}.log")
                    with log.open("wb") as output:
                        process = start(command, env=self.env, cwd=self.app.directory, output=output)
                    self.members.append(Member(number, process, log))
                yield
            finally:
                self._end()

    def kill(self, pid: int) -> None:
        """Kill the worker with this process id without warning."""
        for member in self.members:
            if member.process.pid == pid:
                member.kill()

    def check(self) -> None:
        """Check that no worker ended by itself.

        Raises:
            RqDlqError: one did; the error has the end of its log.
        """
        for member in self.members:
            if not member.killed and member.process.poll() is not None:
                lines = member.log.read_text(errors="replace").strip().splitlines()[-3:]
                message = f"worker {member.number} ended by itself: {' / '.join(lines) or 'its log is empty'}"
                raise RqDlqError(message)

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
