"""Claiming, and waiting for something to claim."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rq_dlq import _calls
from rq_dlq._work.policies import open_queue
from rq_dlq._work.settle import poison
from rq_dlq._work.steps import MAX_BLOCK, Steps, Wait, seed
from rq_dlq._work.views import members
from rq_dlq.errors import BrokerRefused, MissingRights, UnprocessableMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._work.queue import Queue
    from rq_dlq.message import Leased, Row, Settlement

C = TypeVar("C")
D = TypeVar("D", bound="Leased[Any]")
Spoiled: TypeAlias = "Callable[[D, Settlement, UnprocessableMessage], None]"


def claim(
    queue: Queue[Any],
    make: Callable[[Row, str, int], D],
    *,
    count: int = 1,
    wait: int = 0,
    lease: int | None = None,
    attributed: bool = False,
    spoiled: Spoiled[D] | None = None,
    stopped: Callable[[], bool] = bool,
) -> Steps[list[D]]:
    """Claim up to `count` messages, waiting for the first up to `wait` milliseconds, or until it is stopped.

    Where it is `attributed`, a lapse charges only those of which the caller said that it works on them
    (`_calls.begin`); of the first one this is said already (`Leased.begun`).

    A message whose body does not decode is dead at once (`unprocessable`) and not returned, but told to
    `spoiled`. One that is dead
    already stays where it is; until its lease is over, so that it is not in the way of those behind it.
    """
    yield from open_to_drain(queue)
    held_for = queue.lease if lease is None else lease
    if queue.view:
        return (yield from _claim_view(queue, make, count, wait=wait, lease=held_for, stopped=stopped))

    def once(patience: int, alarmed: bool) -> Steps[tuple[list[D], int]]:  # noqa: FBT001 - as patiently calls it
        return _claim_once(
            queue, make, count, held_for, patience, alarmed=alarmed, attributed=attributed, spoiled=spoiled
        )

    return (yield from patiently(queue, once, wait, stopped))


def open_to_drain(queue: Queue[Any]) -> Steps[None]:
    """Before the first claim: what `open_queue` does, also where memory is full."""
    if queue.opened:
        return
    try:
        yield from open_queue(queue)
    except MissingRights:
        raise
    except BrokerRefused:
        pass  # to note the queue's name can wait, to drain it cannot


def patiently(
    queue: Queue[Any],
    once: Callable[[int, bool], Steps[tuple[C, int]]],
    wait: int,
    stopped: Callable[[], bool] = bool,
) -> Steps[C]:
    """Claim again until there is something, for up to `wait` milliseconds, or until it is stopped.

    Who would wait again waits for long, since the last claim of each wait has to hand on the alarm.

    Args:
        once: one claim, given the milliseconds that it would wait and whether it was told when to wake: what
            it claimed and, as `Claimed.wait`, when to claim again.
    """
    left, alarmed = wait, False
    while True:
        patience = 0 if stopped() else max(0, min(left, MAX_BLOCK))
        claimed, wait_for = yield from once(patience, alarmed)
        if claimed or (wait_for != 0 and patience == 0):
            return claimed
        if wait_for == 0:
            continue
        alarmed = wait_for > 0
        pause = patience if wait_for < 0 else min(wait_for, patience)
        left -= yield Wait(queue.keys["wake"] if queue.part == "live" else queue.keys.silent, max(1, pause))


def _claim_once(
    queue: Queue[Any],
    make: Callable[[Row, str, int], D],
    count: int,
    lease: int,
    patience: int,
    *,
    alarmed: bool,
    attributed: bool = False,
    spoiled: Spoiled[D] | None = None,
) -> Steps[tuple[list[D], int]]:
    """One claim: what decodes of it, and as `Claimed.wait` when to claim again."""
    token = _token(queue)
    try:
        claimed: _calls.Claimed = yield _calls.claim(
            queue.keys,
            part=queue.part,
            token=token,
            count=count,
            lease=lease,
            patience=patience,
            alarmed=alarmed,
            attributed=attributed and queue.part == "live",  # of the dead none is charged
            consumer=queue.consumer,
            seed=seed(),
            default_policy=queue.policy,
        )
        if not claimed.rows:
            return [], claimed.wait
        deliveries = [make(row, token, claimed.now + lease) for row in claimed.rows]
        deliveries[0].begun = True
        return (yield from _decodable(queue, deliveries, spoiled)), 0
    except BaseException:
        queue.unsure.append((os.getpid(), token))  # perhaps it was done: the next claim asks again
        raise


def _claim_view(
    queue: Queue[Any],
    make: Callable[[Row, str, int], D],
    count: int,
    *,
    wait: int,
    lease: int,
    stopped: Callable[[], bool],
) -> Steps[list[D]]:
    """Claim from all queues that a view shows, each time beginning with another one."""
    left = wait
    while True:
        found: list[D] = []
        shown = yield from members(queue)
        first = int(seed() * len(shown))
        for member in shown[first:] + shown[:first]:
            if len(found) < count:
                wanted = count - len(found)
                try:
                    found += (yield from _claim_once(member, make, wanted, lease, 0, alarmed=False))[0]
                except BaseException:
                    _take_up_again(queue, {delivery.token for delivery in found})
                    raise
        if found or left <= 0 or stopped():
            return found
        left -= yield Wait(queue.keys.silent, max(1, min(left, MAX_BLOCK)))


def _take_up_again(queue: Queue[Any], tokens: set[str]) -> None:
    """What a view's claim has of some queues already, when it fails at another one, is for the next claim."""
    for member in queue.members.values():
        for token in tokens:
            if token.partition("@")[2] == member.keys.home:
                member.unsure.append((os.getpid(), token))


def _token(queue: Queue[Any]) -> str:
    while queue.unsure:
        try:
            process, token = queue.unsure.popleft()
        except IndexError:  # another thread was faster
            break
        if process == os.getpid():  # a forked child leaves its parent's claims alone
            return token
    token = secrets.token_hex(10)
    return f"{token}@{queue.keys.home}" if queue.viewed else token


def _decodable(queue: Queue[Any], deliveries: list[D], spoiled: Spoiled[D] | None) -> Steps[list[D]]:
    good: list[D] = []
    for delivery in deliveries:
        try:
            delivery.body  # noqa: B018 - decodes it
        except UnprocessableMessage as error:
            if queue.part == "live":
                (settlement,) = yield from poison(queue, [delivery.held], error, reason="unprocessable")
                if spoiled is not None:
                    spoiled(delivery, settlement, error)
        else:
            good.append(delivery)
    return good
