"""Queues in every state as the code at hand writes them, and what it reads in them: to be read by later code.

python -m tests.format.store FILE    write both there

Run it with the code of a release. What it wrote once is kept as it is (`tests/format/stored`).
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import redis

import rq_dlq
from tests import servers
from tests.conftest import MOVED_CLOCK, Clock

TOLD = (
    "id", "body", "headers", "priority", "enqueued_at", "expires_at", "part", "due", "delivery_count",
    "charged", "nacked", "lapsed", "released", "redriven",
)  # fmt: skip
OF_THE_DEAD = (*TOLD, "reason", "died_at", "fingerprint")
PLACES: Any = ["ready", "scheduled", "leased", "dead", "expired"]


def fill(broker: Any, clock: Clock) -> None:
    """A message in each state that there is, in each way to come there."""
    broker.policies.set("orders", dead_letter={"expiration": "30d"}, max_in_flight=500, pinned=True)
    broker.policies.set("#", expiry={"retention": "60d"}, outcomes=1_000)
    policy = rq_dlq.RedeliveryPolicy(initial_delay="10s", collision_avoidance=0, max_redeliveries=3)
    orders = broker.queue("orders", redelivery=policy)
    orders.send({"n": 1}, id="dead of exhaustion", headers={"tenant": "x"})
    for _ in range(4):
        for delivery in orders.claim():
            delivery.nack("it failed")
        clock.advance("1h")
    for name, reason in (("dead of poison", "poison"), ("redriven", "poison")):
        orders.send(name, id=name, priority=9)
        (delivery,) = orders.claim()
        delivery.poison(reason)
    orders.dlq.redrive(ids=["redriven"])
    (delivery,) = orders.claim()
    delivery.release()
    orders.send("x", id="expired", ttl="1s")
    clock.advance("1s")
    orders.maintain()
    orders.send("x", id="given back", priority=0)
    orders.release([delivery for delivery in orders.claim(9) if delivery.id == "given back"] or [])
    clock.advance("1h")
    orders.maintain()
    orders.send("x", id="failed", headers={"a": "b"}, ttl="90d")
    _fail(orders, "failed")
    orders.send({"n": [1, None]}, id="held")
    orders.send("x", id="held again", persistent=False)
    _fail(orders, "held again", after=0)
    held = {delivery.id: delivery for delivery in orders.claim(99, lease="10m")}
    orders.release([delivery for name, delivery in held.items() if not name.startswith("held")])
    broker.queue("DLQ.orders").claim(1, lease="10m")
    orders.send("x", id="delayed", delay="2h", ttl="1d", priority=1)
    orders.send(b"\xff bytes", id="fresh, of bytes", headers={"ä": "\u2603"}, persistent=False)
    for priority in (0, 4, 9):
        orders.send({"priority": priority}, id=f"fresh, of priority {priority}", priority=priority)
    orders.send("x", id="fresh, mortal", ttl="7d", headers={"a": "b"})


def _fail(queue: Any, name: str, after: int | None = None) -> None:
    claimed = queue.claim(99)
    queue.release([delivery for delivery in claimed if delivery.id != name])
    for delivery in claimed:
        if delivery.id == name:
            delivery.nack("boom", delay=after)


def read(broker: Any) -> dict[str, Any]:
    """What is to be read of it."""
    orders = broker.queue("orders")
    told = {message.id: _told(message, TOLD) for message in orders.select(places=PLACES).browse()}
    letters = [*orders.dlq.browse(), *orders.expired.browse()]
    stats, settings = orders.stats(), orders.settings()
    return {
        "messages": told,
        "letters": {letter.id: _told(letter, OF_THE_DEAD) for letter in letters},
        "counts": {place: getattr(stats, place) for place in PLACES},
        "totals": dict(sorted(stats.totals.items())),
        "settings": sorted([source.field, source.value, source.source] for source in settings.sources),
    }


def _told(message: Any, names: tuple[str, ...]) -> dict[str, Any]:
    story = [
        [event.event, event.at, event.delivery, event.delay, event.cause.message] for event in message.history
    ]
    told: dict[str, Any] = _plain({name: getattr(message, name) for name in names} | {"history": story})
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(cell) for name, cell in value.items()}
    if isinstance(value, list):
        return [_plain(cell) for cell in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value.decode("latin-1") if isinstance(value, bytes) else value


def keys(raw: Any) -> dict[str, Any]:
    """What stands in Redis for good, as JSON can say it: a byte is a character."""
    readers = {
        b"string": raw.get,
        b"hash": lambda key: sorted(list(pair) for pair in raw.hgetall(key).items()),
        b"set": lambda key: sorted(raw.smembers(key)),
        b"zset": lambda key: [list(row) for row in raw.zrange(key, 0, -1, withscores=True)],
        b"list": lambda key: raw.lrange(key, 0, -1),
    }
    kinds = {key: raw.type(key) for key in sorted(raw.keys("rq:*")) if raw.ttl(key) < 0}
    return {
        key.decode(): [kind.decode(), _plain(readers[kind](key))]
        for key, kind in kinds.items()
        if kind in readers
    }


def restore(raw: Any, stored: dict[str, Any]) -> None:
    """Write it to an empty Redis."""
    for key, (kind, value) in stored.items():
        if kind == "string":
            raw.set(key, _bytes(value))
        elif kind == "hash":
            raw.hset(key, mapping={_bytes(name): _bytes(cell) for name, cell in value})
        elif kind == "zset":
            raw.zadd(key, {_bytes(member): score for member, score in value})
        else:
            {"set": raw.sadd, "list": raw.rpush}[kind](key, *map(_bytes, value))


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def main(file: str) -> None:
    """Write a file."""
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        rq_dlq.Broker(f"unix://{path}", verbs=MOVED_CLOCK) as broker,
    ):
        clock = Clock(raw)
        fill(broker, clock)
        said = {"now": clock.now, "read": read(broker), "keys": keys(raw)}
    Path(file).write_text(json.dumps(said, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
