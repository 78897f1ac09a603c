"""Signals that come in the middle of something."""

from __future__ import annotations

import errno
import logging
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rq_dlq.cli import _processes
from rq_dlq.cli._processes import Slot, Supervisor
from rq_dlq.worker.stopping import Stop, ending_signals, heeding_signals
from tests.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


class InterruptedLog(logging.Handler):
    """A signal interrupts its first write; a write within another one fails, as that of a file does."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._writing = False

    def emit(self, record: logging.LogRecord) -> None:
        assert not self._writing, "reentrant call"
        self._writing = True
        if not self.lines:
            signal.raise_signal(signal.SIGTERM)
        self.lines.append(record.getMessage())
        self._writing = False


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> tuple[logging.Logger, list[str]]:
    logger, handler = logging.getLogger("interrupted"), InterruptedLog()
    logger.setLevel(logging.INFO)
    monkeypatch.setattr(logger, "handlers", [handler])
    return logger, handler.lines


def test_a_signal_may_interrupt_the_log(log: tuple[logging.Logger, list[str]]) -> None:
    logger, lines = log
    stop = Stop()
    with heeding_signals(stop, logger):
        logger.info("a line")
        wait_until(lambda: len(lines) == 2)
        assert lines == ["a line", "SIGTERM: finishing running calls"]
        assert (stop.finishing.is_set(), stop.cancelling.is_set()) == (True, False)
        signal.raise_signal(signal.SIGINT)
        wait_until(stop.cancelling.is_set)
    assert lines == ["a line", "SIGTERM: finishing running calls", "SIGINT: cancelling running calls"]


class InterruptedEvent(threading.Event):
    """A signal comes while its lock is held, which has to be free for what handles the signal."""

    def __init__(self) -> None:
        super().__init__()
        self._setting: int | None = None

    def set(self) -> None:
        assert self._setting != threading.get_ident(), "this thread would wait for itself"
        first, self._setting = not self.is_set(), threading.get_ident()
        if first:
            signal.raise_signal(signal.SIGTERM)
        super().set()
        self._setting = None


def test_a_signal_may_interrupt_another_one(log: tuple[logging.Logger, list[str]]) -> None:
    logger, lines = log
    lines.append("a line")
    stop = Stop()
    stop.finishing = InterruptedEvent()
    with heeding_signals(stop, logger):
        signal.raise_signal(signal.SIGTERM)
        wait_until(stop.cancelling.is_set)
    assert lines == ["a line", "SIGTERM: finishing running calls", "SIGTERM: cancelling running calls"]


@pytest.mark.timeout(60)
def test_a_signal_may_interrupt_a_wait_for_the_stop(log: tuple[logging.Logger, list[str]]) -> None:
    """The main thread holds the event's lock before it falls asleep."""
    logger, lines = log
    lines.append("a line")
    stop = Stop()
    with heeding_signals(stop, logger), stop.finishing._cond:  # type: ignore[attr-defined]
        signal.raise_signal(signal.SIGTERM)
    assert stop.finishing.wait(60)


def test_a_third_signal_ends_code_of_the_program_that_blocks(log: tuple[logging.Logger, list[str]]) -> None:
    """As a lifespan that waits for a database: no stage of the stop cuts it short."""
    logger, lines = log
    lines.append("a line")
    stop = Stop()
    with heeding_signals(stop, logger):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        wait_until(lambda: len(lines) == 4)
        stop.blocked = True
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert len(lines) == 4


@pytest.fixture
def signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ending_signals()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_restored")
def test_a_process_that_is_being_started_gets_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = _processes.start

    def interrupted(*args: Any) -> subprocess.Popen[bytes]:
        signal.raise_signal(signal.SIGTERM)
        started.append(start(*args))
        return started[-1]

    monkeypatch.setattr(_processes, "start", interrupted)
    waiting = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    assert Supervisor(waiting, 1).run() == 0
    (process,) = started
    assert process.returncode == -signal.SIGTERM


@pytest.mark.usefixtures("signals_restored")
def test_a_process_that_cannot_be_started_now_is_started_later_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine may have no descriptors left for a moment. The others go on until they are told to end."""
    monkeypatch.setattr(_processes, "LONGEST_PAUSE", 0.05)
    waiting = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    started: list[subprocess.Popen[bytes]] = []
    refusals, start = [OSError(errno.EMFILE, "Too many open files")] * 3, _processes.start

    def scarce(*args: Any) -> subprocess.Popen[bytes]:
        if len(started) == 2 and refusals:
            raise refusals.pop()
        started.append(start(*args))
        if len(started) == 2:
            started[0].send_signal(signal.SIGRTMIN + 1)
        elif len(started) == 3:
            supervisor.end()
        return started[-1]

    monkeypatch.setattr(_processes, "start", scarce)
    supervisor = Supervisor(waiting, 2)
    assert supervisor.run() == 0
    assert [one.returncode for one in started[1:]] == [-signal.SIGTERM] * 2
    assert f"process 1 was killed by signal {signal.SIGRTMIN + 1}" in caplog.text
    assert caplog.text.count("process 1 cannot be started: [Errno 24] Too many open files") == 3


class Draining(subprocess.Popen[bytes]):
    """A process that finishes what it has begun."""

    def __init__(self) -> None:
        self.told = 0

    def terminate(self) -> None:
        self.told += 1

    def __del__(self) -> None:
        """There is nothing to end."""


def test_a_process_that_is_to_be_restarted_is_told_once() -> None:
    """A second signal would cancel what it finishes: only whoever stops the supervisor twice wants that."""
    process = Draining()
    supervisor = Supervisor([], 1)
    supervisor._slots = [Slot(1, process)]
    for changed in ("shop.py", "flights.py"):
        supervisor._reload(changed)
        assert process.told == 1
    supervisor._stop(signal.SIGINT)
    assert process.told == 1
    supervisor._stop(signal.SIGINT)
    assert process.told == 2
