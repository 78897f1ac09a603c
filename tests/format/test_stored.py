"""What the code of a release wrote into Redis reads as it read it, and can be worked on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from tests.conftest import Clock
from tests.format import store

STORED = {
    file.stem: json.loads(file.read_text()) for file in (Path(__file__).parent / "stored").glob("*.json")
}
pytestmark = pytest.mark.parametrize("name", STORED)


@pytest.fixture
def stored(name: str, raw: Any, clock: Clock) -> dict[str, Any]:
    """What that release wrote, in an empty Redis."""
    said: dict[str, Any] = STORED[name]
    store.restore(raw, said["keys"])
    clock.set(said["now"])
    return said


def test_it_reads_as_it_did(stored: dict[str, Any], raw: Any, sync_broker: rq_dlq.Broker) -> None:
    now, then = store.read(sync_broker), stored["read"]
    new = [row for row in now["settings"] if row not in then["settings"]]  # what that release did not know
    assert all(source == "default" for _, _, source in new)
    now["settings"] = [row for row in now["settings"] if row not in new]
    assert now == then
    assert store.keys(raw) == stored["keys"], "to look changed it"
    groups = sync_broker.queue("orders").dlq.groups()
    assert sync_broker.queue("orders").maintain()["grouped"] > 0
    assert sync_broker.queue("orders").dlq.groups() == groups


def test_it_is_worked_on(stored: dict[str, Any], sync_broker: rq_dlq.Broker, clock: Clock) -> None:
    """Each message is there until it is acked, with the counts that it had."""
    told = stored["read"]["messages"]
    orders = sync_broker.queue("orders")
    orders.dlq.redrive(all=True)
    orders.expired.redrive(all=True)
    clock.advance("3h")
    orders.maintain()
    sync_broker.queue("DLQ.orders").select(all=True).redrive()
    clock.advance("1h")
    seen = {delivery.id: delivery for delivery in orders.claim(99)}
    assert sorted(seen) == sorted(told)
    for name, delivery in seen.items():
        before = told[name]
        assert (delivery.priority, dict(delivery.headers)) == (before["priority"], before["headers"])
        assert delivery.delivery_count == before["delivery_count"] + 1
        assert delivery.nacked == before["nacked"]
        assert delivery.released == before["released"]
    assert all(orders.ack(list(seen.values())))
    stats = orders.stats()
    assert [getattr(stats, place) for place in store.PLACES] == [0] * 5
