"""Claiming, and waiting for something to claim."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq import _calls
from rq_dlq._work.queue import Queue, open_queue
from rq_dlq._work.settle import poison
from rq_dlq._work.steps import MAX_BLOCK, Steps, Wait, seed
from rq_dlq.errors import BrokerRefused, UnprocessableMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.message import Received, Row

D = TypeVar("D", bound="Received[Any]")


def claim(
    queue: Queue[Any],
    make: Callable[[Row, str, int], D],
    *,
    count: int = 1,
    wait: int = 0,
    lease: int | None = None,
) -> Steps[list[D]]:
    """Claim up to `count` messages, waiting for the first up to `wait` milliseconds.

    A message whose body does not decode is dead at once (`unprocessable`) and not returned.
    """
    if not queue.opened:
        with suppress(BrokerRefused):  # memory is full: to note the queue's name can wait, to drain it cannot
            yield from open_queue(queue)
    held_for = queue.lease if lease is None else lease
    left, alarmed = wait, False
    while True:
        token = _token(queue)
        patience = max(0, min(left, MAX_BLOCK))
        try:
            claimed: _calls.Claimed = yield _calls.claim(
                queue.keys,
                part=queue.part,
                token=token,
                count=count,
                lease=held_for,
                patience=patience,
                alarmed=alarmed,
                consumer=queue.consumer,
                seed=seed(),
                default_policy=queue.policy,
            )
            deliveries = [make(row, token, claimed.now + held_for) for row in claimed.rows]
            good = deliveries and (yield from _decodable(queue, deliveries, token))
        except BaseException:
            queue.unsure.append((os.getpid(), token))  # perhaps it was done: the next claim asks again
            raise
        if good:
            return good
        if deliveries or claimed.wait == 0:
            continue
        if left <= 0:
            return []
        alarmed = claimed.wait > 0
        pause = patience if claimed.wait < 0 else min(claimed.wait, patience)
        left -= yield Wait(queue.keys["wake"] if queue.part == "live" else queue.keys.silent, max(1, pause))


def _token(queue: Queue[Any]) -> str:
    while queue.unsure:
        try:
            process, token = queue.unsure.popleft()
        except IndexError:  # another thread was faster
            break
        if process == os.getpid():  # a forked child leaves its parent's claims alone
            return token
    return secrets.token_hex(10)


def _decodable(queue: Queue[Any], deliveries: list[D], token: str) -> Steps[list[D]]:
    good: list[D] = []
    for delivery in deliveries:
        try:
            delivery.body  # noqa: B018 - decodes it
        except UnprocessableMessage as error:
            yield from poison(queue, [(delivery.id, token)], error, reason="unprocessable")
        else:
            good.append(delivery)
    return good
