"""The streams that a queue keeps: its outcome history (lua/outcomes.lua, note), and its audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq import _keys
from rq_dlq.core.looking.audit_record import read_audit
from rq_dlq.core.steps.call import Command, read_entries
from rq_dlq.values.outcome import RawOutcome, after

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.looking.audit_record import AuditRecord


def page(keys: QueueKeys, *, start: str = "-", end: str = "+", limit: int) -> Command[list[RawOutcome]]:
    """The first `limit` entries from `start` to `end`, both included, the oldest first.

    Args:
        start: the id of an entry, or a time in milliseconds; "-": the oldest.
        end: the same; a time means all of that millisecond; "+": the newest.
    """
    return Command((b"XRANGE", keys["outcomes"], start, end, b"COUNT", limit), read_entries)


def newest(keys: QueueKeys, *, limit: int) -> Command[list[RawOutcome]]:
    """The last `limit` entries, the oldest first."""
    command = (b"XREVRANGE", keys["outcomes"], b"+", b"-", b"COUNT", limit)
    return Command(command, lambda reply: read_entries(reply)[::-1])


def count(keys: QueueKeys) -> Command[int]:
    """How many entries there are."""
    return Command((b"XLEN", keys["outcomes"]), int)


def acked_at(keys: QueueKeys, message_id: str) -> Command[int | None]:
    """When a message was acked, milliseconds; None: the queue does not remember it."""
    parts = (b"ZSCORE", keys["acked_ids"], message_id)
    return Command(parts, lambda reply: None if reply is None else int(float(reply)))


def unique_until(keys: QueueKeys, message_id: str) -> Command[int | None]:
    """Until when a unique call is known that was acked, milliseconds; None: it was not (lua/resend.lua)."""
    parts = (b"ZSCORE", keys["acked_ids"], "\1" + message_id)
    return Command(parts, lambda reply: None if reply is None else int(float(reply)))


def trim(keys: QueueKeys, *, through: str) -> Command[int]:
    """Drop the entry of this id and all that are older. Reads as how many."""
    return Command((b"XTRIM", keys["outcomes"], b"MINID", b"=", after(through)), int)


def audit(keys: QueueKeys, limit: int) -> Command[list[AuditRecord]]:
    """The newest entries of the queue's audit, the newest first."""
    return _audit(keys["audit"], keys.family, limit)


def audit_of_none(namespace: str, limit: int) -> Command[list[AuditRecord]]:
    """The same for changes that no queue keeps: of the map of policies, and deletions of queues."""
    return _audit(_keys.audit(namespace), "", limit)


def _audit(key: str, family: str, limit: int) -> Command[list[AuditRecord]]:
    def read(reply: Any) -> list[AuditRecord]:
        return [read_audit(family, entry) for entry in read_entries(reply)]

    return Command((b"XREVRANGE", key, b"+", b"-", b"COUNT", limit), read)
