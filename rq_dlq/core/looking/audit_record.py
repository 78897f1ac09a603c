"""What the audit says of one deed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rq_dlq.core.queues.who import name_of
from rq_dlq.core.redrive.record import NUMBERS, RedriveCounts
from rq_dlq.values.failure import moment


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Something that an operator did to dead letters, or to a queue.

    Attributes:
        at: when, by the server's clock (UTC).
        queue: where.
        job: the id of the redrive; empty: the queue was paused or resumed.
        did: started, paused, resumed, cancelled, undone, or done: it came to its end.
        by: who; of a redrive that paused or ended by itself, who started it.
        user: the Redis user; empty: not known.
        chosen: the messages, in words.
        counts: how far the redrive had come.
        how: what it changes in the messages, in words; empty: nothing.
    """

    at: datetime
    queue: str
    job: str
    did: str
    by: str
    user: str
    chosen: str
    counts: RedriveCounts
    how: str = ""


def read_audit(family: str, entry: tuple[str, list[bytes]]) -> AuditRecord:
    """An entry of a queue's stream as a value; missing or damaged fields are empty, or 0."""
    at, cells = entry
    fields = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in zip(cells[::2], cells[1::2], strict=False)
    }
    job, did, by, user, chosen = (fields.get(name, "") for name in ("job", "did", "by", "user", "chosen"))
    numbers = (fields.get(name, "") for name in NUMBERS)
    counts = RedriveCounts(*(int(number) if number.isdigit() else 0 for number in numbers))
    when, how = moment(int(at.partition("-")[0])), fields.get("how", "")
    return AuditRecord(when, family, job, did, name_of(by), user, chosen, counts, how)
