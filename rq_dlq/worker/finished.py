"""The number of a worker's finished calls that are not settled yet.

Finished calls are settled with the next claim, or at most five milliseconds after the first, as far as the
length of the last call tells, or when 50 of the process wait: a kill repeats them. Their deques are summed up
at each end of a call, which keeps nothing that could go wrong; a thread leaves room for one more of each
other thread. Async calls that continue in the same turn of the event loop wait for the turn in which 50 are
sent. They are taken when a connection is idle (`Connections.ready`), since opening one takes many turns, in
which 50 more ended (T38: 92 to 102 in 3 of 180 kills). Only a thread may lose that connection to another.

An ack for each 50 in place of 250 calls is dear: worker and server together, on one core, handle 0.73 to 0.87
as many messages whose handlers do nothing (a thread 0.86, eight 0.76, 10 async calls 0.87, 100 0.73), and 100
async calls of 1 ms take a fifth more CPU for the same speed. So a thread does not wait for the reply to an
ack (`thread_consumer`). The bound is on calls whose settlement is not on its way: to wait for each
reply would halve an async worker far from Redis.

Acks are not shared by threads. Shared, eight threads with calls of 5 ms reach 0.915 of the ideal in place of
0.90. But then a message and the state of its acks (refused since when, indeterminate after a lost reply, left
by a thread that ended) are in different hands, and each of these lost an ack, or counted it wrong, in some
order of outages and stops.
"""

from __future__ import annotations

from collections import deque
from typing import Any

MOST = 50  # a killed worker repeats at most this many finished calls
SETTLE_WITHIN = 0.005  # seconds after the end of a call; earlier ones are not repeated


class Finished:
    """The number of finished calls that are not settled, of all consumers of a worker process.

    Args:
        most: the limit of finished calls.

    Attributes:
        threads: how many consumers are threads.
    """

    def __init__(self, most: int = MOST) -> None:
        self._all: list[deque[Any]] = []
        self._most = self._enough = most
        self.threads = 0

    def of_consumer(self) -> deque[Any]:
        """A collection for a new consumer, whose calls are counted."""
        own = deque[Any]()
        self._all.append(own)
        return own

    def leave_room(self) -> None:
        """Lower the limit for another thread: each may finish a call before it checks the count."""
        self.threads += 1
        self._enough = max(1, self._most - self.threads + 1)

    def are_enough(self) -> bool:
        """Whether a consumer must settle its finished calls now."""
        return sum(map(len, self._all)) >= self._enough
