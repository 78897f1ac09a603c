"""The sequence of events. Everything shown is measured at that moment; no result is known in advance."""

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from rq_dlq import ErrorGroup, QueueStats

from ..flights import LEASE
from .stage import DEPENDENCY, Stage
from .sums import Figures, Outage, many

TICK = 0.02  # seconds
PATIENCE = 120.0  # seconds without any change after which something is wrong
OUTAGE = 0.1  # when the outage begins, as a part of the time of sending
MOST_DEAD = 100  # messages that run out of tries in the outage; or every eighth payment, if that is less
DISTINCT = 10  # failed payments until their service counts as down; or every eighth, if that is less
DOWN = 2.0  # seconds of the outage with a breaker
TRIES = 3  # a machine that is very busy may let a redriven message fail again
LOOK = 1.5  # seconds in which a person can read the screen


@dataclass
class Scene:
    """What the user sees at one moment.

    Attributes:
        stats: the counts of the queue.
        elapsed: seconds since the start.
        rate: messages acked in the last second.
        now: what is happening.
        events: the events so far, each with its time in seconds.
    """

    stats: QueueStats
    elapsed: float = 0.0
    rate: float = 0.0
    now: str = ""
    events: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])


class View(Protocol):
    """The audience of the play: a terminal or a log."""

    def told(self, scene: Scene) -> None:
        """Something happened."""

    def show(self, scene: Scene) -> None:
        """A moment passed."""


