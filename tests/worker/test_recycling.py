"""A worker process that has handled enough messages, or has grown too large, ends for a new one."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

import rq_dlq
from rq_dlq import ConfigurationError
from rq_dlq.cli import _processes
from rq_dlq.cli._processes import Supervisor
from rq_dlq.worker import Worker, recycling
from rq_dlq.worker.finished import MOST
from rq_dlq.worker.recycling import Limits, Recycling, resident
from rq_dlq.worker.stopping import ending_signals
from tests.behaviour.helpers import after
from tests.servers import wait_until
from tests.tables import each_row
from tests.worker.conftest import Working
from tests.worker.test_handlers import COLOURS, register
from tests.worker.test_suspects import register as register_waiting
from tests.worker.test_suspects import suspects


@COLOURS
def test_it_ends_after_its_messages_and_leaves_the_others_untried(colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a", redelivery=after("1h", most=1))

    def handle(body: int, _: Any) -> None:
        if body % 2:
            raise ValueError

    register(queue, colour, handle)
    queue.send_many(range(2_000))
    worker = Worker(broker, max_messages=200)
    worker.run()
    counts = worker.tally.counts
    handled = counts["acked"] + counts["redelivered"]
    assert 180 <= handled < 220 + 5 * MOST
    assert counts["redelivered"] > 50  # failures count
    stats = queue.stats()
    assert (stats.ready, stats.leased) == (2_000 - handled, 0)
    assert not any(delivery.redelivered for delivery in queue.claim(500))


@COLOURS
def test_with_ack_each_it_is_exact(colour: str, broker: rq_dlq.Broker) -> None:
    queue = broker.queue("a")
    register(queue, colour, lambda _body, _delivery: None, ack_each=True)
    queue.send_many(range(20))
    Worker(broker, max_messages=3).run()
    assert (queue.stats().totals["acked"], queue.stats().ready) == (3, 17)


@COLOURS
@pytest.mark.parametrize("suspect", [False, True])
def test_a_running_call_comes_to_its_end(
    colour: str, broker: rq_dlq.Broker, working: Working, *, suspect: bool
) -> None:
    queue, go, begun = broker.queue("a"), threading.Event(), threading.Event()

    def handle(body: str, _: Any) -> None:
        if body == "wait":
            begun.set()
            assert go.wait(60)

    if suspect:
        suspects(queue, "wait")
    else:
        queue.send("wait")
    register_waiting(queue, colour, handle, concurrency=2)
    with working(broker, max_messages=5) as worker:
        assert begun.wait(60)
        queue.send_many(["quick"] * 10)
        wait_until(worker.stop.finishing.is_set)
        go.set()
        wait_until(lambda: worker.vitals.stage == "stopping" and not queue.stats().leased)
        assert not worker.stop.cancelling.is_set()
    assert worker.tally.counts["acked"] + queue.stats().ready == 11
    assert "wait" not in [message.body for message in queue.peek(20)]


@COLOURS
def test_it_ends_when_it_takes_too_much_memory(
    colour: str, broker: rq_dlq.Broker, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = [300 << 20]
    monkeypatch.setattr(recycling, "resident", lambda: used[0])
    monkeypatch.setattr(recycling, "LOOK", 0)
    queue, seen = broker.queue("a"), list[int]()
    register(queue, colour, lambda body, _: seen.append(body))
    queue.send(1)
    with working(broker, max_memory="500MB") as worker:
        wait_until(lambda: seen == [1])
        assert not worker.stop.finishing.is_set()
        used[0] = 551 << 20
        wait_until(worker.stop.finishing.is_set)
    queue.send(2)
    assert queue.stats().ready == 1


def test_a_limit_that_is_reached_before_the_first_message_is_not_heeded(
    broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise each process would end at once, and no message be handled."""
    monkeypatch.setattr(recycling, "LOOK", 0)
    queue = broker.queue("a")
    queue.handler(concurrency=1)(lambda _: None)
    queue.send_many(range(100))
    Worker(broker, until="empty", max_memory="1MB").run()
    assert queue.stats().totals["acked"] == 100
    (said,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert "before its first message, more than max_memory, about 1 MB, allows" in said


def test_twice_the_memory_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a parent that has not let the process end at its limit."""
    monkeypatch.setattr(recycling, "LOOK", -1)
    told: list[str] = []
    one = Recycling(Limits(None, 100), Counter(), lambda: told.append("full"))
    one.far = lambda: told.append("far")
    for used in (89, 111, 170, 179, 221, 300):
        monkeypatch.setattr(recycling, "resident", lambda used=used: used)
        one.look()
        if used < 180:
            assert told == ["full"] * (used > 100)
    assert told == ["full", "far"]


def test_the_memory_is_that_of_the_process() -> None:
    before = resident()
    assert before == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    held = b"x" * (64 << 20)
    assert resident() - before == pytest.approx(len(held), rel=0.2)


def test_without_proc_it_is_the_most_that_the_process_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    now = resident()
    monkeypatch.setattr(recycling, "STATM", tmp_path / "none")
    assert 0.9 * now <= resident() < 100 * now  # the kernel brings either up to date in its own time


def test_each_process_draws_its_own_limits() -> None:
    reached: list[int] = []
    counts = Counter[str]()
    for _ in range(200):
        counts.clear()
        one = Recycling(Limits(1_000, None), counts, lambda: reached.append(counts["acked"] + counts["dead"]))
        for outcome, times in (("released", 600), ("acked", 600), ("dead", 500)):
            for _ in range(times):
                counts[outcome] += 1
                one.note()
    assert len(reached) == 200  # once each
    assert 900 <= min(reached) < 950
    assert 1_050 < max(reached) <= 1_100


@each_row(
    ("options", "said"),
    [
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": True}, "max_messages"),
        ({"max_messages": "many"}, "max_messages"),
        ({"max_memory": "much"}, 'Pass text such as "64MB"'),
        ({"max_memory": "0MB"}, "max_memory"),
        ({"max_memory": 0}, "max_memory"),
    ],
)
def test_a_limit_that_is_none_is_refused(options: dict[str, Any], said: str) -> None:
    broker = rq_dlq.Broker("redis://nowhere")
    broker.queue("a").handler()(print)
    with pytest.raises(ConfigurationError, match=said):
        Worker(broker, **options)


PROCESS = """
import os, sys, time
os.write(0, {words})
while os.read(0, 1): pass
"""


@pytest.fixture
def _signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ending_signals()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Watched:
    """What a supervisor starts, and how many others ran when it started each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: bytes, later: bytes) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.others: list[int] = []
        self._start, self._words = _processes.start, (first, later)
        monkeypatch.setattr(_processes, "start", self.start)

    def start(self, _: Any, parent: Any) -> subprocess.Popen[bytes]:
        self.others.append(sum(one.poll() is None for one in self.started))
        words = self._words[len(self.started) >= 3]
        self.started.append(self._start([sys.executable, "-S", "-c", PROCESS.format(words=words)], parent))
        return self.started[-1]


