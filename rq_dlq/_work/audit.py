"""The audit: who did what to a queue and its dead letters."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq._calls import redrives as calls
from rq_dlq._calls import upkeep
from rq_dlq._keys import QueueKeys
from rq_dlq._work.queue import check_limit
from rq_dlq.errors import BrokerRefused, InvalidInput
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq._work.queue import Queue
    from rq_dlq._work.steps import Steps
    from rq_dlq.values.redrive import AuditRecord

MOST_NAME = 200  # characters of who asks


def who(queue: Queue[Any], by: str | None) -> str:
    """Who asks, as JSON; None: this process.

    Raises:
        InvalidInput: this is no name.
    """
    if by is None:
        return queue.consumer
    with suppress(UnicodeEncodeError):  # a lone surrogate, as of a command line that is not UTF-8
        if isinstance(by, str) and 0 < len(by) <= MOST_NAME:
            return msgspec.json.encode(by).decode()
    raise InvalidInput(f"by {shown(by)}: pass a name, at most {MOST_NAME} characters")


def whoami() -> Steps[str]:
    """The Redis user; empty where the server does not tell."""
    try:
        return (yield calls.whoami())  # type: ignore[no-any-return]
    except BrokerRefused:
        return ""


def audit(namespace: str, limit: int) -> Steps[list[AuditRecord]]:
    """What operators did in all queues of a namespace, the newest first.

    Raises:
        InvalidInput: the limit is not valid.
    """
    check_limit(limit, optional=False)
    found: list[AuditRecord] = []
    for family in (yield upkeep.registered(namespace)):
        found += yield calls.audit(QueueKeys(namespace, family), limit)
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]
