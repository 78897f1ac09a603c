"""The leases that the worker's thread extends: those of threads, and those of a blocked event loop.

All due leases of the threads of a handler are extended in one call, and between the turns of two threads,
since each turn may take a round trip for an ack. With a round trip for each lease, 200 threads 40 ms from
Redis needed 8 s, and leases of 10 s lapsed while their calls ran.
"""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any

from rq_dlq.worker.stopping import TICK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq._redis import Connections
    from rq_dlq.doctor.vitals import Vitals
    from rq_dlq.worker.consumer import Consumer


class Leases:
    """Extends the leases of the consumers; the leases of one queue together.

    With a thousand threads, one round trip for each would take longer than a lease.
    """

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
