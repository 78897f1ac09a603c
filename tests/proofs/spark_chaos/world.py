"""What a scenario works with: a Redis of its own, a folder, and drivers that it starts and kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import redis

import rq_dlq
from rq_dlq.spark.halving import SparkBatchPoison
from tests import servers
from tests.audit import audit
from tests.proofs.spark_chaos.count import NOTHING, Tally, kept, tally, written

ROOT = Path(__file__).parents[3]
PATIENCE = 240.0  # seconds for whatever a driver does; CHAOS_PATIENCE says otherwise
FEW = rq_dlq.RedeliveryPolicy(max_redeliveries=1)  # a lapse of a batch is not charged


class BrokenError(Exception):
    """A promise was broken, or the trial did not come about; the sentence says which."""


class TooLateError(BrokenError):
    """It did not come about in time: broken, or the machine is busy."""


def require(condition: object, sentence: str) -> None:
    """Raise unless it holds."""
    if not condition:
        raise BrokenError(sentence)


def wait_for(condition: Callable[[], object], sentence: str, seconds: float = 0.0) -> None:
    """Wait until it holds; raise when it does not come about within these seconds; 0: `PATIENCE`."""
    seconds = seconds or float(os.environ.get("CHAOS_PATIENCE", PATIENCE))
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TooLateError(f"waited {seconds:.0f} s in vain: {sentence}")
        time.sleep(0.05)


def only_died(queue: rq_dlq.Queue[Any], message: str) -> None:
    """Require that this message has died, as the poison of its batch, and no other one."""
    dead = [*queue.dlq.browse()]
    require(len(dead) == 1, f"{len(dead)} messages died, in place of one")
    require(dead[0].id == message, "another message died")
    require(dead[0].cause.type.endswith(SparkBatchPoison.__name__), f"it died of {dead[0].cause.type}")


@dataclass
class Process:
    """A program in a process group of its own, which writes to a file."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        """What it has said."""
        return self.log.read_text(errors="replace")

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self.process.poll() is not None

    def raised(self, error: type[Exception]) -> bool:
        """Whether a query of it ended with this error."""
        return f"{error.__module__}.{error.__qualname__}: " in self.text

    def until_said(self, text: str) -> None:
        """Wait until it says this."""
        wait_for(lambda: text in self.text or self.ended, f"the program says {text!r}")
        require(text in self.text, f"the program ended before it said {text!r}:\n{self.tail}")

    def until_ended(self, seconds: float = 0.0) -> None:
        """Wait until it has done its work."""
        self._wait(seconds)
        require(self.process.returncode == 0, f"the program failed:\n{self.tail}")

    def until_gone(self) -> None:
        """Wait until it has ended, in whatever way."""
        self._wait()

    def until_failed(self) -> None:
        """Wait until it gives up."""
        self._wait()
        require(self.process.returncode == 1, f"the program did not fail:\n{self.tail}")

    def until_killed(self, point: str) -> None:
        """Wait until it has killed itself."""
        self._wait()
        require(
            self.process.returncode == -signal.SIGKILL, f"the program never came to {point}:\n{self.tail}"
        )

    def kill(self) -> None:
        """Kill all its processes, as a machine that loses power would."""
        if not self.ended:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def kill_java(self) -> None:
        """Kill the driver's Java process, and wait until the Python processes around it have ended."""
        psutil.Process(self.process.pid).children()[0].kill()
        self._wait()
        wait_for(self._group_is_empty, "the Python processes of a driver end with its Java process", 30)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all its processes, as a host that is paused would; they go on at the end."""
        driver = psutil.Process(self.process.pid)
        processes = [driver, *driver.children(recursive=True)]
        for each in processes:
            each.suspend()
        try:
            yield
        finally:
            for each in processes:
                each.resume()

    def _group_is_empty(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def _wait(self, seconds: float = 0.0) -> None:
        wait_for(lambda: self.ended, "the program ends", seconds)

    @property
    def tail(self) -> str:
        """The end of what it has said."""
        return "\n".join(self.text.splitlines()[-40:])


@dataclass
class World:
    """One run of a scenario.

    Attributes:
        told: is called with a sentence after each trial.
        trials: how many there were.
        tally: what was lost and duplicated, where it is promised that nothing is.
    """

    url: str
    folder: Path
    random: random.Random
    told: Callable[[str], None]
    trials: int = 0
    tally: Tally = NOTHING
    started: list[Process] = field(default_factory=list[Process])

    def __post_init__(self) -> None:
        self.broker = rq_dlq.Broker(self.url)
        self.raw: Any = redis.Redis.from_url(self.url)

    def trial(self, sentence: str) -> None:
        """One more is over."""
        self.trials += 1
        self.told(sentence)

    def send(self, queue: str, count: int) -> list[str]:
        """Send numbers; their ids."""
        there = self.broker.queue(queue, redelivery=FEW)
        return [each for _ in range(0, count, 500) for each in there.send_many(range(min(500, count)))]

    def delete(self, queue: str) -> None:
        """Delete a queue, in another process: there the bug is planted, too."""
        code = "import sys; import rq_dlq; from tests.proofs.spark_chaos.planted import plant; plant();"
        code += " rq_dlq.Broker(sys.argv[1]).queue(sys.argv[2]).delete(force=True)"
        self.start(sys.executable, "-c", code, self.url, queue).until_ended()

    def start(self, *command: str, **environment: str) -> Process:
        """Start a program of this checkout, whose files are this world's."""
        log = self.folder / f"{len(self.started)}.log"
        passes = self.folder / f"{len(self.started)}.passes"
        passes.mkdir()
        changed = {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "CHAOS_PASSES": str(passes),
            **environment,
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **changed},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(Process(process, log))
        return self.started[-1]

    def drive(
        self,
        job: str,
        *,
        master: str = "local[2]",
        conf: dict[str, str] | None = None,
        die_at: str = "",
        environment: dict[str, str] | None = None,
        **told: Any,
    ) -> Process:
        """Start a driver; see `program` for what it can be told."""
        said = json.dumps({"job": job, "master": master, "conf": conf or {}, "url": self.url, **told})
        code = "import os; os.environ['CHAOS_GROUP'] = str(os.getpid());"
        code += " from tests.proofs.spark_chaos.program import main; main()"
        command = [sys.executable, "-c", code, said]
        return self.start(*command, CHAOS_DIE_AT=die_at, **(environment or {}))

    def stream(
        self,
        queue: str,
        *places: str,
        handler: str = "",
        failures: int = 0,
        checks: bool = False,
        **said: Any,
    ) -> Process:
        """Start a driver that processes a queue, by a query for each place.

        What `said` has for neither the driver nor its losses are options of the source.
        """

        def taken(*names: str) -> dict[str, Any]:
            return {name: said.pop(name) for name in names if name in said}

        driving = taken("master", "conf", "die_at", "environment")
        losing = taken("between", "losses", "in_source", "endless")
        return self.drive(
            "stream",
            queue=queue,
            places=[str(self.place(name)) for name in places or ("query",)],
            handler=handler,
            failures=failures,
            checks=checks,
            **losing,
            options={name: str(value) for name, value in said.items()},
            **driving,
        )

    def place(self, name: str = "query") -> Path:
        """Where a query has its checkpoint and its sink."""
        return self.folder / name

    def outcome(self, queue: str, sent: Sequence[str], *places: str) -> Tally:
        """What became of these, by the sinks and the queue."""
        output = [each for name in places or ("query",) for each in written(self.place(name) / "sink")]
        return tally(sent, output, kept(self.broker.queue(queue)))

    def count(self, found: Tally) -> None:
        """Of this nothing may be lost or duplicated."""
        self.tally += found

    def until_passed(self, driver: Process, point: str, times: int) -> None:
        """Wait until a driver has come to a point so many times more."""
        wanted = self.passes(driver, point) + times
        wait_for(lambda: self.passes(driver, point) >= wanted or driver.ended, f"{wanted} times {point}")
        require(not driver.ended, f"it ended before it was {wanted} times {point}:\n{driver.tail}")

    def passes(self, process: Process, point: str) -> int:
        """How often a driver came to a point."""
        file = process.log.with_suffix(".passes") / point
        return file.stat().st_size if file.exists() else 0


@contextmanager
def world(told: Callable[[str], None], seed: int, *options: str) -> Iterator[World]:
    """A world with a Redis that has these options. At the end all is stopped, and every queue looked at."""
    with servers.running(*options) as socket, tempfile.TemporaryDirectory(prefix="rq-dlq-chaos-") as folder:
        made = World(f"unix://{socket}", Path(folder), random.Random(seed), told)
        try:
            yield made
            for family in made.raw.smembers("rq:queues"):
                audit(made.raw, family.decode())
        finally:
            for process in made.started:
                process.kill()
            made.broker.close()
            made.raw.close()
