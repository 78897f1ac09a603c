"""Starts worker processes, and keeps them alive."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

from rq_dlq.doctor.vitals import Vitals
from rq_dlq.worker.stopping import ending_signals

if TYPE_CHECKING:
    from rq_dlq.cli._context import Context

logger = logging.getLogger("rq_dlq.processes")
TICK = 0.05  # seconds between two checks of the processes
WORKS, FULL, FAR = b"w", b"f", b"m"
"""What a process tells its parent; full: it has reached a limit, and asks for a new process in its place.

Far: it takes twice the memory that it may, and must not wait for its turn."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds before a process that died immediately is restarted


def environment(context: Context) -> dict[str, str]:
    """The global options as environment variables, since arguments would show the password of a URL."""
    options = {"RQ_DLQ_URL": context.url, "RQ_DLQ_NAMESPACE": context.namespace}
    return {name: value for name, value in options.items() if value is not None}


def worker_command(app: str, *options: str) -> list[str]:
    """The command of one worker process, which ends when its parent ends."""
    return [sys.executable, "-m", "rq_dlq", "worker", app, "--until-eof", *options]


def start(command: Sequence[str], parent: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process in its own group, so that Ctrl-C reaches it only through this process.

    Args:
        parent: its stdin, which ends when this process ends, for any reason, and which takes its words.
    """
    return subprocess.Popen(command, stdin=parent.fileno(), process_group=0)  # noqa: S603 - our own command


def tell(word: bytes) -> None:
    """Tell the parent `WORKS`, `FULL` or `FAR`."""
    with suppress(OSError):  # the parent is gone, or stdin is no socket
        os.write(0, word)


@dataclass
class Slot:
    """One process that is kept alive.

    Attributes:
        number: the number of the slot, from 1.
        process: the running process; None: none is running.
        since: when the process was started.
        pause: seconds to wait before the next start.
        due: when to start the next process.
        done: no more processes are started.
        reloading: the process was told to end for a restart.
        works: the process has told that it works.
        full: when the process told that it has reached a limit; None: it has not.
        far: it is far beyond its limit of memory.
        ears: receives what the process tells.
    """

    number: int
    process: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    pause: float = FIRST_PAUSE
    due: float = 0.0
    done: bool = False
    reloading: bool = False
    works: bool = False
    full: float | None = None
    far: bool = False
    ears: socket.socket | None = None

    def begin(self, command: Sequence[str], now: float) -> None:
        """Start a process.

        Raises:
            OSError: for example, no memory or descriptors are left.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = start(command, theirs)
            except BaseException:
                ours.close()
                raise
        ours.settimeout(0)
        self.ears, self.since, self.works, self.full, self.far = ours, now, False, None, False

    def hear(self, now: float) -> None:
        """Note what the process has told."""
        if self.ears is None:
            return
        with suppress(OSError):  # it has told nothing
            told = self.ears.recv(1 << 10)
            self.works, self.far = self.works or WORKS in told, self.far or FAR in told
            if FULL in told:
                self.full = now

    def end(self) -> None:
        """Note that the process has ended."""
        if self.ears is not None:
            self.ears.close()
        self.process, self.ears, self.works, self.full, self.far = None, None, False, None, False

    def reload(self) -> None:
        """Tell the process to end, once: a second signal would cancel running calls."""
        if self.process is not None and not self.reloading:
            self.reloading = True
            self.process.terminate()

    def put_off(self, now: float, *, lasted: bool = False) -> None:
        """Delay the next start: twice as long as before, or briefly if this process ran for a while."""
        self.pause = FIRST_PAUSE if lasted else min(2 * self.pause, LONGEST_PAUSE)
        self.due = now + self.pause


@dataclass
class Supervisor:
    """Keeps a number of processes alive until SIGTERM, SIGINT or SIGHUP, which ends them.

    Args:
        command: the command of each process.
        number: the number of processes.
        burst: a process that exits, with any code, is not restarted; one that a signal killed is.
        changes: receives the name of a changed file whenever all processes must be restarted.

    Attributes:
        vitals: the vitals of this process, which does not use Redis.
    """

    command: Sequence[str]
    number: int
    burst: bool = False
    changes: SimpleQueue[str] = field(default_factory=SimpleQueue[str])
    _stopping: bool = False
    _warned: bool = False
    _signals: deque[int] = field(default_factory=deque[int])
    _worst: int = 0
    _slots: list[Slot] = field(default_factory=list[Slot])

    def __post_init__(self) -> None:
        self.vitals = Vitals(lambda: self._stopping)
        self.vitals.redis = ""

    def run(self) -> int:
        """Run until all processes are done; returns their highest exit code."""
        for number in ending_signals():
            signal.signal(number, self._on_signal)
        self._slots = [Slot(number) for number in range(1, self.number + 1)]
        try:
            self.vitals.begin()
            while not all(slot.done for slot in self._slots):
                self.vitals.turn("supervisor")
                while self._signals:
                    self._stop(self._signals.popleft())
                if not self.changes.empty() and not self._stopping:
                    self._reload(self.changes.get())
                for slot in self._slots:
                    self._tend(slot)
                if not self._stopping:
                    self._replace_one()
                time.sleep(TICK)
        finally:
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.kill()
        return self._worst

    def end(self) -> None:
        """End all processes, as after SIGTERM. Any thread may call this."""
        self._signals.append(signal.SIGTERM)

    def _tend(self, slot: Slot) -> None:
        now = time.monotonic()
        if slot.process is not None:
            slot.hear(now)
            code = slot.process.poll()
            if code is not None:
                self._ended(slot, code, now)
        elif not slot.done and now >= slot.due:
            self._start(slot, now)

    def _start(self, slot: Slot, now: float) -> None:
        try:
            slot.begin(self.command, now)
        except OSError as error:  # the others continue
            slot.put_off(now)
            logger.warning(
                "process %d cannot be started: %s; trying again in %.1f s", slot.number, error, slot.pause
            )

    def _ended(self, slot: Slot, code: int, now: float) -> None:
        slot.end()
        if self._stopping or (self.burst and code >= 0 and not slot.reloading):
            slot.done = True
            self._worst = max(self._worst, code)
            return
        if slot.reloading:
            slot.reloading, slot.pause, slot.due = False, FIRST_PAUSE, now
            return
        slot.put_off(now, lasted=now - slot.since > LONGEST_PAUSE)
        how = f"was killed by {_name(-code)}" if code < 0 else f"ended with exit code {code}"
        logger.warning("process %d %s: restarting it in %.1f s", slot.number, how, slot.pause)

    def _reload(self, changed: str) -> None:
        """Restart all processes, each after it has finished its running calls."""
        logger.info("%s changed: restarting", changed)
        for slot in self._slots:
            slot.due, slot.done = 0.0, False
            slot.reload()

    def _replace_one(self) -> None:
        """Replace the process that first told that it is full, if all others work, or are done.

        One that is far beyond its limit of memory is replaced in any case: the others need memory, too.
        """
        for slot in self._slots:
            if slot.far and not slot.reloading:
                logger.warning("process %d takes twice --max-memory: a new one takes its place", slot.number)
                slot.reload()
        full = [(slot.full, slot.number) for slot in self._slots if slot.full is not None]
        if full and all(slot.done or (slot.works and not slot.reloading) for slot in self._slots):
            slot = self._slots[min(full)[1] - 1]
            logger.info("process %d has reached a limit: a new one takes its place", slot.number)
            self._warn_of_limit(slot, time.monotonic())
            slot.reload()

    def _warn_of_limit(self, slot: Slot, now: float) -> None:
        """Warn, once, of a limit that is reached sooner than processes take each other's places.

        A process that has to wait for its turn goes on meanwhile. If it ended at its limit, all of them could
        be away at once, and permanently if the new ones cannot start.
        """
        full = now if slot.full is None else slot.full
        if now - full > full - slot.since and not self._warned:
            self._warned = True
            logger.warning(
                "process %d reached its limit after %.1f s and went on for %.1f s, until its turn came to be "
                "replaced: with a higher --max-messages or --max-memory it would end near its limit",
                *(slot.number, full - slot.since, now - full),
            )

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        """Note the signal for the loop, so that a process that is being started also gets it."""
        self._signals.append(number)

    def _stop(self, number: int) -> None:
        """End all processes with SIGTERM: SIGINT would raise an error in one that is importing the app."""
        first, self._stopping = not self._stopping, True
        if first:
            logger.info("%s: the processes finish their running calls", signal.Signals(number).name)
        for slot in self._slots:
            if slot.process is None:
                slot.done = True
            elif not (first and slot.reloading):  # a reloading process already got SIGTERM
                slot.process.terminate()


def _name(number: int) -> str:
    """The name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
