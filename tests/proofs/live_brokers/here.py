"""The driver of rq_dlq: a session for each consumer.

$ python -m tests.proofs.live_brokers.here unix:///path/redis.sock
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import rq_dlq
from rq_dlq.client.delivery import Delivery
from rq_dlq.client.queue import Queue
from rq_dlq.client.session import Session
from rq_dlq.worker import Worker
from tests.proofs.live_brokers.serve import serve

Seen = dict[str, Any]


@dataclass
class Client:
    """A consumer with a connection: what it holds by body, what its listener heard."""

    broker: rq_dlq.Broker
    queue: Queue[str]
    session: Session[str]
    held: dict[str, Delivery[str]] = field(default_factory=dict)
    heard: list[Seen] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)


class Here:
    """The verbs, with the words of JMS, of AMQP and of NATS."""

    def __init__(self, url: str) -> None:
        self._url, self._broker = url, rq_dlq.Broker(url)
        self._clients: dict[str, Client] = {}

    def open(self, *, consumer: str, queue: str, **given: Any) -> None:
        """Declare what its settings say, and work if they say so; else the imported entries hold."""
        broker = rq_dlq.Broker(self._url)
        made = broker.queue(queue, **declared(**given))
        client = self._clients[consumer] = Client(broker, made, made.session())
        if "work" in given.get("streaming", {}):
            at_work = loop if given.get("loop") else partial(work, self._url)
            threading.Thread(target=at_work, args=(client, given), daemon=True).start()

    def send(self, *, queue: str, body: str, consumer: str = "", **options: Any) -> str:
        """Send, by the consumer's session if one is named; spans are milliseconds."""
        spans = {name: options.pop(name) / 1000 for name in ("delay", "ttl") if name in options}
        if consumer:
            client = self._clients[consumer]
            return client.session.send(client.broker.queue(queue), body, **spans, **options)
        return self._broker.queue(queue).send(body, **spans, **options)

    def again(self, *, queue: str, body: str, id: str) -> None:
        """Send it a second time."""
        self._broker.queue(queue).send(body, id=id)

    def receive(self, *, consumer: str, wait: int) -> Seen | None:
        """Claim one message."""
        client = self._clients[consumer]
        for delivery in client.session.claim(1, wait=wait / 1000):
            client.held[delivery.body] = delivery
            return seen(delivery)
        return None

    def listen(self, *, consumer: str) -> None:
        """Handle messages in a thread; every call fails."""
        threading.Thread(target=fail_all, args=(self._clients[consumer],), daemon=True).start()

    def heard(self, *, consumer: str) -> list[Seen]:
        """What was handled."""
        return self._clients[consumer].heard

    def commit(self, *, consumer: str) -> None:
        """JMS."""
        self._clients[consumer].session.commit()

    def rollback(self, *, consumer: str) -> None:
        """JMS."""
        self._clients[consumer].session.rollback()

    def recover(self, *, consumer: str) -> None:
        """JMS."""
        self._clients[consumer].session.recover()

    def close(self, *, consumer: str) -> None:
        """JMS."""
        self._clients[consumer].closed.set()
        self._clients[consumer].session.close()

    def ack(self, *, consumer: str, body: str) -> None:
        """JetStream."""
        self._clients[consumer].held[body].ack()

    def nak(self, *, consumer: str, body: str, delay: float | None = None) -> None:
        """JetStream."""
        self._clients[consumer].held[body].nack(delay=delay)

    def term(self, *, consumer: str, body: str) -> None:
        """JetStream."""
        self._clients[consumer].held[body].poison("it makes no sense")

    def progress(self, *, consumer: str, body: str) -> None:
        """JetStream."""
        self._clients[consumer].held[body].extend()

    def release(self, *, consumer: str, body: str, delay: float | None = None) -> None:
        """AMQP."""
        self._clients[consumer].held[body].release(begun=False, delay=delay)

    def unsubscribe(self, *, consumer: str) -> None:
        """NATS Streaming; a queue has no members that it knows."""

    def disconnect(self, *, consumer: str) -> None:
        """NATS Streaming."""
        self._clients[consumer].broker.close()

    def move(self, *, queue: str, to: str) -> None:
        """An operator."""
        self._all(queue).move(self._broker.queue(to))

    def die(self, *, queue: str) -> None:
        """An operator."""
        self._all(queue).dead_letter()

    def expire(self, *, queue: str) -> None:
        """An operator."""
        self._all(queue).expire()

    def prioritize(self, *, queue: str, priority: int) -> None:
        """An operator."""
        self._all(queue).prioritize(priority)

    def browse(self, *, queue: str) -> list[str]:
        """An operator."""
        return [message.body for message in self._all(queue).browse()]

    def _all(self, queue: str) -> Any:
        return self._broker.queue(queue).select(all=True)

    def find(self, *, body: str) -> list[dict[str, Any]]:
        """Where the messages are."""
        looked = [queue.stats for queue in self._broker.overview().queues]
        full = [
            stats.name for stats in looked if stats.waiting or stats.leased or stats.dead or stats.expired
        ]
        return [letter for name in full for letter in self._in_queue(name, body)]

    def _in_queue(self, name: str, body: str) -> list[dict[str, Any]]:
        queue = self._broker.queue(name)
        settings = queue.settings()
        found = [(name, message) for message in queue.select(limit=None).browse() if message.part == "live"]
        found += [(settings.dead_name or "", letter) for letter in queue.dlq.browse(limit=None)]
        found += [(settings.expired_name or "", letter) for letter in queue.expired.browse(limit=None)]
        return [
            {
                "queue": where,
                "body": message.body,
                "id": message.id,
                "origin": message.queue,
                "cause": str(message.cause.message) if isinstance(message, rq_dlq.DeadLetter) else "",
                "priority": message.priority,
                "headers": dict(message.headers),
            }
            for where, message in found
            if message.body.startswith(body)
            if message.part == "live" or message.original_queue == name  # others' are under its name, too
        ]

    def retry(self, *, queue: str, dead: str) -> None:
        """Redrive all; the dead-letter queue is a part of its queue."""
        del dead
        self._broker.queue(queue).dlq.redrive(all=True)