@pytest.mark.usefixtures("_signals")
def test_one_process_is_replaced_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although all ask at once: the next one ends when the new one works."""
    watched = Watched(monkeypatch, b"wf", b"wf")
    supervisor = Supervisor([], 3)

    def end() -> None:
        wait_until(lambda: len(watched.started) >= 9)
        supervisor.end()

    ending = threading.Thread(target=end)
    ending.start()
    assert supervisor.run() == 0
    ending.join()
    assert watched.others[:3] == [0, 1, 2]
    assert watched.others[3:] == [2] * len(watched.others[3:])


@pytest.mark.usefixtures("_signals")
def test_while_a_new_process_does_not_work_no_other_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, b"wf", b"")
    supervisor = Supervisor([], 3)
    tended: list[int] = []
    replace = Supervisor._replace_one

    def replace_one(self: Supervisor) -> None:
        replace(self)
        if len(watched.started) >= 4:
            tended.append(1)
            if len(tended) == 20:
                supervisor.end()

    monkeypatch.setattr(Supervisor, "_replace_one", replace_one)
    assert supervisor.run() == 0
    assert len(watched.started) == 4


@pytest.mark.usefixtures("_signals")
def test_a_process_that_takes_twice_its_memory_waits_for_no_turn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """None of the others works, so at its limit it would go on."""
    watched = Watched(monkeypatch, b"fm", b"")
    supervisor = Supervisor([], 3)

    def end() -> None:
        wait_until(lambda: len(watched.started) >= 6)
        supervisor.end()

    ending = threading.Thread(target=end)
    ending.start()
    assert supervisor.run() == 0
    ending.join()
    assert len(watched.started) == 6
    told = [one for one in caplog.messages if "takes twice --max-memory" in one]
    assert len(told) == 3
    assert "restarting it in" not in caplog.text
