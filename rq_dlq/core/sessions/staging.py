"""The messages of a session that are too large for one call.

They are staged, half a megabyte at a time, in lists like the lists of a job's tasks. The commit adds the
lists to the queues, all or nothing, and moves no body. Then the messages move to their queues, one call for
half a megabyte or one message; if the client dies, maintenance continues.

The lists expire ten minutes after their last part.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.jobs.jobs import move
from rq_dlq.core.jobs.stage import parts
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.sessions.calls import Share, Staged
from rq_dlq.core.sessions.shares import is_large, sizes_of
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, RqDlqError

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.sessions.calls import Outgoing

logger = logging.getLogger("rq_dlq")
PAST = "expires_at of a message has passed, so nothing was sent or acked. Expired messages are not delivered"
WAITS = 600_000  # milliseconds that a list waits for the commit, from its last part on
NONCE = 9  # random bytes


def staged(shares: list[Share]) -> Steps[list[Share]]:
    """The shares of a session. Parts that are too large for one call are staged: lists replace them.

    Raises:
        BrokerUnavailable: it cannot be; nothing was done.
    """
    if not is_large(group.items for share in shares for group in share.outgoing):
        return shares
    try:
        return (yield from _stage_all(shares))
    except (BrokerUnavailable, BrokerRefused) as error:
        error.indeterminate = False  # staged messages are not sent
        raise


def _stage_all(shares: Sequence[Share]) -> Steps[list[Share]]:
    job = secrets.token_urlsafe(NONCE)
    if any(group.delay < 0 or group.ttl < 0 for share in shares for group in share.outgoing):
        now: int = yield queue_calls.clock()
        shares = [
            replace(share, outgoing=[_from(now, group) for group in share.outgoing]) for share in shares
        ]
    staged: list[Share] = []
    for share in shares:
        if share.held:
            staged.append(replace(share, outgoing=()))
        for group in share.outgoing:
            made = yield from _stage(share.keys, job, group)
            staged.append(replace(share, held=(), outgoing=(), staged=made))
    return staged


def _from(now: int, group: Outgoing) -> Outgoing:
    """The messages with durations, since an earlier version may move the list, which reads no times.

    They are counted from the move, which follows the commit.
    """
    ttl = -group.ttl - now if group.ttl < 0 else group.ttl
    if group.ttl < 0 and ttl <= 0:
        raise ERRORS[Word.PAST](PAST)
    return replace(group, delay=max(0, -group.delay - now) if group.delay < 0 else group.delay, ttl=ttl)


def _stage(keys: QueueKeys, job: str, group: Outgoing) -> Steps[Staged]:
    attempt = job_calls.attempt_of("session", delay=group.delay, ttl=group.ttl)
    sizes, length = sizes_of(group.items), 0
    for part in cast("Iterator[Sequence[bytes]]", parts(group.items, sizes)):
        length += len(part)
        yield Pipeline([
            job_calls.stage(keys, job, attempt, part),
            job_calls.cut(keys, job, attempt, length),  # of a repetition
            job_calls.keep(keys, job, attempt, WAITS),
        ])  # fmt: skip
    return Staged(job, attempt, len(sizes), max(sizes))


def move_all(shares: Sequence[Share]) -> Steps[None]:
    """Move committed messages to the queues. After an error, the rest is left to maintenance."""
    for share in shares:
        if (staged := share.staged) is None:
            continue
        try:
            while (yield from move(share.keys, staged.job, staged.attempt, longest=staged.longest)):
                pass
        except RqDlqError as error:
            logger.warning(
                "%s: a session is committed, but maintenance must move the rest of its messages: %s",
                *(share.keys.family, error),
            )
            return
