"""Worker processes: signals, death, and a Redis that restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

import rq_dlq
from tests import servers
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.servers.warm import Warm, WarmProcess
from tests.worker.conftest import Working

ROOT = Path(__file__).parents[2]
COLOURS = pytest.mark.parametrize("colour", ["def", "async def"])
AT_ONCE = after(0, most=9)


Starts = Callable[..., AbstractContextManager["subprocess.Popen[str]"]]


@pytest.fixture
def process(warm: Warm) -> Starts:
    """Starts `tests.worker.app`."""

    @contextmanager
    def start(server: str, colour: str, lease: str = "30s") -> Iterator[subprocess.Popen[str]]:
        words = [f"unix://{server}", colour, lease]
        with WarmProcess(
            warm, words, module="tests.worker.app", cwd=ROOT, stderr=subprocess.PIPE, text=True
        ) as started:
            try:
                yield started
            finally:
                started.kill()

    return start


@contextmanager
def by_itself(server: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The same, as a child of this process: it has our signals."""
    command = [sys.executable, "-m", "tests.worker.app", f"unix://{server}", *words, "30s"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def end(worker: subprocess.Popen[str]) -> str:
    """Wait for its end, which must be in order; what it logged."""
    _, log = worker.communicate(timeout=60)
    assert worker.returncode == 0, log
    assert "Traceback" not in log
    return log


def logged(worker: subprocess.Popen[str], text: str) -> None:
    """Wait until it logs this."""
    assert worker.stderr is not None
    for line in worker.stderr:
        if text in line:
            return
    pytest.fail(f"it ended without a word of {text!r}")


@contextmanager
def heard(number: signal.Signals, how: Any) -> Iterator[None]:
    """Processes that are started meanwhile ignore this signal, or not, however the tests were started."""
    before = signal.signal(number, how)
    yield
    signal.signal(number, before)


def begun(raw: Any) -> list[bytes]:
    notes: list[bytes] = raw.lrange("begun", 0, -1)
    return notes


@COLOURS
def test_first_signal_finishes_what_has_begun_and_releases_the_rest(
    colour: str, broker: rq_dlq.Broker, server: str, raw: Any, process: Starts
) -> None:
    queue = broker.queue("a")
    with process(server, colour) as worker:
        queue.send_many(["quick"] * 50)  # shows that calls are short, so that many are claimed
        wait_until(lambda: queue.stats().totals.get("acked") == 50)
        queue.send_many(["wait", *["quick"] * 20])
        wait_until(lambda: b"wait" in begun(raw))
        worker.send_signal(signal.SIGTERM)
        logged(worker, "finishing")
        raw.set("go", 1)
        logged(worker, "stopped")
        end(worker)
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.totals["acked"]) == (20, 0, 51)
    assert [message.charged for message in queue.peek()] == [0] * 20


@COLOURS
def test_second_signal_cancels_and_releases(
    colour: str, broker: rq_dlq.Broker, server: str, raw: Any, process: Starts
) -> None:
    queue = broker.queue("a")
    with process(server, colour) as worker:
        queue.send("wait")
        wait_until(lambda: begun(raw))
        worker.send_signal(signal.SIGTERM)
        logged(worker, "finishing")
        worker.send_signal(signal.SIGTERM)
        end(worker)
    assert raw.exists("ended") == 0
    (message,) = queue.peek()
    assert (message.delivery_count, message.charged, message.released) == (1, 0, 1)


@COLOURS
def test_a_call_that_cannot_be_cancelled_is_left_behind_and_released(
    colour: str, broker: rq_dlq.Broker, server: str, raw: Any, process: Starts
) -> None:
    queue = broker.queue("a")
    with process(server, colour) as worker:
        queue.send("block")
        wait_until(lambda: begun(raw))
        for word in ("finishing", "cancelling"):  # two signals at once would be one
            worker.send_signal(signal.SIGTERM)
            logged(worker, word)
        assert "1 consumers did not end: their messages are released" in end(worker)
    (message,) = queue.peek()
    assert (message.charged, message.released) == (0, 1)


