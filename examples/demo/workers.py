"""The worker processes: the command that a user would run, several times."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .. import flights

APP = flights.__name__
DIRECTORY = Path(flights.__file__).parents[APP.count(".")]  # from which a worker can import it
PATIENCE = 5.0  # seconds for a worker to end


@dataclass
class Worker:
    """One worker process and the file that it writes its log to."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False

    @property
    def started(self) -> bool:
        """Whether it has begun to consume, which is the first line of its log."""
        return self.log.stat().st_size > 0


@dataclass
class Workers:
    """Starts them, watches them, kills one on demand, and ends them all."""

    number: int
    payments: str
    all: list[Worker] = field(default_factory=list[Worker])

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Run the workers, and end them on leaving."""
        env = os.environ | {"FLIGHTS_PAYMENTS": self.payments, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "rq_dlq", "worker", f"{APP}:broker", "--until-eof"]
        with tempfile.TemporaryDirectory(prefix="rq-dlq-demo-") as directory:
            try:
                for number in range(1, self.number + 1):
                    log = Path(directory, f"worker-{number}.log")
                    with log.open("wb") as output:
                        process = subprocess.Popen(  # noqa: S603 - our own command
                            command,
                            cwd=DIRECTORY,
                            env=env,
                            stdin=subprocess.PIPE,  # it is closed when we end, for whatever reason
                            stdout=output,
                            stderr=output,
                            process_group=0,  # Ctrl-C is ours
                        )
                    self.all.append(Worker(number, process, log))
                yield
            finally:
                self._end()

    def kill(self, pid: int) -> None:
        """Kill the worker with this process id without warning."""
        for worker in self.all:
            if worker.process.pid == pid:
                worker.killed = True
                worker.process.kill()

    def check(self) -> None:
        """Leave the program if a worker ended by itself, with the end of its log."""
        for worker in self.all:
            if not worker.killed and worker.process.poll() is not None:
                lines = worker.log.read_text(errors="replace").strip().splitlines()[-3:]
                sys.exit(f"worker {worker.number} ended by itself: {' / '.join(lines) or 'its log is empty'}")

    def _end(self) -> None:
        for worker in self.all:
            worker.process.terminate()
        for worker in self.all:
            try:
                worker.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.communicate()
