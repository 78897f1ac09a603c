"""The settings of subscriptions, and what scenarios have in common."""

from __future__ import annotations

from tests.proofs.live_brokers.driver import Consumer, Side

WAIT = {"ack_wait": 1}
LONG = {"ack_wait": 30}
GROUP = {**WAIT, "group": "workers"}
DURABLE = {**GROUP, "durable": "orders"}
SHORT = 0.1
"""Seconds of a lease that is short beside AckWait."""


def sent(side: Side, channel: str, count: int, first: int = 0) -> None:
    """Send so many messages, numbered."""
    for number in range(first, first + count):
        side.send(channel, f"{channel} {number}")


def numbers(consumer: Consumer, count: int, wait: float = 1.5) -> tuple[int, ...]:
    """Those of so many messages, each acknowledged at once."""
    seen: list[int] = []
    while len(seen) < count and (delivery := consumer.receive(wait)):
        consumer.do("ack", body=delivery.body)
        seen.append(int(delivery.body.split()[1]))
    return tuple(seen)