class Play:
    """Runs the clock: sends the flights that are due, counts, shows."""

    def __init__(self, stage: Stage, view: View, sending: float) -> None:
        self.stage = stage
        self.scene = Scene(stage.queue.stats())
        self._view = view
        self._sending = sending
        self._began = time.monotonic()
        self._sending_since: float | None = None  # when sending began
        self._owed = [n for n, flight in enumerate(stage.flights) if flight.owed]
        self._most = self.payment(1, 4)  # the most flights that are sent in this scene
        self._hurry = False  # whether they are sent at once
        self._changed: tuple[object, ...] = ()  # after the last change
        self._changed_at = self._began
        self._acked: deque[tuple[float, int]] = deque()

    @property
    def sent_for(self) -> float:
        """Seconds since the first flight was sent."""
        return 0.0 if self._sending_since is None else time.monotonic() - self._sending_since

    def payment(self, part: int, of: int) -> int:
        """How many flights there are before the one with which this part of the payments is owed."""
        return self._owed[part * len(self._owed) // of]

    @property
    def payments(self) -> int:
        """The number of payments that are owed."""
        return len(self._owed)

    @property
    def exhausted(self) -> int:
        """How many messages ran out of tries."""
        return self.scene.stats.totals.get("exhausted", 0)

    def begin(self) -> None:
        """Begin to send flights: those of the first scene."""
        self._sending_since = time.monotonic()

    def allow(self, flights: int) -> None:
        """Send no more than this in the scene that begins, so that later ones have payments, too."""
        self._most = flights

    def send_the_rest(self) -> None:
        """Send all flights that are left, at once."""
        self._most, self._hurry = len(self.stage.flights), True

    def tell(self, what: str, now: str | None = None) -> None:
        """Show an event, and what happens from now on."""
        self.scene.now = now or what
        self.scene.events.append((time.monotonic() - self._began, what))
        self._view.told(self.scene)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; leave the program if nothing changes any more."""
        self._changed_at = time.monotonic()
        while True:
            self._tick()
            if condition():
                return
            if time.monotonic() - self._changed_at > PATIENCE:
                sys.exit(f"nothing has changed for {PATIENCE:.0f} s: {self.scene.now}")
            time.sleep(TICK)

    def _tick(self) -> None:
        stage, now = self.stage, time.monotonic()
        self._send()
        stage.workers.check()
        self.scene.stats = stage.queue.stats()
        self.scene.elapsed = now - self._began
        started = sum(worker.started for worker in stage.workers.all)
        changed = (started, replace(self.scene.stats, oldest=None, next_due=None))
        if changed != self._changed:
            self._changed, self._changed_at = changed, now
        stage.watch_rescue()
        acked = self.scene.stats.totals.get("acked", 0)
        self._acked.append((now, acked))
        while self._acked[0][0] < now - 1:
            self._acked.popleft()
        self.scene.rate = acked - self._acked[0][1]
        self._view.show(self.scene)

    def _send(self) -> None:
        """Send the flights that are due."""
        stage, rows = self.stage, len(self.stage.flights)
        if self._sending_since is None or stage.sent == rows:
            return
        part = 1.0 if self._hurry else min(1.0, self.sent_for / self._sending)
        due = min(self._most, round(part * rows))
        if due > stage.sent:
            stage.send_until(due)
        if stage.sent == rows:
            self.tell("all flights are sent", self.scene.now)


def perform(stage: Stage, view: View, sending: float) -> Figures:
    """Run the demo, from the first flight to the last sum."""
    play = Play(stage, view, sending)
    play.tell(f"{len(stage.workers.all)} workers start", "the workers start")
    play.until(lambda: all(worker.started for worker in stage.workers.all))
    play.tell(f"{len(stage.workers.all)} workers run; {len(stage.flights):,} flights are being sent")
    play.begin()
    _outage(play, OUTAGE * sending)
    _murder(play)
    second = _outage_with_a_breaker(play)
    groups = stage.queue.dlq.groups()
    redriven, took = _redrive(play, groups)
    return _figures(play, groups, redriven, took, second)


def _outage(play: Play, begin: float) -> None:
    """The payment service fails until enough messages have run out of tries."""
    payments = play.stage.payments
    play.until(lambda: play.sent_for >= begin)
    payments.down = True
    since = play.sent_for
    play.allow(play.payment(2, 4))
    play.tell("the payment service fails", "the payment service is down: refused payments are redelivered")
    enough = max(1, min(MOST_DEAD, play.payments // 8))
    play.until(lambda: play.exhausted >= enough)
    payments.down = False
    seconds = play.sent_for - since
    play.tell(
        f"the payment service is back: it refused {payments.book.refused:,} times in {seconds:.1f} s",
        "the payment service is back",
    )


def _murder(play: Play) -> None:
    """A worker is killed at the worst moment: it has paid, but not acked."""
    stage = play.stage
    play.until(lambda: not play.scene.stats.scheduled)
    stage.kill_next_payer()
    play.allow(play.payment(3, 4))
    play.until(lambda: bool(stage.held))
    victim = next(worker.number for worker in stage.workers.all if worker.killed)
    play.tell(
        f"worker {victim} is killed (SIGKILL): it has just paid, and can no longer ack",
        f"worker {victim} is dead: its messages come back when their leases are over",
    )
    play.until(lambda: not stage.held)
    held, slowest = many(len(stage.rescued), "message"), max(stage.rescued)
    play.tell(
        f"the leases of worker {victim} ended: {held} redelivered, {slowest:.1f} s after the kill",
        "the next are paid",
    )


def _outage_with_a_breaker(play: Play) -> Outage:
    """The payment service fails again; this time the queue notices, and no message runs out of tries."""
    stage, book = play.stage, play.stage.payments.book
    play.until(lambda: stage.sent == play.payment(3, 4) and _is_empty(play))
    stage.guard(max(2, min(DISTINCT, play.payments // 8)))
    refused, exhausted = book.refused, play.exhausted
    stage.payments.down = True
    since = play.sent_for
    play.tell("the payment service fails again; now the queue has a breaker")
    play.send_the_rest()
    play.until(lambda: stage.queue.dependency(DEPENDENCY).stats().open)
    play.tell("the payment service counts as down: messages that need it wait, uncharged")
    play.until(lambda: stage.sent == len(stage.flights) and play.sent_for - since > DOWN)
    waited, back = play.scene.stats.waiting + play.scene.stats.leased, play.sent_for
    stage.payments.down = False
    refused = book.refused - refused
    play.tell(f"the payment service is back: it refused {refused:,} times; {many(waited, 'message')} waited")
    play.until(lambda: _is_empty(play))
    return Outage(
        seconds=back - since,
        refused=refused,
        waited=waited,
        died=play.exhausted - exhausted,
        drained=play.sent_for - back,
    )


def _is_empty(play: Play) -> bool:
    return not (play.scene.stats.waiting or play.scene.stats.leased)


def _redrive(play: Play, groups: list[ErrorGroup]) -> tuple[int, float]:
    """Redrive the dead letters that only ran out of tries; returns their number, and the seconds it took."""
    begin = play.sent_for
    play.tell(f"the queue is empty; {play.scene.stats.dead:,} messages are dead, of {len(groups)} kinds")
    play.until(lambda: play.sent_for - begin > LOOK)
    begin, redriven = play.sent_for, 0
    for _ in range(TRIES):
        if not (back := _redrive_exhausted(play)):
            break
        redriven += back
        play.tell(f"redrive: {many(back, 'dead letter')} back in the queue")
        play.until(lambda: _is_empty(play))
    play.tell("all is done")
    return redriven, play.sent_for - begin


def _redrive_exhausted(play: Play) -> int:
    """Redrive each kind of failure that only ran out of tries; returns the number of messages."""
    letters = play.stage.queue.dlq
    kinds = [group.fingerprint for group in letters.groups() if group.reason == "exhausted"]
    return sum(letters.redrive(group=kind).counts.moved for kind in kinds)


def _quantile(values: list[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else 0.0


def _figures(play: Play, groups: list[ErrorGroup], redriven: int, took: float, second: Outage) -> Figures:
    stage, stats, book = play.stage, play.scene.stats, play.stage.payments.book
    owed = [flight.owed for flight in stage.flights if flight.owed]
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
        second_outage=second,
        payments_owed=len(owed),
        dollars_owed=sum(owed),
        payments=len(book.lines),
        dollars=book.dollars,
        twice=book.twice,
        asked_again=book.asked_again,
        lease=LEASE,
        rescued=tuple(stage.rescued),
        p50=_quantile(stage.waits, 0.5),
        p99=_quantile(stage.waits, 0.99),
        seconds=play.scene.elapsed,
    )
