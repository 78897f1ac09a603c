"""Two queues with messages in all states, and all that each role does with them; for T20."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import rq_dlq
from rq_dlq import ExpiryPolicy, RedeliveryPolicy, SharedDeadLetterStrategy, _keys
from rq_dlq._scripts import JOINED, Joined
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.call import Call
from tests.audit import audit
from tests.servers import Server, wait_until

NAMESPACE = "rq"
ORDERS, BILLS = "{shop}.orders", "{shop}.bills"
BURIED = "graveyard"  # what the dead letters of BILLS are called
POLICY = RedeliveryPolicy(max_redeliveries=1, initial_delay=600)
# What expired then is past its retention in every trial, and what expires in a trial is not, however slow.
YESTERDAY = Joined(
    {"clock": "function Clock.read()\n  return redis.call('TIME')[1] * 1000 - 24 * 3600 * 1000\nend\n"}
)
FORMERLY = "{shop}.formerly"  # a name that a policy gave once
HELD, BATCH, JOB = 8, "batch", "job"
KEY, BLOCKED = "customer-7", "blocked"  # of two messages; the id of the second
LONG = "1h"
READERS: dict[bytes, Callable[[Any, bytes], Any]] = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"set": lambda client, key: client.smembers(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"stream": lambda client, key: client.xrange(key),
}


@dataclass
class World:
    """A server with the two queues, as it was once filled; `restore` makes it so again.

    Attributes:
        held: ids and tokens of deliveries of ORDERS.
        dead_held: likewise of a dead letter of it.
        staged: lists of a job that is not committed, in ORDERS and in BILLS.
        moving: the list of a job that is committed and not moved.
        left: the list of an attempt that lost.
    """

    server: Server
    held: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    dead_held: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    staged: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    moving: str = ""
    left: str = ""

    def __post_init__(self) -> None:
        self.raw: Any = self.server.client(db=1)
        with self.broker("default") as broker:
            self._fill(broker)
        self._saved = {key: (self.raw.dump(key), max(0, self.raw.pttl(key))) for key in self.raw.scan_iter()}
        self.restore()

    def broker(self, user: str, verbs: Joined = JOINED) -> rq_dlq.Broker:
        """A new one, as in a process that has just begun."""
        return rq_dlq.Broker(f"unix://{user}:secret@{self.server.socket}?db=1", verbs=verbs)

    def restore(self) -> None:
        """Make everything as it was."""
        pipeline = self.raw.pipeline(transaction=False)
        pipeline.flushdb()
        for key, (value, ttl) in self._saved.items():
            pipeline.restore(key, ttl, value)
        pipeline.execute()
        self._here = self.keys()

    def keys(self) -> dict[bytes, Any]:
        """What the keys hold, but for what wakes waiting clients."""
        names = [name for name in self.raw.scan_iter(count=1000) if not name.endswith((b":wake", b":alarm"))]
        pipeline = self.raw.pipeline(transaction=False)
        for name in names:
            pipeline.type(name)
        kinds = pipeline.execute()
        for name, kind in zip(names, kinds, strict=True):
            READERS[kind](pipeline, name)
        return dict(zip(names, pipeline.execute(), strict=True))

    def touched(self) -> bool:
        """Whether anything is other than after `restore`."""
        return self.keys() != self._here

    def audit(self) -> dict[str, dict[str, int]]:
        """Check both queues; how many messages are in each state."""
        return {family: dict(audit(self.raw, family, NAMESPACE)) for family in (ORDERS, BILLS)}

    def _fill(self, broker: rq_dlq.Broker) -> None:
        broker.policies.set(BILLS, dead_letter=SharedDeadLetterStrategy(BURIED))
        broker.policies.set(
            ORDERS, outcomes=1000, per_key="limit 1", expiry=ExpiryPolicy(retention=timedelta(hours=1))
        )
        with self.broker("default", verbs=YESTERDAY) as yesterday:
            formerly = orders_of(yesterday)
            formerly.send("expired", ttl="1ms")
            wait_until(lambda: formerly.maintain()["expired"])
        orders, bills = orders_of(broker), broker.queue(BILLS, redelivery=POLICY)
        bills.send_many(range(3))
        bills.claim()[0].poison("bad")
        orders.send("late", delay=LONG)
        for _ in range(3):
            orders.send("dead")
            orders.claim()[0].poison("bad")
        self.dead_held = [one._held for one in broker.queue(f"DLQ.{ORDERS}").claim(1, lease=LONG)]
        orders.send_many(range(HELD))
        self.held = [one._held for one in claimed(orders, HELD)]
        orders.send_many(range(4))
        broker._run(batches.claim_batch(orders._core, BATCH, limit=4, lease=3_600_000))
        orders.send_many(range(6))
        self.staged = {family: staged(broker, broker.queue(family), "open") for family in (ORDERS, BILLS)}
        (self.left,) = staged(broker, orders, "left")
        counts = staged(broker, orders, "moving", "moving")
        (self.moving,) = counts
        broker._run(jobs.commit([orders._core], "moving", {ORDERS: counts}, grace=1))
        broker._run(one(batch_calls.begin_batch(orders._core.keys, "query", batch=1, run="run")))
        lapsed = orders.claim(2, lease="1ms")
        orders.send("due", delay="1ms")
        orders.send("mortal", ttl="2ms")
        wait_until(lambda: broker._run(one(queue_calls.clock())) > lapsed[0]._lease.ends + 10)
        _half_committed(
            broker, staged(broker, orders, "here", "half"), staged(broker, bills, "there", "half")
        )
        orders.send_many([rq_dlq.Message("keyed", id=name, key=KEY) for name in ("first", BLOCKED)])
        self.raw.sadd(_keys.aliases(NAMESPACE), FORMERLY)
        for key in self.raw.keys("*:wake") + self.raw.keys("*:alarm"):
            self.raw.delete(key)


def _half_committed(broker: rq_dlq.Broker, here: dict[str, int], there: dict[str, int]) -> None:
    """A job that has committed in the first of two queues, and did not live to tell the other."""
    queues = [broker.queue(family)._core for family in (ORDERS, BILLS)]
    steps = jobs.commit(queues, "half", {ORDERS: here, BILLS: there}, grace=1)
    value: Any = None
    while not (isinstance(step := steps.send(value), Call) and step.verb == "commit_job"):
        value = broker._run(one(step))
    broker._run(one(step))
    steps.close()


def orders_of(broker: rq_dlq.Broker) -> rq_dlq.Queue[Any]:
    """The first queue."""
    return broker.queue(ORDERS, redelivery=POLICY)


def claimed(queue: rq_dlq.Queue[Any], count: int) -> list[Any]:
    """So many deliveries, fresh ones: what a lapsed lease gives back is not due yet."""
    found: list[Any] = []
    while len(found) < count:
        found += queue.claim(count - len(found), lease=LONG)
    return found


def staged(broker: rq_dlq.Broker, queue: rq_dlq.Queue[Any], attempt: str, job: str = JOB) -> dict[str, int]:
    """Stage two messages of a job."""
    pack = queue._core.codec.packer(4, {})
    stage = Stage(queue._core.keys, job, attempt)
    broker._run(stage.add([f"{attempt}1", pack("staged"), f"{attempt}2", pack("staged")]))
    return stage.counts


def one(step: Any) -> Any:
    """The steps of a single call."""
    return (yield step)
