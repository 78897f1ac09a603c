"""The worked example of NATS Streaming's manual, `stan_timeline`: slow work, and a server that is in a hurry.

Ten messages, each four seconds of work, each given for five. NATS' server repeats what is not acked, whatever
the client holds, and the client handles the copies, too: 50 calls in 200 seconds. Here each is handled once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.behaviour.helpers import AT_ONCE, counts
from tests.cases import load
from tests.conftest import Clock
from tests.tables import each_row_afresh

ROWS = load("stan_timeline")
PREFETCHING, ONE_BY_ONE = load("stan_timeline")


@dataclass
class Worker:
    """Handles messages one after the other, and notes which."""

    queue: Any
    clock: Clock
    work: int
    handled: list[int] = field(default_factory=list[int])

    async def handle(self, delivery: Any, held: list[Any]) -> None:
        """Work for some seconds; each second it says of what it holds that it still does."""
        self.handled.append(delivery.body)
        for _ in range(self.work):
            self.clock.advance("1s")
            assert all(await self.queue.extend(held))
        await delivery.ack()

    async def one_by_one(self) -> None:
        """Claims when it has nothing to do."""
        while claimed := await self.queue.claim(1):
            await self.handle(claimed[0], claimed)

    async def in_advance(self) -> None:
        """Claims all that there is, and keeps it."""
        while held := await self.queue.claim(1_000):
            while held:
                await self.handle(held[0], held)
                held = held[1:]

    async def in_advance_and_silent(self) -> None:
        """Claims all that there is, and looks before each call whether it still has it."""
        while held := await self.queue.claim(1_000):
            for delivery in held:
                if (await self.queue.extend([delivery]))[0]:
                    self.handled.append(delivery.body)
                    self.clock.advance(self.work)
                    await delivery.ack()


WORKERS: dict[str, Callable[[Worker], Awaitable[None]]] = {
    "one by one": Worker.one_by_one,
    "in advance": Worker.in_advance,
    "in advance and silent": Worker.in_advance_and_silent,
}


@each_row_afresh("kind", WORKERS)
@each_row_afresh("row", ROWS)
async def test_each_is_handled_once(kind: str, row: dict[str, Any], broker: Any, clock: Clock) -> None:
    limit = row["max_inflight"]
    queue = broker.queue("a", redelivery=AT_ONCE, lease=row["ack_wait"], max_in_flight=limit)
    await queue.send_many(range(row["messages"]))
    begin, worker = clock.now, Worker(queue, clock, row["work"])
    await WORKERS[kind](worker)
    assert worker.handled == list(range(10))
    assert clock.now - begin == 40_000
    assert await counts(queue) == {}
    totals = (await queue.stats()).totals
    assert (totals.get("acked"), totals.get("lapsed", 0)) == (10, 0)
    if row["rq"] == "S":
        assert (len(worker.handled), (clock.now - begin) / 1000) == (row["callbacks"], row["seconds"])
    else:
        assert row["rq"].startswith("D: 10 callbacks, 40 s")
        assert len(worker.handled) < row["callbacks"]


@pytest.mark.parametrize("row", ROWS)
def test_the_example_is_understood(row: dict[str, Any]) -> None:
    """The same by NATS' rules: this is what the row is about."""
    handled = as_nats(row["messages"], row["ack_wait"], row["work"], row["max_inflight"])
    assert len(handled) == row["callbacks"]
    assert len(handled) * row["work"] == row["seconds"]
    assert [Counter(handled)[number] for number in range(row["messages"])] == row["per_message"]


def as_nats(messages: int, ack_wait: int, work: int, max_inflight: int) -> list[int]:
    """Which messages are handled, copies and all, second by second."""
    now, unsent, handled = 0, list(range(messages)), list[int]()
    queued: list[int] = []
    unacked: dict[int, int] = {}  # message: when it is sent again
    while unsent or queued:
        while unsent and len(unacked) < max_inflight:
            queued.append(unsent.pop(0))
            unacked[queued[-1]] = now + ack_wait
        handled.append(queued.pop(0))
        for second in range(1, work + 1):
            now += 1
            for late in [number for number, due in unacked.items() if due == now]:  # a moment too early
                queued.append(late)
                unacked[late] = now + ack_wait
            if second == work:
                unacked.pop(handled[-1], None)  # acked, if it was not before
    return handled
