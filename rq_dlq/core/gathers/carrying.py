"""The shares of gathers whose children have all ended are carried to the queues of their `then`."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rq_dlq.core.gathers import calls
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import seed
from rq_dlq.errors import BrokerRefused, BrokerUnavailable

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.step import Steps

logger = logging.getLogger("rq_dlq")
AGAIN = 1_000  # milliseconds until a process that may not carry shares tries again


def carry(keys: QueueKeys, gather: str) -> Steps[bool]:
    """Look at a share, and carry all of it; whether it was time to look."""
    _, family = calls.then_of(gather)
    target = replace(keys, family=family) if family else keys
    more: bool | None = True
    while more:
        more = yield calls.carry_gather(keys, target, gather, seed=seed())
    return more is not None


def look(keys: QueueKeys, limit: int) -> Steps[int]:
    """Look at the shares of a queue for which it is time, a few at a time; how many."""
    looked = 0
    while looked < limit and (shares := (yield calls.due(keys))):
        for gather in shares:
            if not (yield from carry(keys, gather)):
                return looked
            looked += 1
    return looked


def carry_ended(queue: QueueState[Any], now: int | None) -> Steps[None]:
    """Carry the shares whose children have all ended, as a claim or a settlement told; it raises no error.

    Args:
        now: of a claim: the server's clock. Claims are told as long as a share is there, so a process that
            may not write to the queue of a `then` leaves it to others for a while. None: of a settlement,
            which is told once of a share, and always tries.
    """
    if now is not None and now < queue.carries_at:
        return
    if (yield from _left_to_others(queue, unrepeated(_carry_ended(queue.keys)))):
        queue.carries_at = 0
    elif now is not None:
        queue.carries_at = now + AGAIN


def carry_left(queue: QueueState[Any], found: list[str] | None) -> Steps[None]:
    """Carry the shares of a deleted queue, first any found; if it fails, `then` is due as `within` ends."""
    yield from _left_to_others(queue, _carry_all(queue.keys, found))


def _carry_all(keys: QueueKeys, found: list[str] | None) -> Steps[None]:
    while gathers := (yield calls.ended(keys)) if found is None else found:
        for gather in gathers:
            yield from carry(keys, gather)
        found = None


def carry_soon(queue: QueueName, gather: str) -> Steps[None]:
    """Carry a share whose children have all ended; if that fails, claims and maintenance do it later."""
    yield from _left_to_others(queue, carry(queue.keys, gather))


def _left_to_others(queue: QueueName, steps: Steps[Any]) -> Steps[bool]:
    """Run steps that others can do; whether it did not fail."""
    try:
        yield from steps
    except (BrokerRefused, BrokerUnavailable) as error:
        logger.debug("%s: a gather is left to others: %s", queue.name, error)
        return False
    return True


def _carry_ended(keys: QueueKeys) -> Steps[None]:
    for gather in (yield calls.ended(keys)) or [""]:  # none: another process was faster, and claims are told
        yield from carry(keys, gather)
