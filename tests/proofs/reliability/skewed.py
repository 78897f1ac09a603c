"""A server whose clock is wrong, and senders and consumers whose clocks are.

What is ready stays ready when the server's clock steps back, so a message may come before its time as the
clock then shows it. Early is what comes before its time though the clock did not step back since it was sent:
the ids of messages say how often it had until then.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import time_machine

import rq_dlq
from rq_dlq import Message
from tests.proofs.reliability import shims
from tests.proofs.reliability.actors import BATCH, CHUNK, DELAY, Place, note_acked, server_time, steadily
from tests.proofs.reliability.journal import Journal
from tests.servers import Server

PACE = 0.06  # seconds between two chunks of a sender, so that it sends through many steps


@dataclass(frozen=True)
class Clock:
    """What is wrong with a server's clock, for all processes that care.

    Args:
        directory: that of the server.
    """

    directory: Path

    @property
    def skew(self) -> Path:
        """The file that the shim reads: milliseconds."""
        return self.directory / "skew"

    @property
    def steps_back(self) -> int:
        """How often it stepped back."""
        return self._back.stat().st_size if self._back.exists() else 0

    def step(self, milliseconds: int) -> None:
        """Have it wrong by this from now on; not while somebody has it run steadily."""
        fresh = self.skew.with_suffix(".new")
        fresh.write_text(str(milliseconds))
        with self._locked(fcntl.LOCK_EX):
            if self.skew.exists() and milliseconds < int(self.skew.read_text()):
                with self._back.open("ab") as back:
                    back.write(b".")
            fresh.rename(self.skew)

    def steady(self) -> AbstractContextManager[None]:
        """Meanwhile it does not step."""
        return self._locked(fcntl.LOCK_SH)

    @property
    def _back(self) -> Path:
        return self.directory / "back"

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        with (self.directory / "lock").open("ab") as lock:
            fcntl.flock(lock, how)
            yield


class SkewedServer(Server):
    """A server whose clock is wrong by as much as one says."""

    def __init__(self, directory: Path, *options: str, port: int = 0) -> None:
        directory.mkdir()
        self.clock = Clock(directory)
        self.clock.step(0)
        preload = {"LD_PRELOAD": shims.built("clock", directory), "SKEW": str(self.clock.skew)}
        super().__init__(directory, *options, port=port, environment=preload)


def in_another_time(wrong_by: timedelta) -> AbstractContextManager[Any]:
    """Meanwhile the clock of this process is wrong."""
    return time_machine.travel(datetime.now(UTC) + wrong_by, tick=True)


def send(place: Place, clock: Clock, wrong_by: timedelta, sender: str, chunks: int) -> None:
    """Send so many chunks, every other one delayed, by a clock that is wrong."""
    with in_another_time(wrong_by):
        queue, journal = place.queue(), place.journal()
        for chunk in islice(steadily(PACE), chunks):
            delayed = chunk % 2 == 1
            with clock.steady():
                due = server_time(queue) + DELAY if delayed else 0
                numbers = range(chunk * CHUNK, (chunk + 1) * CHUNK)
                ids = [f"{sender}-{number}-{clock.steps_back}" for number in numbers]
                journal.note("send", ids)
                delay = DELAY / 1000 if delayed else None
                queue.send_many([Message(body=due, id=name) for name in ids], delay=delay)
            journal.note("sent", ids)


def consume(place: Place, clock: Clock, wrong_by: timedelta) -> None:
    """Claim and ack for ever, by a clock that is wrong."""
    with in_another_time(wrong_by):
        queue, journal = place.queue(), place.journal()
        while True:
            deliveries = queue.claim(BATCH, wait="1s")
            if deliveries:
                note_got(place, clock, journal, deliveries)
                journal.note("ack", [delivery.id for delivery in deliveries])
                note_acked(journal, queue.ack(deliveries))


def note_got(
    place: Place, clock: Clock, journal: Journal, deliveries: Sequence[rq_dlq.Delivery[int]]
) -> None:
    """Note that they were delivered, and which of them came early."""
    back = clock.steps_back
    early = [
        delivery.id
        for delivery in deliveries
        if delivery._lease.ends - place.lease < not_before(delivery)
        and int(delivery.id.rpartition("-")[2]) == back
    ]
    if early:
        journal.note("early", early)
    journal.note("got", [delivery.id for delivery in deliveries])


def not_before(delivery: rq_dlq.Delivery[int]) -> int:
    """The server's time, milliseconds, that it waits for; what was sent without a delay waits for none."""
    at_once = delivery.delivery_count == 1 and not delivery.body
    return 0 if at_once else max(delivery.due, delivery.body)
