"""When a callback is called again, and how many messages it holds."""

from __future__ import annotations

import time
from typing import Any

from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better, differs
from tests.proofs.live_brokers.nats_streaming.subscribing import (
    DURABLE,
    LONG,
    SHORT,
    WAIT,
    sent,
)
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, waits

SCENARIOS = Scenarios("stan-")


@SCENARIOS.add("AckWait 1, the subscriber is silent; a lease of 0.1 here")
def silent(side: Side) -> Facts:
    consumer = side.consumer("silent", streaming=WAIT, lease=SHORT)
    side.send("silent", "silent")
    seen = consumer.take(4)
    return {"counts": counts(seen), "waits": waits(seen)}


@SCENARIOS.add(
    "the same with a lease of 1",
    waits=differs("silence is a failure when the lease ends, and the wait comes after that"),
)
def silent_lease(side: Side) -> Facts:
    consumer = side.consumer("lease", streaming=WAIT)
    side.send("lease", "lease")
    seen = consumer.take(3, 4)
    return {"counts": counts(seen), "waits": waits(seen)}


@SCENARIOS.add(
    "the same without the preset of AckWait",
    waits=differs("a lease alone leaves our own policy: back-off, and dead after 12 redeliveries"),
)
def silent_default(side: Side) -> Facts:
    consumer = side.consumer("default", streaming={**WAIT, "preset": False})
    side.send("default", "default")
    seen = consumer.take(3, 8)
    return {"counts": counts(seen), "waits": waits(seen)}


def called(side: Side, channel: str, count: int, within: float, **settings: Any) -> list[int]:
    """The delivery counts that callbacks saw, who worked for so long on this many messages."""
    sent(side, channel, count)
    consumer = side.consumer(channel, **settings)
    time.sleep(within)
    return [delivery.count for delivery in consumer.heard()]


@SCENARIOS.add("a callback that fails, AckWait 1, for 6.5 s")
def failing(side: Side) -> Facts:
    side.send("failing", "failing")
    consumer = side.consumer("failing", streaming={**WAIT, "work": 0.01, "fails": True}, lease=3)
    time.sleep(6.5)
    seen = consumer.heard()
    return {"counts": counts(seen), "waits": waits(seen)}


AGAIN = better("what waits for its callback is kept, so nothing is called twice; there each has its AckWait")


@SCENARIOS.add(
    "the manual's example, five times as fast: 10 messages, 0.8 s of work each, AckWait 1; a worker here",
    called_once=AGAIN,
)
def example(side: Side) -> Facts:
    seen = called(side, "example", 10, 12, streaming={**WAIT, "work": 0.8, "max_inflight": 1000})
    return {"all": seen.count(1), "called_once": len(seen) == seen.count(1)}


@SCENARIOS.add("the same, `consume(count=1000)` here", called_once=AGAIN)
def example_loop(side: Side) -> Facts:
    settings = {**WAIT, "work": 0.8, "max_inflight": 1000}
    seen = called(side, "loop", 10, 12, streaming=settings, loop=True)
    return {"all": seen.count(1), "called_once": len(seen) == seen.count(1)}


@SCENARIOS.add("the same with MaxInflight 1; a worker here")
def example_single(side: Side) -> Facts:
    seen = called(side, "single", 10, 12, streaming={**WAIT, "work": 0.8, "max_inflight": 1})
    return {"all": seen.count(1), "called_once": len(seen) == seen.count(1)}


@SCENARIOS.add("MaxInflight 3, five messages; one is acknowledged")
def inflight(side: Side) -> Facts:
    sent(side, "inflight", 5)
    consumer = side.consumer("inflight", streaming={**LONG, "max_inflight": 3})
    held = consumer.take(5, 0.7)
    consumer.do("ack", body=held[0].body)
    return {"held": len(held), "after_an_ack": len(consumer.take(2, 0.7))}


@SCENARIOS.add(
    "a member holds 10 and closes; then one with MaxInflight 1",
    held=better("the limit is strict; there redeliveries are forced past it"),
)
def forced(side: Side) -> Facts:
    sent(side, "forced", 10)
    first = side.consumer("forced", streaming={**DURABLE, "max_inflight": 10})
    taken = first.take(10)
    strict = side.consumer("forced", streaming={**DURABLE, "max_inflight": 1}, lease=30)
    first.do("disconnect")
    return {"first": len(taken), "held": len({*bodies(strict.take(10, 3))})}
