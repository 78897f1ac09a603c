"""Measures the queues. Each figure has a separate queue, and takes a part of the time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq._keys import NAMES
from rq_dlq.cli.bench.limits import BATCH, BODY, BYTES, WAIT, ServerLimits, limits, loaded, pick_ups, rate
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.worker import Worker

if TYPE_CHECKING:
    from rq_dlq.client.broker import Broker
    from rq_dlq.client.queue import Queue

PARTS = 24  # parts of the time: a figure takes one to fill its queue, and one to measure
MOST = 20_000  # messages in a queue
FEW = 2_000  # pending messages in a short queue, to compare its cost with a long one
SOME = 10  # messages per call in that comparison
USED = """local used = 0
for _, key in ipairs(KEYS) do used = used + (redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0) end
return used"""
WORKERS = {  # how handlers run: `async def` or `def`, and how many at once
    "worker as it comes": (False, 1),
    "worker, 8 threads": (False, 8),
    "worker, 10 async calls": (True, 10),
    "worker, 100 async calls": (True, 100),
}


@dataclass(frozen=True)
class Figure:
    """A measured figure, and its limit.

    Attributes:
        name: the measured operation.
        value: the measured value.
        unit: messages a second ("/s"), or a unit for which less is better.
        limit: the best possible value, such as that of the same work without queues; None: there is none.
        limit_is: a description of the limit.
    """

    name: str
    value: float
    unit: str = "/s"
    limit: float | None = None
    limit_is: str = ""

    @property
    def share(self) -> float | None:
        """The fraction of the limit that is reached; 1: all of it."""
        if not self.limit or not self.value:
            return None
        return self.value / self.limit if self.unit == "/s" else self.limit / self.value


def measure(broker: Broker, seconds: float) -> Iterator[Figure]:
    """Measure all figures, one by one, in about this many seconds."""
    part = seconds / PARTS
    bare = limits(broker, part)
    yield Figure("PING", bare.ping)
    yield Figure("EVALSHA of an empty script", bare.script)
    yield from QueueFigures(broker, bare, part).figures()


class QueueFigures:
    """Measures queues.

    Args:
        part: the seconds for one figure.
    """

    def __init__(self, broker: Broker, bare: ServerLimits, part: float) -> None:
        self._broker, self._bare, self._part = broker, bare, part
        self._most = MOST  # messages for each worker

    def figures(self) -> Iterator[Figure]:
        """All figures."""
        bare = self._bare
        yield self._one("send one", self._send_one)
        yield Figure("send many", self._send_many(), limit=bare.push, limit_is="RPUSH by a bare script")
        yield self._one("consume one by one", self._consume)
        yield self._popped("claim 100, ack 100", self._claim_and_ack)
        for name, (is_async, at_once) in WORKERS.items():
            yield self._popped(name, partial(self._work, at_once, is_async=is_async))
        yield from self._pick_ups()
        yield Figure("a pending message of 100 bytes", self._bytes(), "bytes", BYTES, "its body")
        yield from self._failures()
        yield Figure(
            f"cost of a call, {MOST:,} : {FEW:,} pending", self._depth(), "times", 1, "no difference"
        )

    def _one(self, name: str, measured: Callable[[], float]) -> Figure:
        return Figure(name, measured(), limit=self._bare.script, limit_is="EVALSHA of an empty script")

    def _popped(self, name: str, measured: Callable[[], float]) -> Figure:
        return Figure(name, measured(), limit=self._bare.pop, limit_is="LPOP by a bare script")

    def _queue(self, name: str, count: int = 0, **settings: Any) -> Queue[Any]:
        """A queue with this many messages, or as many as the time allows."""
        queue: Queue[Any] = self._broker.queue(f"bench.{name}", **settings)
        end = time.monotonic() + self._part
        while count > 0 and time.monotonic() < end:
            queue.send_many([BODY] * min(count, 10 * BATCH))
            count -= 10 * BATCH
        return queue

    def _send_one(self) -> float:
        queue = self._queue("send")
        return rate(lambda: queue.send(BODY), 1, self._part)

    def _send_many(self) -> float:
        queue, bodies = self._queue("send"), [BODY] * 10 * BATCH
        return rate(lambda: queue.send_many(bodies), len(bodies), self._part / 2)

    def _consume(self) -> float:
        deliveries = self._queue("consume", MOST).consume()

        def step() -> bool:
            delivery = next(deliveries, None)
            return delivery is not None and bool(delivery.ack().id)

        found = rate(step, 1, self._part)
        deliveries.close()
        return found

    def _claim_and_ack(self) -> float:
        queue = self._queue("claim", MOST)
        found = rate(lambda: bool(queue.ack(queue.claim(BATCH))), BATCH, self._part)
        self._most = min(MOST, round(found * self._part / 4))  # a worker takes longer for each message
        return found

    def _work(self, at_once: int, *, is_async: bool) -> float:
        """Messages a second, from a worker's first call to its last."""
        queue = self._queue(f"work-{is_async}-{at_once}", self._most)
        waiting, seen = queue.stats().ready, list[float]()

        def handle(body: Any) -> None:
            del body
            seen.append(time.perf_counter())

        async def awaiting(body: Any) -> None:
            handle(body)

        queue.handler(concurrency=at_once)(awaiting if is_async else handle)
        with _quietly():
            Worker(self._broker, until="empty", queues={queue.name: None}).run()
        if len(seen) < waiting:  # the worker has handled Ctrl-C
            raise KeyboardInterrupt
        return len(seen) / (seen[-1] - seen[0])

    def _pick_ups(self) -> Iterator[Figure]:
        queue = self._queue("idle")
        found = pick_ups(lambda: queue.claim(wait=WAIT), lambda: queue.send(BODY), self._part)
        for name, took, woken in zip(("p50", "p99"), found, self._bare.woken, strict=True):
            yield Figure(f"idle pick-up, {name}", took, "ms", woken, f"BLPOP, {name}")

    def _bytes(self) -> float:
        queue = self._queue("bytes", MOST // 4)
        used: int = loaded(self._broker, [queue._core.keys[name] for name in NAMES], USED)()
        return used / queue.stats().ready

    def _failures(self) -> Iterator[Figure]:
        queue = self._queue("fail", MOST, redelivery=RedeliveryPolicy(initial_delay="1h", max_delay="1h"))
        error = ValueError("a figure")
        yield self._popped(
            "claim 100, nack 100",
            lambda: rate(lambda: bool(queue.nack(queue.claim(BATCH), error)), BATCH, self._part),
        )
        queue = self._queue("poison", MOST)
        yield self._popped(
            "claim 100, poison 100",
            lambda: rate(lambda: bool(queue.poison(queue.claim(BATCH), error)), BATCH, self._part),
        )
        letters = queue.dlq
        yield self._popped(
            "redrive", lambda: rate(lambda: bool(letters.redrive(limit=BATCH)), BATCH, self._part)
        )

    def _depth(self) -> float:
        """How many times as long a claim and an ack take if many messages are pending."""
        found = list[float]()
        for pending in (FEW, MOST):
            queue = self._queue(f"depth-{pending}", pending)
            began = time.perf_counter()
            for _ in range(FEW // SOME // 2):
                queue.ack(queue.claim(SOME))
            found.append(time.perf_counter() - began)
        return found[1] / found[0]


@contextmanager
def _quietly() -> Generator[None]:
    """Silence the worker's warnings, which `rq-dlq doctor` shows."""
    logger = logging.getLogger("rq_dlq")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
