"""Payments are down for a while: no message dies of it, and other work continues."""

import time
from collections import Counter

from rq_dlq import Breaker, Broker, RedeliveryPolicy

broker = Broker()
orders = broker.queue(
    "example-orders",
    breaker=Breaker(distinct=5, probe="100ms", longest_probe="400ms"),
    redelivery=RedeliveryPolicy(initial_delay="50ms", max_redeliveries=2),
)
orders.send_many(range(60), dependency="payments")
orders.send_many(range(60, 100))

down_until, attempts = time.monotonic() + 3, Counter[str]()
while orders.stats().waiting:
    for delivery in orders.claim(count=10, wait="200ms"):
        if delivery.dependency == "payments" and time.monotonic() < down_until:
            attempts["failed"] += 1
            delivery.nack("payments are down")
            if attempts["failed"] == 8:
                print(f"payments are down: {orders.dependency('payments').stats().open}")
        else:
            attempts["done"] += 1
            delivery.ack()
print(f"{attempts['done']} done, {orders.stats().dead} dead")
print(f"fewer than 40 attempts failed: {attempts['failed'] < 40}")
