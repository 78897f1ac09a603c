"""When the consumers of a worker end on their own: all together."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from rq_dlq.core.queues import calls, counts
from rq_dlq.core.steps.step import Wait
from rq_dlq.values.durations import human
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import paused_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.worker.stopping import Until

AGAIN = 20  # milliseconds between two looks at the other consumers
NOT_TAKEN = 5_000  # milliseconds after which ready messages are left that no claim takes


class Member(Protocol):
    """A consumer, as far as its end depends on it."""

    trouble: str
    queue: QueueState[Any]


class Together:
    """Ends the consumers of a worker together.

    A call may send messages to any queue of the worker, so no consumer ends while another one has messages.
    When none has any, one of them looks at the queues (`Worker` says for what). "empty" leaves ready messages
    that no claim takes: in a paused queue, or for another reason for five seconds.

    Args:
        stopped: whether the worker is stopping.

    Attributes:
        left: why ready messages are left, by queue.
    """

    def __init__(self, until: Until, stopped: Callable[[], bool]) -> None:
        self._until, self._stopped = until, stopped
        self._consumers: list[Member] = []
        self._busy: set[Member] = set()
        self._idle: set[Member] = set()
        self._looking = threading.Lock()
        self._looks = 0  # that found something to wait for
        self._taken = time.monotonic()  # when a claim last found messages
        self._ended = False
        self.left: dict[str, str] = {}

    def join(self, consumer: Member) -> None:
        """Note a consumer, before any of them begins."""
        self._consumers.append(consumer)

    def begin(self, consumer: Member) -> None:
        """Note that a claim of this consumer found messages."""
        self._taken = time.monotonic()
        self._busy.add(consumer)

    @property
    def works(self) -> bool:
        """Whether a consumer has messages; their calls may send others."""
        return bool(self._busy)

    def rest(self, consumer: Member) -> None:
        """Note that this consumer has no messages."""
        self._busy.discard(consumer)

    def leave(self, consumer: Member) -> None:
        """Note that this consumer ends, since it cannot reach Redis."""
        self._idle.add(consumer)

    def over(self, consumer: Member) -> Steps[bool]:
        """Whether the consumers end, after a claim of this one that did not wait and found nothing.

        It waits until all others have made such a claim, or until one has messages.
        """
        looks = self._looks
        self._idle.add(consumer)
        try:
            while not (self._ended or self._stopped() or self._busy or self._looks > looks):
                if len(self._idle) == len(self._consumers) and self._looking.acquire(blocking=False):
                    try:
                        self._ended = self._looks == looks and (yield from self._is_end())
                        self._looks += not self._ended
                    finally:
                        self._looking.release()
                else:
                    yield Wait(consumer.queue.keys.silent, AGAIN)
        finally:
            if not self._ended:
                self._idle.discard(consumer)
        return self._ended

    def _is_end(self) -> Steps[bool]:
        """Whether nothing is left to wait for; no consumer claims meanwhile."""
        self.left = {}
        for queue in {one.queue.name: one.queue for one in self._consumers if not one.trouble}.values():
            if (yield from self._waits_for(queue)):
                return False
        return True

    def _waits_for(self, queue: QueueState[Any]) -> Steps[bool]:
        if self._until == "drained":
            return not (yield from counts.is_drained(queue))
        if queue.part != "live" or queue.view:
            return False
        now, found = yield calls.stats(queue.keys, queue.name)
        if not found.ready:
            return False
        if found.paused:
            self.left[queue.name] = f"the queue is {paused_until(found.until, moment(now))}"
            return False
        if (yield calls.is_limited(queue.keys)) or time.monotonic() - self._taken < NOT_TAKEN / 1000:
            return True
        self.left[queue.name] = f"no claim took any for {human(NOT_TAKEN)}"
        return False
