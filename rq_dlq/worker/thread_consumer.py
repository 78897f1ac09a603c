"""A thread that claims, runs a handler call by call, and settles."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rq_dlq.core.steps import riding
from rq_dlq.worker.claiming import Pace
from rq_dlq.worker.consumer import LATE, STUCK_AFTER, Consumer
from rq_dlq.worker.finished import SETTLE_WITHIN
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.running import Running
from rq_dlq.worker.stopping import DeadlinePassed, HandlerTimeout, Stopped

if TYPE_CHECKING:
    from rq_dlq.client.delivery import Delivery
    from rq_dlq.client.handlers import Handler
    from rq_dlq.worker.shared import Shared


class ThreadConsumer(Consumer["Delivery[Any]"]):
    """Claims for one handler, runs calls one after another, and settles in batches.

    The worker's thread extends its leases (`Leases`) and releases messages that wait too long.
    """

    def __init__(self, handler: Handler, shared: Shared) -> None:
        super().__init__(handler, handler.queue, shared)
        shared.finished.leave_room()
        self._claiming, self._settling = shared.claiming, shared.settling
        self._pace = Pace()
        self._calls = Running(handler)
        self._current: Delivery[Any] | None = None  # its handler is running, or it is about to be settled
        self._claimed = self._extended = 0.0  # when it last claimed and extended, monotonic seconds
        self._asked = 0.0  # when it last tried to extend leases
        self._in_doubt = False  # unstarted deliveries may be lost
        self._late: Delivery[Any] | None = None  # its call exceeds its timeout, and this was logged
        self._due = 0.0  # when to settle the messages in `_done`, monotonic seconds

    def _main(self) -> None:
        super()._main()
        self._settle_rest()
        while (self._done or self._unstarted) and not self._stop.giving_up.wait(RETRY_AFTER):
            self._settle_rest()
        self._settling.run(self.give_back())

    def _settle_rest(self) -> None:
        self.settle_finished(self._settling)
        self.release_unstarted(self._settling)

    def _consume(self) -> None:
        count = 1
        while not self._stop.finishing.is_set():
            self._claiming.ready(self._key)
            count = min(self._pace.claim, 2 * count)  # other consumers that start may slow this one down
            deliveries = self._claiming.run(riding.riding(self.settle_done(), self.claim(count)))
            if self.pause:
                self._stop.finishing.wait(self.pause)
            if deliveries:
                self._claimed = self._extended = time.monotonic()
                self._unstarted.extend(deliveries)
                self._run_all()
            elif self.permit.passed:
                self.permit.wait()
            elif self._claiming.run(self.over()):
                break

    def _run_all(self) -> None:
        """Run the handler on all claimed messages, and settle them; the next claim settles the last ones."""
        since, calls = time.monotonic(), 0
        while (delivery := self._next()) is not None:
            handling = self._observers.handling(delivery) if self._observers else None
            error = self._calls.run(delivery)
            ended = time.monotonic()
            if handling is not None:
                handling.end(error)
            calls += 1
            first = not self._done
            if not self.finish(delivery, error, ended):
                self._settle(delivery, error)
            elif first:
                self._due = ended + SETTLE_WITHIN
            self._current = None
            if self._done and self._is_time(ended) and self._unstarted and self._may_retry:
                self.settle_finished(self._settling)
                since, calls = self._note_pace(since, calls), 0
        if (
            self._failures and self._may_retry
        ):  # not with the next claim, which may wait: the pace includes settling
            self.settle_finished(self._settling)
        self._note_pace(since, calls)
        self.permit.end()

    def _is_time(self, ended: float) -> bool:
        """Whether finished calls must be settled before the next call, if it takes as long as the last."""
        return 2 * ended - self._calls.began > self._due or self._finished.are_enough()

    def _note_pace(self, since: float, calls: int) -> float:
        """Note how long calls took, with their settlement; returns the time, monotonic seconds."""
        now = time.monotonic()
        if calls:
            self._pace.note((now - since) / calls, calls)
        return now

    def _next(self) -> Delivery[Any] | None:
        if self._stop.finishing.is_set():
            self.release_unstarted(self._settling)
            return None
        if self._in_doubt or time.monotonic() - self._extended > self._lease:
            self._drop_lost()
        self._current = self._next_unexpired()
        return self._current

    def _next_unexpired(self) -> Delivery[Any] | None:
        """The next delivery that has not expired since its claim."""
        outlived: list[Delivery[Any]] = []
        try:
            while (delivery := self._unstarted.popleft())._time_to_live(time.monotonic()) <= 0:  # noqa: SLF001
                outlived.append(delivery)
        except IndexError:
            delivery = None
        if outlived:
            self._settling.run(self.release_outlived(outlived))
        return delivery

    def _drop_lost(self) -> None:
        """Drop deliveries that were lost before their handlers started."""
        self._in_doubt = False
        unstarted = [*self._unstarted.copy()]
        lost = self._settling.run(self.extend(unstarted)) if unstarted else None
        if lost is not None:
            self._extended = time.monotonic()
        self.drop(lost or ())

    def _settle(self, delivery: Delivery[Any], error: BaseException | None) -> None:
        began = time.monotonic()
        while not self._settling.run(self.settle(delivery, error, began)):
            if self._stop.giving_up.wait(RETRY_AFTER):
                self.leave(delivery, error)
                break

    def put_back(self, deliveries: list[Delivery[Any]]) -> None:
        """Put back messages taken from `_unstarted`; the next thread to take them checks if they are lost."""
        self._in_doubt = True
        self._unstarted.extendleft(reversed(deliveries))

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
        """The number of messages left of its last claim, and the time of that claim."""
        return len(self._unstarted) + len(self._done) + (self._current is not None), self._claimed

    def tend(self) -> None:
        """Release messages behind a stuck call, and settle calls that ended before it."""
        now, timed_out = time.monotonic(), self._overruns()
        if timed_out and self._overruns(since=LATE):
            self._say_late()
        if (timed_out or now - self._claimed > STUCK_AFTER) and self._may_retry:
            self.release_unstarted(self._tending)
        if (self._runs_longer_than(SETTLE_WITHIN) or self._failing_since) and self._may_retry:
            self.settle_finished(self._tending)

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
        now, third = time.monotonic(), self._lease / 3
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
            self._in_doubt = True
