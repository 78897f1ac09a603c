"""One peer, measured once: a server of its own, its adapter, and its worker, all on one core."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Self

from tests.benchmarks.peers.install import ROOT, Environment
from tests.benchmarks.peers.peer import AS_IT_COMES, WAYS
from tests.benchmarks.peers.servers import Server, running

SEND_ONE, SEND_MANY, ONE_BY_ONE, P50, P99 = (
    "send one",
    "send many",
    "one by one",
    "pick-up p50",
    "pick-up p99",
)
TICK = 0.01  # seconds between two looks at what is left
STARTS = 30.0  # seconds until a worker has done its first message
PICKING_UP = 10.0  # seconds at most, longer than the others: a p99 takes some hundred messages


class FailedError(Exception):
    """A peer that could not be measured, and why."""


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        messages: that are sent at most for one figure.
        seconds: that one figure takes at most, the start of its worker and the pick-ups aside.
        pick_ups: of an idle worker, at most.
        core: of server, worker and adapter.
    """

    messages: int
    seconds: float
    pick_ups: int
    core: int

    @property
    def pinned(self) -> list[str]:
        """What goes before a command."""
        return ["taskset", "-c", str(self.core)]


@dataclass
class Measured:
    """What was found.

    Attributes:
        about: what the adapter says of itself.
        figures: messages a second, and milliseconds, by their names.
        failed: what could not be measured, and why.
    """

    about: dict[str, Any]
    figures: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])


class Adapter:
    """An adapter that runs."""

    def __init__(self, environment: Environment, plan: Plan, log: Path, **variables: str) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*plan.pinned, *environment.adapter],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                cwd=ROOT,
                env=environment.variables(**variables),
            )

    def ask(self, verb: str, *arguments: Any) -> Any:
        """What it answers.

        Raises:
            FailedError: it has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([verb, *arguments]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        if not (line := self._process.stdout.readline()):
            raise FailedError(f"{verb}: {last_line(self._log)}")
        return json.loads(line)

    def rate(self, verb: str, *arguments: Any) -> float:
        """Messages a second of a verb that tells how many it did, and in what time."""
        done, seconds = self.ask(verb, *arguments)
        return float(done / seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def last_line(log: Path) -> str:
    """What a process said last."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][-200:] if lines else "it said nothing"


@dataclass
class Bench:
    """One peer with its server, its adapter and its files."""

    environment: Environment
    plan: Plan
    server: Server
    adapter: Adapter
    variables: dict[str, str]
    folder: Path
    about: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.about = self.adapter.ask("about")
        self.about["versions"] |= self.server.version

    def empty(self) -> None:
        """Begin anew."""
        self.server.flush()
        self.adapter.ask("prepare")

    def fill(self) -> None:
        """Begin anew, with messages."""
        self.empty()
        self.adapter.ask("send_many", self.plan.messages, self.plan.seconds)

    @contextmanager
    def worker(self, way: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker in a process group of its own, killed at the end."""
        command = self.environment.command(self.about["workers"][way])
        own = self.variables | {"BENCH_WAY": way, "BENCH_AT_ONCE": str(WAYS[way])}
        with (self.folder / "worker.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.plan.pinned, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self.environment.variables(**own),
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def drain(self, way: str) -> float:
        """Messages a second, from the first that are done to the last, or until the time is over."""
        self.fill()
        before = self._left()
        with self.worker(way) as process:
            began, first = self._until(lambda left: left < before, STARTS, process)
            ended, last = self._until(lambda left: left == 0, self.plan.seconds, process, strict=False)
        if last == first:
            raise FailedError(f"{way}: {before:,} messages were done between two looks: send more")
        return (first - last) / (ended - began)

    def pick_up(self) -> list[float]:
        """Milliseconds until an idle worker, as it comes, has a message."""
        self.empty()
        with self.worker(AS_IT_COMES):
            self.adapter.ask("pick_up", 1, STARTS)  # the worker starts
            found: list[float] = self.adapter.ask("pick_up", self.plan.pick_ups, PICKING_UP)
        return found

    def _left(self) -> int:
        return self.server.left(self.about["left"])

    def _until(self, over: Any, seconds: float, process: Any, *, strict: bool = True) -> tuple[float, int]:
        """When what is left fulfils a condition, and how much it is then."""
        deadline = time.perf_counter() + seconds
        while True:
            left, now = self._left(), time.perf_counter()
            if over(left) or (now > deadline and not strict):
                return now, left
            if now > deadline or process.poll() is not None:
                raise FailedError(f"the worker did nothing: {last_line(self.folder / 'worker.log')}")
            time.sleep(TICK)


def measure(environment: Environment, plan: Plan) -> Measured:
    """All figures of one peer."""
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        folder = Path(name)
        fifo = folder / "pick-ups"
        os.mkfifo(fifo)
        with running(environment.name, plan.core, folder) as server:
            variables = {"BENCH_URL": server.url, "BENCH_PICK_UPS": str(fifo)}
            with Adapter(environment, plan, folder / "adapter.log", **variables) as adapter:
                return _measured(Bench(environment, plan, server, adapter, variables, folder))


def _measured(bench: Bench) -> Measured:
    found, ask = Measured(bench.about), bench.adapter
    arguments = bench.plan.messages, bench.plan.seconds

    def note(name: str, figure: Any) -> None:
        try:
            found.figures[name] = figure()
        except FailedError as error:
            found.failed[name] = str(error)

    bench.empty()
    note(SEND_ONE, lambda: ask.rate("send_one", *arguments))
    if "send_chunk" in bench.about["verbs"]:
        bench.empty()
        note(SEND_MANY, lambda: ask.rate("send_many", *arguments))
    for way in bench.about["workers"]:
        note(way, lambda way=way: bench.drain(way))
    if "take_one" in bench.about["verbs"]:
        bench.fill()
        note(ONE_BY_ONE, lambda: ask.rate("one_by_one", bench.plan.seconds))
    try:
        waited = bench.pick_up()
    except FailedError as error:
        found.failed[P50] = str(error)
    else:
        found.figures[P50], found.figures[P99] = median(waited), quantiles([*waited, *waited], n=100)[98]
    return found
