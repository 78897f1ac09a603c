"""T49: processes of a worker that are replaced after some messages, all the time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import rq_dlq
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.journal import Journal, journals, lines, noted, repeated
from tests.proofs.reliability.recycled import JOURNALS, queues_of
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server

PROCESSES, MOST = 3, 60  # messages of a process, up to a tenth fewer or more
LONGEST = 0.3  # seconds of the longest calls, which one message in twenty has
AHEAD = 60  # messages that are kept waiting in each queue
LOOK = 0.3  # seconds between two looks at who works
STARTING, SOON = 60.0, 60.0  # seconds


class Fleet:
    """`rq-dlq worker --processes 3 --max-messages 60`, with work."""

    def __init__(self, url: str, directory: Path, random: Random) -> None:
        self.broker = rq_dlq.Broker(url)
        self.queues = queues_of(self.broker)
        self.journals = directory / "journals"
        self.fewest, self.sent = PROCESSES, 0
        self._random, self._journal = random, Journal(self.journals, "sender")
        words = ["worker", "tests.proofs.reliability.recycled:broker"]
        words += ["--processes", str(PROCESSES), "--max-messages", str(MOST)]
        environment = os.environ | {"RQ_DLQ_URL": url, JOURNALS: str(self.journals)}
        self.log = directory / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rq_dlq", *words], env=environment, stderr=log
            )

    def work(self, replaced: int, run: Run) -> None:
        """Send until so many processes have been replaced, or they are no more."""
        self._await_all()
        before, end = PROCESSES, time.monotonic() + SOON + 5 * replaced
        while (count := self.replaced) < replaced and time.monotonic() < end:
            run.done(count, replaced, f"{count} replaced")
            self._send()
            working = sum(not one.stopping for one in self.broker.workers())
            self.fewest = min(self.fewest, max(before, working))  # a new one may be about to report
            before = working
            time.sleep(LOOK)

    def stop(self) -> int:
        """Tell the parent to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SOON)

    @property
    def replaced(self) -> int:
        """How many processes have been followed by another one that works."""
        return max(0, len(journals(self.journals)) - 1 - PROCESSES)

    def _await_all(self) -> None:
        end = time.monotonic() + STARTING
        while len(self.broker.workers()) < PROCESSES and time.monotonic() < end:
            time.sleep(LOOK)

    def _send(self) -> None:
        for queue in self.queues:
            bodies = [self._seconds() for _ in range(AHEAD - queue.stats().ready)]
            if bodies:
                self._journal.note("sent", queue.send_many(bodies))

    def _seconds(self) -> float:
        return self._random.choice((LONGEST, *[0.005] * 19))


def judge(fleet: Fleet, code: int, run: Run) -> Figures:
    """Compare what was sent with what the calls noted."""
    sent = {*noted(fleet.journals, "sent")}
    begun, again = repeated(noted(fleet.journals, "got"))
    ended = {*noted(fleet.journals, "ack")}
    stats = [queue.stats() for queue in fleet.queues]
    left = {one.id for queue in fleet.queues for one in queue.peek(10 * AHEAD)}
    lost = len(sent - ended - left)
    found = wrong(
        {
            "lost": lost,
            "begun again": again.total(),
            "that say that they are not the first": sum(1 for _ in noted(fleet.journals, "early")),
            "calls cut short": len(begun - ended),
            "held after the end": sum(one.leased for one in stats),
            "lapsed": sum(one.totals.get("lapsed", 0) for one in stats),
            "processes fewer than all but one": max(0, PROCESSES - 1 - fleet.fewest),
            "an exit code other than 0": code,
            "processes that a limit did not end": "restarting it in" in fleet.log.read_text(),
            "replacements that did not come": max(0, _wanted(run) - fleet.replaced),
        }
    )
    counts = [sum(said == "got" for said, _ in lines(path)) for path in journals(fleet.journals)]
    return Figures(
        trials=fleet.replaced,
        acknowledged=len(sent),
        lost=lost,
        duplicated=again.total(),
        met=not found,
        note="; ".join([*found, f"at least {fleet.fewest} worked; {max(counts)} calls of a process at most"]),
    )


def _wanted(run: Run) -> int:
    return run.pick(short=6, whole=100)


def run(run: Run) -> Figures:
    """Replace them again and again, and stop."""
    with Server(run.directory / "redis") as server:
        fleet = Fleet(server.url, run.directory, run.random)
        try:
            fleet.work(_wanted(run), run)
            code = fleet.stop()
        finally:
            fleet.process.kill()
        figures = judge(fleet, code, run)
        with server.client() as raw:
            found = [one for queue in fleet.queues for one in audited(raw, queue.name)]
        fleet.broker.close()
    if found:
        return Figures(trials=figures.trials, met=False, note="; ".join([*found, figures.note]))
    return figures


ROWS = (
    Row(
        "T49",
        f"{PROCESSES} processes, sync and async, each replaced after about {MOST} messages, while "
        "calls run and messages are claimed ahead",
        "what runs is finished, the rest given back untried: 0 lost, 0 begun again, 0 held; one at a time",
        run,
    ),
)
