"""Queues in which messages of several kinds died."""

from __future__ import annotations

import rq_dlq


def settle(broker: rq_dlq.Broker, name: str, errors: dict[str, BaseException | None]) -> None:
    """Send messages and let them end: by an error, at once, or well."""
    queue = broker.queue(name, outcomes=1_000, redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
    queue.send_many(rq_dlq.Message(body=1, id=id) for id in errors)
    for delivery in queue.claim(len(errors)):
        error = errors[delivery.id]
        if error is None:
            delivery.ack()
        elif isinstance(error, ValueError):
            delivery.poison(error)
        else:
            delivery.nack(error)


def live(broker: rq_dlq.Broker) -> rq_dlq.Broker:
    """Three queues with 2, 1 and 1 acked and 3, 1 and 0 dead messages."""
    slow = TimeoutError("gateway took 30 s")
    settle(broker, "orders.eu", {"a": slow, "b": slow, "c": ValueError("no such item"), "d": None, "e": None})
    settle(broker, "orders.us", {"a": slow, "b": None})
    settle(broker, "mail:out", {"a": None})
    return broker
