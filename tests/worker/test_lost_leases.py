"""A worker whose leases ran out while it was away runs no handler on what is somebody else's by now."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import rq_dlq
from rq_dlq.worker.claiming import Pace
from tests.behaviour.helpers import AT_ONCE
from tests.servers import wait_until
from tests.worker.conftest import Working


@pytest.mark.parametrize("noticed", ["while a handler runs", "by the time that went by"])
def test_what_was_lost_before_it_began_is_not_begun(
    noticed: str, broker: rq_dlq.Broker, raw: Any, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = broker.queue("a", lease=1, redelivery=AT_ONCE), broker.queue("a", lease="1m")
    seen, taken, begun = list[int](), list[int](), set[int]()
    monkeypatch.setattr("rq_dlq.worker.thread_consumer.Pace", partial(Pace, soon=60.0))  # busy or not
    monkeypatch.setattr(
        "rq_dlq.worker.thread_consumer.STUCK_AFTER", 60
    )  # else it would be given back while the handler runs

    @queue.handler()
    def handle(body: int, delivery: Any) -> None:
        seen.append(body)
        held = raw.hget("rq:{a}:claims", f"{delivery.token}:held")
        if taken or int(held) < 3:  # the claims grow with what the worker manages
            return
        begun.update(seen)
        raw.zadd("rq:{a}:leases", {delivery.token: 1})
        taken.extend(each.body for each in other.claim(1_000))
        if noticed == "while a handler runs":
            wait_until(lambda: delivery.lost)
        else:
            monkeypatch.setattr("rq_dlq.worker.leases.Leases.keep", lambda *_: None)
            wait_until(lambda: raw.time()[0] > start + 3)

    queue.send_many(range(200))
    start = raw.time()[0]
    with working(broker):
        wait_until(lambda: taken)
        queue.send(200)
        wait_until(lambda: 200 in seen)
    assert set(taken) - begun
    assert not (set(seen) - begun) & set(taken)
    assert queue.stats().leased == len(taken)
