"""The audit: the operators' actions on queues and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq.core.looking import calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import check_limit

if TYPE_CHECKING:
    from rq_dlq.core.looking.audit_record import AuditRecord
    from rq_dlq.core.steps.step import Steps

ALL = 2_000  # more than are kept


def audit(namespace: str, limit: int, queue: str | None = None) -> Steps[list[AuditRecord]]:
    """The acts of operators in all queues of a namespace, or in one, the newest first.

    Raises:
        InvalidInput: the limit is not valid.
    """
    check_limit(limit, optional=False)
    apart: list[AuditRecord] = yield calls.audit_of_none(namespace, limit if queue is None else ALL)
    found = [one for one in apart if queue in {None, one.queue}]
    if queue is not None:
        names = [queue]
    else:
        names = [*(yield queue_calls.registered(namespace)), *(one.queue for one in apart if one.queue)]
    for family in dict.fromkeys(names):
        found += yield calls.audit(QueueKeys(namespace, family), limit)
    once: dict[tuple[str, str | int], AuditRecord] = {}  # a call that was repeated may leave a second note
    for n, one in enumerate(sorted(found, key=lambda one: one.at, reverse=True)):
        once.setdefault((one.queue, one.act or n), one)
    return [*once.values()][:limit]