@COLOURS
def test_a_killed_worker_s_messages_are_taken_over(
    colour: str, broker: rq_dlq.Broker, server: str, raw: Any, working: Working, *, process: Starts
) -> None:
    """At the end of the lease and within a second: idle workers do the maintenance (I15)."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    taken: list[tuple[float, int]] = []
    queue.handler()(lambda _, d: taken.append((time.monotonic(), d.delivery_count)))
    with process(server, colour, "1s") as worker:
        queue.send("wait")
        wait_until(lambda: begun(raw))
        worker.kill()
        killed = time.monotonic()
        with working(broker):
            wait_until(lambda: taken)
    ((at, count),) = taken
    assert at - killed < 1 + 9  # a second, on a machine that does nothing else
    assert count == 2


def test_a_frozen_worker_s_late_ack_does_nothing(
    broker: rq_dlq.Broker, server: str, raw: Any, process: Starts
) -> None:
    """I2: its lease lapsed, and someone else has the message."""
    queue = broker.queue("a", redelivery=AT_ONCE, lease="1m")
    with process(server, "def", "0.5s") as worker:
        queue.send("wait")
        wait_until(lambda: begun(raw))
        worker.send_signal(signal.SIGSTOP)
        held = queue.claim(wait="10s")
        raw.set("go", 1)
        worker.send_signal(signal.SIGCONT)
        wait_until(lambda: raw.lrange("ended", 0, -1) == [b"wait"])
        worker.send_signal(signal.SIGTERM)
        assert "the result of attempt 1 is ignored" in end(worker)
    assert held[0].ack().outcome == "acked"


@contextmanager
def restartable() -> Iterator[tuple[str, Any]]:
    """A server that keeps its data, and a function that kills it and starts it again."""
    program = servers.needed()
    with tempfile.TemporaryDirectory(prefix="rq-dlq-") as directory:
        path = f"{directory}/redis.sock"
        command = [program, "--port", "0", "--unixsocket", path, "--dir", directory]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        running: list[subprocess.Popen[bytes]] = []

        def kill() -> None:
            for process in running:
                process.kill()
                process.wait()
            running.clear()

        def start() -> None:
            kill()
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            wait_until(lambda: servers.answers(path))

        start()
        try:
            yield path, (kill, start)
        finally:
            kill()


@COLOURS
def test_a_worker_outlives_a_restart_of_redis(colour: str, process: Starts) -> None:
    """What it did meanwhile it acks afterwards: nothing runs twice."""
    with restartable() as (path, (kill, start)), process(path, colour) as worker:
        raw = redis.Redis(unix_socket_path=path)
        broker = rq_dlq.Broker(f"unix://{path}")
        queue = broker.queue("a")
        queue.send_many(["quick"] * 5)
        wait_until(lambda: queue.stats().totals.get("acked") == 5)
        queue.send("apart")
        wait_until(lambda: raw.llen("begun") == 6)
        kill()
        logged(worker, "apart ended")
        start()
        queue.send_many(["quick"] * 5)
        wait_until(lambda: queue.stats().totals.get("acked") == 11)
        assert raw.llen("begun") == 11
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
        assert worker.returncode == 0
        broker.close()
        raw.close()


def test_a_worker_waits_for_redis_to_start(process: Starts) -> None:
    with restartable() as (path, (kill, start)):
        kill()
        with process(path, "def") as worker:
            logged(worker, "waiting for Redis")
            start()
            with rq_dlq.Broker(f"unix://{path}") as broker:
                queue = broker.queue("a")
                queue.send("quick")
                wait_until(lambda: queue.stats().totals.get("acked") == 1)
            worker.send_signal(signal.SIGTERM)
            end(worker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_worker_that_waits_for_redis_can_be_stopped(number: signal.Signals, tmp_path: Path) -> None:
    with heard(signal.SIGHUP, signal.SIG_DFL), by_itself(str(tmp_path / "nobody.sock"), "def") as worker:
        logged(worker, "waiting for Redis")
        worker.send_signal(number)
        logged(worker, f"{number.name}: finishing running calls")
        logged(worker, "stopped")
        end(worker)


def test_under_nohup_it_goes_on_when_its_terminal_is_closed(tmp_path: Path) -> None:
    with heard(signal.SIGHUP, signal.SIG_IGN), by_itself(str(tmp_path / "nobody.sock"), "def") as worker:
        logged(worker, "waiting for Redis")
        worker.send_signal(signal.SIGHUP)
        worker.send_signal(signal.SIGTERM)
        logged(worker, "SIGTERM: finishing running calls")
        end(worker)


def test_worker_is_a_program_without_a_terminal(server: str, broker: rq_dlq.Broker) -> None:
    """SIGINT ends it as SIGTERM does."""
    with by_itself(server, "def") as worker:
        queue = broker.queue("a")
        queue.send("quick")
        wait_until(lambda: queue.stats().totals.get("acked") == 1)
        os.kill(worker.pid, signal.SIGINT)
        assert "SIGINT: finishing running calls" in end(worker)
