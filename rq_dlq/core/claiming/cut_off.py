"""Interrupted calls: by a cancellation, Ctrl-C, SystemExit, or a closed generator.

A claim that is cut off gives its messages back, which it finds by a claim of no message under the same token.
If it finds nothing, it asks once more, since Redis may read the closed connection after the one that asks.
Any error but one about Redis cuts a claim off, such as that of a signal handler that limits a time. It always
goes on, after one try: a claim that sleeps can also be cut off while Redis does not answer.

A loop that is closed does not hear the cause. So it looks for the task's cancellation or, blocking, at the
context of `GeneratorExit`; if there is neither, it was left by `break`, and its errors are raised.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rq_dlq.core.claiming import calls
from rq_dlq.core.settling.settle import release
from rq_dlq.core.steps.step import seed
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.message import MessageRow

logger = logging.getLogger("rq_dlq")


def is_cut_off(error: BaseException | None) -> bool:
    """Whether this error interrupts a block or a call: it is not an `Exception`.

    Such an error is always raised. The remaining work for the messages is tried once, briefly, and a failure
    is only logged, since the leases cover the messages.
    """
    return error is not None and not isinstance(error, Exception)


def cuts_off_claim(error: BaseException | None) -> bool:
    """Whether this error may cut off a claim while Redis answers: it is not about Redis."""
    return error is not None and not isinstance(error, RqDlqError)


def claim_is_cut_off(queue: QueueState[Any], error: BaseException) -> bool:
    """Whether this error cuts off a claim that may have taken messages: `give_back` is due."""
    return cuts_off_claim(error) and any(member.indeterminate_claims for member in _all(queue))


def give_back(queue: QueueState[Any]) -> Steps[None]:
    """Release the messages of claims with unknown outcomes.

    A claim of no message under the token of such a claim replies the messages that it took (I12).
    """
    for member in _all(queue):
        while token := member.indeterminate_claims.take():
            try:
                rows = (yield from _taken(member, token)) or (yield from _taken(member, token))
                yield from release(member, [(row.id, token) for row in rows], begun=False)
            except BaseException:
                member.indeterminate_claims.note(token)  # the next claim resumes it
                raise


def _taken(queue: QueueState[Any], token: str) -> Steps[Sequence[MessageRow]]:
    """The messages that a claim took. If none, the claim may be unread in a connection that was closed since.

    Redis reads connections in any order, but has read all earlier requests when its reply is here.
    """
    claimed: calls.Claimed = yield calls.claim(
        queue.keys, part=queue.part, token=token, count=0, lease=queue.lease, patience=0,
        consumer=queue.consumer, seed=seed(), default_policy=queue.policy,
    )  # fmt: skip
    return claimed.rows


def _all(queue: QueueState[Any]) -> list[QueueState[Any]]:
    """The queue, and those whose dead letters are under its name."""
    return [queue, *queue.members.values()]


def log_failure(queue: QueueName, failure: Exception) -> None:
    """Log why messages could not be given back on the way out."""
    logger.warning("%s: cannot release the messages of an interrupted call: %s", queue.name, failure)
