"""Who gets a message, and what stays when a member leaves."""

from __future__ import annotations

import time
from typing import Any

from tests.proofs.live_brokers.driver import DriverError, Side
from tests.proofs.live_brokers.facts import Facts, Waits, better, differs
from tests.proofs.live_brokers.nats_streaming.subscribing import (
    DURABLE,
    GROUP,
    LONG,
    WAIT,
    numbers,
    sent,
)
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts

SCENARIOS = Scenarios("stan-")
EACH_GETS_ALL = differs("one message goes to one consumer; a queue for each group, if each is to get all")
ALWAYS_ALL = differs("a consumer gets all that is in the queue; there is no start position")


@SCENARIOS.add("six messages, two members of a group")
def members(side: Side) -> Facts:
    settings = {**LONG, "group": "workers", "max_inflight": 6}
    one, other = (side.consumer("members", streaming=settings) for _ in range(2))
    sent(side, "members", 6)
    seen = [number for _ in range(6) for each in (one, other) for number in numbers(each, 1, 0.3)]
    return {"all": tuple(sorted(seen))}


@SCENARIOS.add(
    "a member is killed that holds one: the other gets it after the heartbeats, here after a lease of 3"
)
def killed(side: Side) -> Facts:
    settings = {**LONG, "group": "workers"}
    with side.process("killed", streaming={**WAIT, **settings}, lease=3) as consumer:
        side.send("killed", "killed")
        taken = consumer.take(1)
        consumer.kill()
    other = side.consumer("killed", streaming={**settings, "ack_wait": 1}, lease=3)
    return {"first": counts(taken), "other": counts(other.take(1, 8))}


@SCENARIOS.add("a client that closes its connection, AckWait 2: when the other member gets its message")
def disconnected(side: Side) -> Facts:
    settings = {"ack_wait": 2, "group": "workers"}
    side.send("gone", "gone")
    one = side.consumer("gone", streaming=settings)
    taken = one.take(1)
    other = side.consumer("gone", streaming=settings)
    began = time.monotonic()
    one.do("disconnect")
    taken += other.take(1, 12)
    return {"bodies": bodies(taken), "after": Waits((round((time.monotonic() - began) * 1000),))}


GOES = differs("a queue stays when its last consumer leaves")


def last_member(side: Side, channel: str, how: str, settings: dict[str, Any]) -> tuple[int, ...]:
    """Four messages, the only member leaves while it holds two, and what does the next one get?"""
    one = side.consumer(channel, streaming={**settings, "start": "new"})
    sent(side, channel, 4)
    one.take(2)
    one.do(how)
    following = side.consumer(channel, streaming={**settings, "start": "new"})
    return tuple(sorted({*numbers(following, 4, 2.5)}))


@SCENARIOS.add("the last member of a group leaves, and another one comes", next=GOES)
def last(side: Side) -> Facts:
    return {"next": last_member(side, "last", "disconnect", GROUP)}


@SCENARIOS.add("the same, and the group is durable")
def last_durable(side: Side) -> Facts:
    return {"next": last_member(side, "durable", "disconnect", DURABLE)}


@SCENARIOS.add("the same, and it unsubscribes", next=GOES)
def last_unsubscribed(side: Side) -> Facts:
    return {"next": last_member(side, "unsubscribed", "unsubscribe", DURABLE)}


def started(side: Side, channel: str, start: str) -> Facts:
    """Three messages are there, and one is sent when the subscription has begun."""
    sent(side, channel, 3)
    consumer = side.consumer(channel, streaming={**WAIT, "start": start})
    sent(side, channel, 1, first=3)
    return {"received": numbers(consumer, 4)}


@SCENARIOS.add("three messages are there, a subscription to new ones, and one more", received=ALWAYS_ALL)
def start_new(side: Side) -> Facts:
    return started(side, "new", "new")


@SCENARIOS.add("the same, from the last received", received=ALWAYS_ALL)
def start_last(side: Side) -> Facts:
    return started(side, "received", "last")


@SCENARIOS.add("the same, from the second in its sequence", received=ALWAYS_ALL)
def start_sequence(side: Side) -> Facts:
    return started(side, "sequence", "2")


@SCENARIOS.add("the same, all that is there")
def start_all(side: Side) -> Facts:
    return started(side, "all", "")


def copies(side: Side, channel: str, *settings: dict[str, Any]) -> Facts:
    """How many deliveries two messages make."""
    consumers = [side.consumer(channel, streaming=each) for each in settings]
    sent(side, channel, 2)
    return {"deliveries": sum(len(numbers(consumer, 2, 1)) for consumer in consumers)}


@SCENARIOS.add("two messages, two plain subscriptions", deliveries=EACH_GETS_ALL)
def plain(side: Side) -> Facts:
    return copies(side, "plain", LONG, LONG)


@SCENARIOS.add("two messages, two groups", deliveries=EACH_GETS_ALL)
def groups(side: Side) -> Facts:
    return copies(side, "groups", {**LONG, "group": "a"}, {**LONG, "group": "b"})


@SCENARIOS.add("five messages on a channel of three", received=better("nothing is pushed out"))
def limited(side: Side) -> Facts:
    sent(side, "limited", 5)
    return {"received": numbers(side.consumer("limited", streaming=WAIT), 5)}


def opened(side: Side, channel: str, settings: dict[str, Any]) -> str:
    """Whether a consumer of these settings is taken."""
    try:
        side.consumer(channel, streaming=settings)
    except DriverError as error:
        return str(error)
    return "taken"


NAMELESS = differs("any number of processes have one name")


@SCENARIOS.add("a second client of an id that is in use", second=NAMELESS)
def client_in_use(side: Side) -> Facts:
    settings = {**WAIT, "client": "shop"}
    return {"first": opened(side, "client", settings), "second": opened(side, "client", settings)}
