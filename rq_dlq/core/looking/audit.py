"""The audit: who did what to a queue and its dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq.core.looking import calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import check_limit

if TYPE_CHECKING:
    from rq_dlq.core.looking.audit_record import AuditRecord
    from rq_dlq.core.steps.step import Steps


def audit(namespace: str, limit: int) -> Steps[list[AuditRecord]]:
    """What operators did in all queues of a namespace, the newest first.

    Raises:
        InvalidInput: the limit is not valid.
    """
    check_limit(limit, optional=False)
    found: list[AuditRecord] = []
    for family in (yield queue_calls.registered(namespace)):
        found += yield calls.audit(QueueKeys(namespace, family), limit)
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]
