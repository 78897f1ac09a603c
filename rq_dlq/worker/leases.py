"""The leases that a worker extends.

All due leases of the threads of a handler are extended in one call, and between the turns of two threads,
since each turn may take a round trip for an ack. With a round trip for each lease, 200 threads 40 ms from
Redis needed 8 s, and leases of 10 s lapsed while their calls ran. An event loop extends the leases of its
calls, or the worker's thread while that loop is blocked.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.blocking import LATE
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.stopping import TICK
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from rq_dlq._redis import Connections
    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.doctor.vitals import Vitals
    from rq_dlq.worker.consumer import Consumer
    from rq_dlq.worker.shared import Shared

CHECK = 0.05  # seconds between two checks of the stop and the leases of an event loop
BLOCKED_LEASES = 10  # for how many leases a call may block the event loop, if its handler has no timeout


class Leases:
    """Extends the leases of the consumers, in the worker's thread; those of one queue together."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals
        self._again = 0.0  # when to check again, monotonic seconds

    def keep(self, consumers: Iterable[Consumer[Any]], tending: Connections) -> None:
        """Extend due leases, unless this was done recently."""
        if time.monotonic() >= self._again:
            self.extend(consumers, tending)
            self._again = time.monotonic() + TICK

    def extend(self, consumers: Iterable[Consumer[Any]], tending: Connections) -> None:
        """Extend due leases."""
        queues: defaultdict[str, dict[Consumer[Any], list[Any]]] = defaultdict(dict)
        for consumer in consumers:
            if due := consumer.take_due():
                queues[consumer.queue.name][consumer] = due
        for holders in queues.values():
            lost = tending.run(next(iter(holders)).holding.extend([*chain(*holders.values())]))
            for holder, due in holders.items():
                holder.note_extended(lost and [delivery for delivery in due if delivery in lost])
            self._vitals.turn("worker")


class AsyncLeases:
    """Extends the leases of a consumer in its event loop; while that is blocked, see `blocking`.

    Args:
        timeout: of its handler, seconds; None: it has none.
        run: runs steps in the event loop.
        then: called when the leases are extended.
    """

    def __init__(
        self,
        consumer: Consumer[Delivery[Any]],
        shared: Shared,
        timeout: float | None,
        run: Callable[[Steps[Any]], Awaitable[Any]],
        then: Callable[[], None],
    ) -> None:
        self._consumer, self._run, self._then = consumer, run, then
        self._lease = consumer.holding.lease
        self._watch, self._vitals, self._stop = shared.watch, shared.vitals, shared.stop
        self._may_block = timeout or BLOCKED_LEASES * self._lease  # seconds
        self._loop_name = f"event loop ({consumer.queue.name})"
        self._turning: asyncio.TimerHandle | None = None

    def expect(self) -> None:
        """Expect the event loop to run, from another thread."""
        self._vitals.turn(self._loop_name, within=self._may_block)

    def turn(self) -> None:
        """Note that the event loop is running, and expect it to keep running."""
        self._watch.turn(time.monotonic())
        self.expect()
        self._turning = asyncio.get_running_loop().call_later(CHECK, self.turn)

    def rest(self) -> None:
        """Stop watching the event loop."""
        if self._turning is not None:
            self._turning.cancel()
        self._watch.turn(inf)  # another consumer in the event loop starts the watch again
        self._vitals.rest(self._loop_name)

    async def keep(self) -> None:
        """Extend the leases. An error here ends the consumer: its leases would no longer be extended."""
        consumer, holding = self._consumer, self._consumer.holding
        asked, soon = time.monotonic(), min(RETRY_AFTER, self._lease / 3)
        try:
            while True:
                await asyncio.sleep(CHECK)
                now = time.monotonic()
                due = now - holding.extended > self._lease / 3 or (holding.unsure and holding.unstarted)
                if due and now - asked > soon:
                    asked = now
                    held = [one for one in consumer.held if not (one.settled or one.lost)]
                    lost: list[Delivery[Any]] | None = await self._run(holding.extend_all(held))
                    if lost is not None:
                        consumer.note_lost(lost)
                        self._then()
        except Exception:  # noqa: BLE001 - it is logged, and ends the worker
            logger.exception("%s: the leases cannot be kept", holding.queue.name)
            self._stop.break_off()
            self._stop.cancelling.set()

    @property
    def need_help(self) -> bool:
        """Whether the event loop is blocked, and the worker's thread must extend them."""
        return min(LATE, self._lease / 3) < self._watch.blocked < self._may_block
