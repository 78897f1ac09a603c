"""A thread that claims, runs a handler call by call, and settles.

While its calls run, its acks and its next claim are under way (`InFlight`). It reads the replies when it
sends again, or has no message left. Three rules keep what a kill repeats small (`finished`):

- Before the thread waits for Redis, it has sent all that is finished. No ack waits for another reply.
- A claim that is made ahead does not wait for messages, so no ack waits behind it.
- While a call takes long, the worker's thread reads the replies, and settles what has ended since.

What is claimed ahead counts as claimed (`Pace`). Nothing is beside a suspect, which may kill the process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rq_dlq._redis.in_flight import InFlight, Underway
from rq_dlq.core.steps.riding import riding
from rq_dlq.values.record import EXPIRES, FLAGS
from rq_dlq.worker.claiming import Pace
from rq_dlq.worker.consumer import LATE, STUCK_AFTER, Consumer
from rq_dlq.worker.finished import SETTLE_WITHIN
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.running import Running
from rq_dlq.worker.stopping import DeadlinePassed, HandlerTimeout, Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
    from rq_dlq.client.delivery import Delivery
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.shared import Shared

A_FEW = 20  # messages of which half may wait when others are claimed, however many threads there are
SENT = 1  # round trips whose replies may be unread when a call begins


class ThreadConsumer(Consumer["Delivery[Any]"]):
    """Claims for one handler, runs calls one after another, and settles in batches.

    The worker's thread extends its leases (`Leases`) and releases messages that wait too long.
    """

    def __init__(self, handler: Handler, shared: Shared) -> None:
        super().__init__(handler, handler.queue, shared)
        shared.finished.leave_room()
        self._pace = Pace()
        self._calls = Running(handler)
        self._current: Delivery[Any] | None = None  # its handler is running, or it is about to be settled
        self._extended = 0.0  # when it last claimed and extended, monotonic seconds
        self._asked = 0.0  # when it last tried to extend leases
        self._checked = self.holding.doubt  # the unstarted deliveries are not lost, since then
        self._late: Delivery[Any] | None = None  # its call exceeds its timeout, and this was logged
        self._due = 0.0  # when to settle the messages in `_done`, monotonic seconds
        self._count = 1  # messages of the last claim, at most
        self._sent = Underway(self._take_sent)
        self._claims_ahead = False  # one of them claims

    def _main(self) -> None:
        super()._main()
        self._settle_rest()
        while (self._done or self._unstarted) and not self._stop.giving_up.wait(RETRY_AFTER):
            self._settle_rest()
        self._shared.settling.run(self.holding.give_back())

    def _settle_rest(self) -> None:
        settling = self._shared.settling
        self._sent.read(settling)
        self.settle_finished(settling)
        settling.run(self.holding.release_unstarted())

    def _consume(self) -> None:
        connections, claimer, permit = self._shared.claiming, self.claimer, self.holding.permit
        while not self._stop.finishing.is_set():
            self._sent.read(connections)
            if not self._unstarted:
                connections.ready(self._key)
                claim = claimer.claim(self._next_count(0))
                self._take(connections.run(riding(self.settling.settle_done(), claim)), time.monotonic())
            if claimer.pause and not self._unstarted:
                self._stop.finishing.wait(claimer.pause)
            if self._unstarted:
                self._run_all()
            elif permit.passed:
                permit.wait()
            elif connections.run(claimer.over(self.holds[0])):
                break

    def _next_count(self, left: int) -> int:
        """How many messages to claim while so many wait: others that start may slow this one down."""
        self._count = min(self._pace.claim - left, 2 * self._count)
        return self._count

    def _take(self, found: Sequence[Delivery[Any]], claimed: float) -> None:
        """Take what was claimed then (monotonic seconds); its lease began no earlier."""
        if found:
            alone = not (self._unstarted or self._done or self._current)
            self._extended = claimed if alone else min(self._extended, claimed)
            self._unstarted.extend(found)

    def _run_all(self) -> None:
        """Run the handler on all claimed messages; meanwhile settle them, and claim others."""
        since = time.monotonic()
        calls, done, observers, holding = 0, self._done, self._observers, self.holding
        run, finish, are_enough = self._calls.run, self.settling.finish, self._shared.finished.are_enough
        while (delivery := self._next()) is not None:
            handling = observers.handling(delivery) if observers else None
            error = run(delivery)
            now = time.monotonic()
            if handling is not None:
                handling.end(error)
            calls += 1
            if not done:
                self._due = now + SETTLE_WITHIN
            if not finish(delivery, error, now):
                self._settle(delivery, error)
            self._current = None
            if (
                done
                and (2 * now - self._calls.began > self._due or are_enough())
                and (self._unstarted or self._sent)
                and holding.may_retry
            ):  # before the next call, if it takes as long as the last
                self._send()
                since, calls = self._note_pace(since, calls), 0
        if self.settling.failures and holding.may_retry:  # the next claim may wait, and this counts as pace
            self.settle_finished(self._shared.settling)
        self._note_pace(since, calls)
        holding.permit.end()

    def _send(self) -> None:
        """Send acks, and a claim if few messages are left; then read earlier replies."""
        if self.settling.failures or self.queue.part != "live" or self.queue.shows_letters:
            self.settle_finished(self._shared.settling)
            return
        left, holding, claimer = len(self._unstarted), self.holding, self.claimer
        may_claim = not (self._claims_ahead or holding.permit.suspect or claimer.trouble)
        ahead, threads = self._pace.ahead, self._shared.finished.threads
        few = max(2 * ahead / (1 + threads), min(ahead, A_FEW))  # while it waits, the other threads run
        count = self._next_count(left) if may_claim and 2 * left < few else 0
        self._claims_ahead |= count > 0
        steps: Steps[Any] = self.settling.settle_done()
        if count:
            steps = riding(steps, claimer.claim(count, waits=False))
        begun = InFlight(self._shared.claiming, steps)
        self._sent.add(begun)
        self._sent.read(self._shared.claiming, SENT if begun.is_sent and not holding.bulky else 0)

    def _take_sent(self, begun: InFlight[Any], result: Any) -> None:
        if not isinstance(result, bool):  # it has claimed
            self._claims_ahead = False
            self._take(result, begun.began)

    def settle_left(self, connections: Connections) -> bool:
        """Settle its messages after its end, or before the end of the process; False: it failed."""
        self._sent.read_meanwhile(connections, every=True)
        return super().settle_left(connections)

    def _note_pace(self, since: float, calls: int) -> float:
        """Note how long calls took, with their settlement; returns the time, monotonic seconds."""
        now = time.monotonic()
        if calls:
            self._pace.note((now - since) / calls, calls)
        return now

    def _next(self) -> Delivery[Any] | None:
        holding = self.holding
        if not self._unstarted or holding.permit.suspect is not None:
            self._wait()
        if self._stop.finishing.is_set():
            self._shared.settling.run(holding.release_unstarted())
            return None
        if holding.doubt is not self._checked or time.monotonic() - self._extended > holding.lease:
            self._drop_lost()
        try:
            self._current = delivery = self._unstarted.popleft()
        except IndexError:
            return None
        row = delivery._row  # noqa: SLF001 - for speed: nearly no message expires
        if row.record[FLAGS] & EXPIRES or b"expires=" in row.state:
            self._current = self._unexpired(delivery)
        return self._current

    def _wait(self) -> None:
        """Wait for replies, with all sent that is finished: no message is left, or a suspect is next."""
        if self._done and self.holding.may_retry and (self._sent or self._unstarted):
            self._send()
        if not self._unstarted or self.holding.permit.suspect is not None:
            self._sent.read(self._shared.claiming)

    def _unexpired(self, delivery: Delivery[Any] | None) -> Delivery[Any] | None:
        """This delivery, or the first after it that has not expired since its claim."""
        outlived: list[Delivery[Any]] = []
        try:
            while delivery is not None and delivery._time_to_live(time.monotonic()) <= 0:  # noqa: SLF001
                outlived.append(delivery)
                delivery = self._unstarted.popleft()
        except IndexError:
            delivery = None
        if outlived:
            self._shared.settling.run(self.holding.release_outlived(outlived))
        return delivery

    def _drop_lost(self) -> None:
        """Drop deliveries that were lost before their handlers started."""
        self._checked = self.holding.doubt
        unstarted = [*self._unstarted.copy()]
        lost = self._shared.settling.run(self.holding.extend(unstarted)) if unstarted else None
        if lost is not None:
            self._extended = time.monotonic()
        self.holding.drop(lost or ())

    def _settle(self, delivery: Delivery[Any], error: BaseException | None) -> None:
        began = time.monotonic()
        while not self._shared.settling.run(self.settling.settle(delivery, error, began)):
            if self._stop.giving_up.wait(RETRY_AFTER):
                self.settling.leave(delivery, error)
                break

    # From the worker's thread

    @property
    def running(self) -> list[Delivery[Any]]:
        """The delivery whose call is running, if any."""
        running = self._calls.delivery
        return [] if running is None else [running]

    def runs(self, delivery: Delivery[Any]) -> bool:
        """Whether its handler is running."""
        return delivery is self._calls.delivery

    @property
    def holds(self) -> tuple[int, float]:
        """The number of messages that it holds, and when the oldest was claimed."""
        held = [*self._unstarted.copy(), *self._done.copy(), *self.running]
        return len(held), min((one._lease.read_at for one in held), default=0.0)

    def tend(self) -> None:
        """Release messages behind a stuck call, and settle calls that ended before it."""
        now, timed_out, tending = time.monotonic(), self._overruns(), self._shared.tending
        if timed_out and self._overruns(since=LATE):
            self._say_late()
        if (timed_out or self._waits(now) > STUCK_AFTER) and self.holding.may_retry:
            tending.run(self.holding.release_unstarted())
        if (self._runs_longer_than(SETTLE_WITHIN) or self.holding.failing_since) and self.holding.may_retry:
            self.settle_finished(tending)
            self._sent.read_meanwhile(tending)

    def _waits(self, now: float) -> float:
        """For how long the next message has waited for its call, seconds."""
        try:
            return now - self._unstarted[0]._lease.read_at
        except IndexError:
            return 0.0

    def _say_late(self) -> None:
        late = self._calls.delivery
        if late is not None and late is not self._late:
            self._late = late
            self.say_late(late)

    def cut_short(self) -> None:
        """Raise an error inside a call over its limit, or in any call after a second signal."""
        running = self._calls.delivery
        if self._stop.cancelling.is_set():
            self._calls.cut_short(running, Stopped)
        elif limit := self._overruns():
            self._calls.cut_short(running, limit)

    def _overruns(self, since: float = 0) -> type[HandlerTimeout] | None:
        """The limit that the running call has exceeded by more than this (seconds); None: it has not."""
        running, now = self._calls.delivery, time.monotonic() - since
        if self._timeout is not None and self._runs_longer_than(self._timeout + since):
            return HandlerTimeout
        if self._deadline and running is not None and running._time_to_live(now) <= 0:  # noqa: SLF001
            return DeadlinePassed
        return None

    def _runs_longer_than(self, seconds: float) -> bool:
        """Whether a call has been running for longer than this."""
        return self._calls.delivery is not None and time.monotonic() - self._calls.began > seconds

    def take_due(self) -> list[Delivery[Any]]:
        """A delivery of each claim whose lease must be extended now; then call `note_extended`."""
        now, third = time.monotonic(), self.holding.lease / 3
        if now - self._extended <= third or now - self._asked <= min(RETRY_AFTER, third):
            return []
        current = None if self._overruns() else self._current
        held = [*self._unstarted.copy(), *self._done.copy(), *([current] if current is not None else ())]
        kept = {delivery.token: delivery for delivery in held if not (delivery.settled or delivery.lost)}
        if kept:
            self._asked = now
        return [*kept.values()]

    def note_extended(self, lost: list[Delivery[Any]] | None) -> None:
        """Note which of these leases are lost; None: unknown."""
        if lost is not None:
            self._extended = self._asked
            self.note_lost(lost)
        if lost != []:
            self.holding.doubt = object()
