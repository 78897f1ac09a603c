"""Signals that come in the middle of something."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rq_dlq.cli import _processes
from rq_dlq.cli._processes import Supervisor
from rq_dlq.worker.stopping import SIGNALS, Stop, heeding_signals

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
    with heeding_signals(stop, logger) as log_signals:
        logger.info("a line")
        assert lines == ["a line"]
        assert (stop.finishing.is_set(), stop.cancelling.is_set()) == (True, False)
        log_signals()
        log_signals()
        assert lines == ["a line", "SIGTERM: finishing what has begun"]
        signal.raise_signal(signal.SIGINT)
        assert stop.cancelling.is_set()
    assert lines == ["a line", "SIGTERM: finishing what has begun", "SIGINT: cancelling what runs"]


@pytest.fixture
def signals_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
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
