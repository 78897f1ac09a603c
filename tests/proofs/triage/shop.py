"""The app of the walk: a shop that charges orders, and whose payment service is down at first.

A file says that the service is up; another has a line for each charge.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rq_dlq import Broker, Delivery, Poison, RedeliveryPolicy

UP, CHARGES = "up", "charges"
FAULTS: tuple[dict[str, Any], ...] = (
    {"quantity": 1},
    {"price": "free", "quantity": 1},
    {"price": None, "quantity": 1},
    {"price": 9.5, "quantity": 0},
    {"price": -1, "quantity": 1},
)
"""Orders that fail whatever the service does, each in its own way."""

here = Path(os.environ.get("TRIAGE_DIRECTORY", "."))
broker = Broker()
orders = broker.queue("orders", redelivery=RedeliveryPolicy(max_redeliveries=0))


class PaymentServiceDownError(Exception):
    """It does not answer."""


@orders.handler(concurrency=4)
def charge(order: dict[str, Any], delivery: Delivery[dict[str, Any]]) -> None:
    each = float(order["price"]) / order["quantity"]
    if each < 0:
        raise Poison("a price below zero")
    if not (here / UP).exists():
        took = 3000 + secrets.randbelow(100)
        raise PaymentServiceDownError(f"order {order['number']} ({delivery.id}): no answer within {took} ms")
    with (here / CHARGES).open("a") as file:
        file.write(f"{delivery.id}\n")


def bodies(letters: int, poisons: int) -> Iterator[dict[str, Any]]:
    """So many orders that fail while the service is down, among them so many that fail always."""
    for number in range(letters + poisons):
        wrong = number * poisons // (letters + poisons) < (number + 1) * poisons // (letters + poisons)
        fault = FAULTS[number * poisons // (letters + poisons) % len(FAULTS)]
        yield {"number": number, **(fault if wrong else {"price": 9.5, "quantity": 1})}