def declared(
    policy: Mapping[str, Any] | None = None,
    jetstream: Mapping[str, Any] | None = None,
    streaming: Mapping[str, Any] | None = None,
    lease: float | None = None,
    **given: Any,
) -> dict[str, Any]:
    """The arguments of a queue for Classic's redeliveryPolicy, or a consumer of NATS."""
    made: dict[str, Any] = {"lease": lease or 30.0}
    if "window" in given:
        made["dedup_window"] = given["window"]
    if "ordered" in given:
        made["per_key"] = rq_dlq.PerKey(order=True)
    if policy is not None:
        made["redelivery"] = rq_dlq.RedeliveryPolicy.activemq(**policy)
    if jetstream is not None:
        settings = dict(jetstream)
        if "max_ack_pending" in settings:
            made["max_in_flight"] = settings.pop("max_ack_pending")
        made["redelivery"] = rq_dlq.RedeliveryPolicy.jetstream(**settings)
        made["lease"] = settings.get("ack_wait", made["lease"])
    if streaming is not None:
        if streaming.get("preset", True):
            made["redelivery"] = rq_dlq.RedeliveryPolicy.nats_streaming(ack_wait=streaming["ack_wait"])
        made["lease"] = lease or streaming["ack_wait"]
        if "max_inflight" in streaming:
            made["max_in_flight"] = streaming["max_inflight"]
    return made


def work(url: str, client: Client, given: Mapping[str, Any]) -> None:
    """Be a worker, until this process ends."""
    broker = rq_dlq.Broker(url)
    queue = broker.queue(client.queue.name, **declared(**given))

    @queue.handler
    def handle(_: str, delivery: Delivery[str]) -> None:
        client.heard.append(seen(delivery))
        take_time(given["streaming"])

    Worker(broker).run()


def loop(client: Client, given: Mapping[str, Any]) -> None:
    """Claim a thousand messages at a time in a loop, until this process ends."""
    while True:
        for delivery in client.queue.consume(count=1000, wait=1):
            with suppress(ValueError), delivery:
                client.heard.append(seen(delivery))
                take_time(given["streaming"])


def take_time(streaming: Mapping[str, Any]) -> None:
    """Be the work of a message, and fail if it is to fail."""
    time.sleep(streaming["work"])
    if streaming.get("fails"):
        message = "negative total"
        raise ValueError(message)


def seen(delivery: Delivery[str]) -> Seen:
    """A delivery as a line says it."""
    at = time.monotonic_ns() // 1_000_000
    return {"at": at, "count": delivery.attempt, "body": delivery.body, "id": delivery.id}


def fail_all(client: Client) -> None:
    """Be a handler that always fails, until the consumer is closed."""
    while not client.closed.is_set():
        for delivery in client.queue.claim(wait=0.2):
            client.heard.append(seen(delivery))
            message = "negative total"
            with suppress(ValueError), delivery:
                raise ValueError(message)


if __name__ == "__main__":
    logging.getLogger("rq_dlq").addHandler(logging.NullHandler())  # it warns of what scenarios do on purpose
    logging.getLogger("rq_dlq").propagate = False
    asyncio.run(serve(Here(sys.argv[1])))
