"""The shared state of a worker's consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from asyncio import AbstractEventLoop

    from rq_dlq._redis import Connections
    from rq_dlq.doctor.vitals import Vitals
    from rq_dlq.worker.blocking import EventLoopWatch
    from rq_dlq.worker.finished import Finished
    from rq_dlq.worker.stopping import Stop, Until
    from rq_dlq.worker.tally import Tally
    from rq_dlq.worker.together import Together


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared state of a worker's consumers.

    Attributes:
        until: when the worker ends.
        together: ends the consumers together, if they end on their own.
        only: the permit to run a suspect.
        finished: the finished calls that are not settled.
        watch: watches the event loop.
        claiming: connections that wait for Redis until the worker is stopping.
        settling: connections that wait for Redis until the worker gives up.
        tending: connections that do not wait long, since one thread tends all consumers.
        loop: runs the async handlers.
    """

    stop: Stop
    until: Until
    together: Together
    tally: Tally
    vitals: Vitals
    only: threading.Lock
    finished: Finished
    watch: EventLoopWatch
    claiming: Connections
    settling: Connections
    tending: Connections
    loop: AbstractEventLoop
