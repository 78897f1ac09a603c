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
from rq_dlq.worker.consumer import STUCK_AFTER, Consumer
from rq_dlq.worker.finished import SETTLE_WITHIN
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.running import Running
from rq_dlq.worker.stopping import Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
    from rq_dlq.client.delivery import Delivery
    from rq_dlq.client.handlers import Handler
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.shared import Shared
    from rq_dlq.worker.stopping import HandlerTimeout

A_FEW = 20  # messages of which half may wait when others are claimed, however many threads there are
SENT = 1  # round trips whose replies may be unread when a call begins


class ThreadConsumer(Consumer["Delivery[Any]"]):
    """Claims for one handler, runs calls one after another, and settles in batches."""

    def __init__(self, handler: Handler, shared: Shared) -> None:
        super().__init__(handler, handler.queue, shared)
        shared.finished.leave_room()
        self._pace = Pace()
        self._calls = Running(handler)
        self._current: Delivery[Any] | None = None  # its handler is running, or it is about to be settled
        self._due = 0.0  # when to settle the messages in `_done`, monotonic seconds
        self._count = 1  # messages of the last claim, at most
        self._sent = Underway(self._take_sent)
        self._claims_ahead = False  # one of them claims

    def _main(self) -> None:
        super()._main()
        settling, ended = self._shared.settling, False
        while not ended:
            self._sent.read(settling)
            self.settle_finished(settling)
            settling.run(self.holding.release_unstarted())
            ended = not (self._done or self._unstarted) or self._stop.giving_up.wait(RETRY_AFTER)
        settling.run(self.holding.give_back())

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
            self.holding.extended = claimed if alone else min(self.holding.extended, claimed)
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
        if holding.doubt is not holding.checked or time.monotonic() - holding.extended > holding.lease:
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
        doubt = self.holding.doubt
        if self._unstarted:
            self._shared.settling.run(self.holding.extend_all([*self._unstarted.copy()]))
        self.holding.checked = doubt  # even if it was refused: not again for each message

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

    def tend(self) -> None:
        """Release messages behind a stuck call, and settle calls that ended before it."""
        now, tending, holding = time.monotonic(), self._shared.tending, self.holding
        self._say_late([(one, self._calls.began) for one in self.running])
        if (self._limit or self._waits(now) > STUCK_AFTER) and holding.may_retry:
            tending.run(holding.release_unstarted())
        is_long = self._calls.delivery is not None and now - self._calls.began > SETTLE_WITHIN
        if (is_long or holding.failing_since) and holding.may_retry:
            self.settle_finished(tending)
            self._sent.read_meanwhile(tending)

    def cut_short(self) -> None:
        """Raise an error inside a call over its limit, or in any call after a second signal."""
        running = self._calls.delivery
        if limit := Stopped if self._stop.cancelling.is_set() else self._limit:
            self._calls.cut_short(running, limit)

    @property
    def _limit(self) -> type[HandlerTimeout] | None:
        """The limit that the running call has exceeded; None: it has not."""
        running, now = self._calls.delivery, time.monotonic()
        return None if running is None else self._overruns(running, self._calls.began, now)

    @property
    def _kept(self) -> list[Delivery[Any]]:
        current = None if self._limit else self._current
        return [*self._unstarted.copy(), *self._done.copy(), *([] if current is None else [current])]
