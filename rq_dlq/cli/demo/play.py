"""The sequence of events. Everything shown is measured at that moment; no result is known in advance."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rq_dlq.cli._context import Failure
from rq_dlq.cli._show import many
from rq_dlq.cli.demo.sums import Figures

if TYPE_CHECKING:
    from rq_dlq.cli.demo.stage import Stage
    from rq_dlq.values.counts import ErrorGroup, QueueStats

TICK = 0.02  # seconds
PATIENCE = 120.0  # seconds that a step may take
OUTAGE = (0.1, 0.5)  # its begin and end, as parts of the time of sending
SHORTEST_OUTAGE = 4.0  # seconds: enough to use up a message's redeliveries
VICTIM = 3
NOT_LATER = 0.8  # the victim is killed before more than this part of the flights is sent
LOOK = 1.5  # seconds in which a person can read the screen


@dataclass
class Scene:
    """What the user sees at one moment.

    Attributes:
        stats: the counts of the queue.
        elapsed: seconds since the start.
        rate: messages acked in the last second.
        now: what is happening.
        events: what happened, each with its time in seconds.
    """

    stats: QueueStats
    elapsed: float = 0.0
    rate: float = 0.0
    now: str = "the workers start"
    events: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])


class View(Protocol):
    """What the play shows itself to."""

    def told(self, scene: Scene) -> None:
        """Something happened."""

    def show(self, scene: Scene) -> None:
        """A moment passed."""


class Play:
    """Runs the clock: sends what is due, counts, shows."""

    def __init__(self, stage: Stage, view: View, sending: float) -> None:
        self.stage = stage
        self.scene = Scene(stage.queue.stats())
        self._view = view
        self._sending = sending
        self._began = time.monotonic()
        self._sending_since: float | None = None  # when sending began
        self._acked: deque[tuple[float, int]] = deque()

    @property
    def sent_for(self) -> float:
        """Seconds since the first flight was sent."""
        return 0.0 if self._sending_since is None else time.monotonic() - self._sending_since

    def begin(self) -> None:
        """Begin to send flights."""
        self._sending_since = time.monotonic()

    def tell(self, what: str, now: str | None = None) -> None:
        """Show an event, and what happens from now on."""
        self.scene.now = now or what
        self.scene.events.append((time.monotonic() - self._began, what))
        self._view.told(self.scene)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds.

        Raises:
            Failure: it did not hold in time.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            self._tick()
            if condition():
                return
            if time.monotonic() > deadline:
                raise Failure(f"this did not end in {PATIENCE:.0f} s: {self.scene.now}")
            time.sleep(TICK)

    def _tick(self) -> None:
        stage, now = self.stage, time.monotonic()
        self._send()
        stage.crew.check()
        self.scene.stats = stage.queue.stats()
        self.scene.elapsed = now - self._began
        if self.scene.stats.totals.get("lapsed"):
            stage.watch_rescue()
        acked = self.scene.stats.totals.get("acked", 0)
        self._acked.append((now, acked))
        while self._acked[0][0] < now - 1:
            self._acked.popleft()
        self.scene.rate = acked - self._acked[0][1]
        self._view.show(self.scene)

    def _send(self) -> None:
        """Send the flights that are due."""
        flights, sent = self.stage.flights, self.stage.sent
        if self._sending_since is None or len(sent) == len(flights):
            return
        self.stage.send_until(round(min(1.0, self.sent_for / self._sending) * len(flights)))
        if len(sent) == len(flights):
            self.tell("all flights are sent", self.scene.now)


def perform(stage: Stage, view: View, sending: float) -> Figures:
    """Run the demo, from the first flight to the last sum."""
    play = Play(stage, view, sending)
    play.until(lambda: all(member.started for member in stage.crew.members))
    play.tell(f"{len(stage.crew.members)} workers run; {len(stage.flights):,} flights are being sent")
    play.begin()
    _outage(play, sending)
    _murder(play)
    play.until(lambda: len(stage.sent) == len(stage.flights))
    play.until(lambda: _is_empty(play))
    groups = stage.queue.dlq.groups()
    redriven, took = _redrive(play, groups)
    return _figures(play, groups, redriven, took)


def _outage(play: Play, sending: float) -> None:
    """The payment service fails for a while; messages that run out of redeliveries meanwhile die."""
    begin, end = (share * sending for share in OUTAGE)
    payments = play.stage.payments
    play.until(lambda: play.sent_for >= begin)
    payments.down = True
    play.tell("the payment service fails", "the payment service is down: what it refuses is redelivered")
    play.until(lambda: play.sent_for >= max(end, begin + SHORTEST_OUTAGE))
    payments.down = False
    seconds = play.sent_for - begin
    play.tell(
        f"the payment service is back: it refused {payments.book.refused:,} times in {seconds:.1f} s",
        "the payment service is back",
    )


def _murder(play: Play) -> None:
    """A worker is killed at the worst moment: it has paid, but not acked."""
    stage = play.stage
    # Wait until no failed message waits, but not so long that too few payments are left.
    play.until(lambda: not play.scene.stats.scheduled or len(stage.sent) > NOT_LATER * len(stage.flights))
    stage.kill_on_payment(VICTIM)
    play.until(lambda: stage.victim is not None and stage.victim.killed)
    play.tell(
        f"worker {VICTIM} is killed (SIGKILL): it has just paid, and can no longer ack",
        f"worker {VICTIM} is dead: its messages come back when their leases are over",
    )
    play.until(lambda: bool(stage.rescued) and None not in stage.rescued.values())
    held = many(len(stage.rescued), "message")
    slowest = max(seconds for seconds in stage.rescued.values() if seconds is not None)
    play.tell(
        f"the leases of worker {VICTIM} ended: {held} redelivered, {slowest:.1f} s after the kill",
        "the rest is paid",
    )


def _is_empty(play: Play) -> bool:
    return not (play.scene.stats.waiting or play.scene.stats.leased)


def _redrive(play: Play, groups: list[ErrorGroup]) -> tuple[int, float]:
    """Redrive the dead letters that only ran out of tries; returns their number, and the seconds it took."""
    begin = play.sent_for
    play.tell(f"the queue is empty; {play.scene.stats.dead:,} messages are dead, of {len(groups)} kinds")
    play.until(lambda: play.sent_for - begin > LOOK)
    begin, redriven = play.sent_for, 0
    for group in groups:
        if group.reason == "exhausted":
            redriven += play.stage.queue.dlq.redrive(group=group.fingerprint)
    play.tell(f"redrive: {redriven:,} dead letters go back to the queue")
    play.until(lambda: _is_empty(play))
    play.tell("all is done")
    return redriven, play.sent_for - begin


def _figures(play: Play, groups: list[ErrorGroup], redriven: int, took: float) -> Figures:
    stage, stats, book = play.stage, play.scene.stats, play.stage.payments.book
    owed = [flight.owed for flight in stage.flights if flight.owed]
    cuts = statistics.quantiles(stage.waits, n=100, method="inclusive")
    return Figures(
        rows=len(stage.flights),
        sent=stats.totals.get("sent", 0),
        acked=stats.totals.get("acked", 0),
        dead=stats.dead,
        expired=stats.expired,
        left=stats.waiting + stats.leased,
        groups=tuple(groups),
        redriven=redriven,
        redrive_took=took,
        payments_owed=len(owed),
        dollars_owed=sum(owed),
        payments=len(book.lines),
        dollars=book.dollars,
        twice=book.twice,
        asked_again=book.asked_again,
        lease=stage.lease,
        rescued=tuple(seconds for seconds in stage.rescued.values() if seconds is not None),
        p50=cuts[49],
        p99=cuts[98],
        seconds=play.scene.elapsed,
    )
