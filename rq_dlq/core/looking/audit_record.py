"""A record of the audit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rq_dlq.core.queues.who import name_of
from rq_dlq.core.redrive.record import NUMBERS, RedriveCounts
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import many

BY_ITSELF = {"opened": "went down", "closed": "came back"}


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An operator's action on messages, a queue, a schedule, or the map of policies.

    Attributes:
        at: when, by the server's clock (UTC).
        queue: the queue; empty: the action was on a policy.
        job: the id of the redrive; empty: it was not a redrive.
        did: for a redrive: started, paused, resumed, cancelled, undone or done. For messages: redriven,
            purged, dead-lettered, expired, made ready, prioritized, moved, copied or imported. For a
            schedule: scheduled, unscheduled, paused or resumed; for a queue: paused, resumed, reset,
            undeclared or deleted; for a dependency: opened (it counts as down), closed (it is back), paused,
            resumed or probed. Otherwise "set a policy" or "removed a policy".
        by: the operator: "ana@web-1", or the given name. For a redrive that paused because too few messages
            succeeded: "its canary" or "its min_success"; for an abandoned one that was cancelled:
            "maintenance"; for a dependency that went down or came back by itself: "breaker".
        user: the Redis user (ACL); empty: unknown.
        chosen: the messages, the schedule or the pattern, in words.
        counts: the progress of the redrive.
        how: its changes to the messages, in words; empty: none.
        number: how many messages were changed so far, or come back to a dependency that is up again; 0: none,
            or it is a redrive (`counts`).
        act: the id of an action of several calls; empty: it took one call.

    Examples:
        >>> removed = orders.purge(all=True, by="anna")
        >>> (record,) = broker.audit(1)
        >>> record.who, record.what, record.which, record.queue
        ('anna', 'purged', '1 message (ready, scheduled: all)', 'orders')
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
    number: int = 0
    act: str = ""

    @property
    def what(self) -> str:
        """`did` as people say it: a dependency went down, or came back."""
        return BY_ITSELF.get(self.did, self.did) if self.by == "breaker" else self.did

    @property
    def which(self) -> str:
        """Its object, in words: "240 messages (dead: group 1f0c6a9e2b7d), to invoices"."""
        if self.job:
            return ", ".join(filter(None, (self.chosen, self.how)))
        number = many(self.number, "message") if self.number or self.did == "deleted" else ""
        what = f"{number} ({self.chosen})" if number and self.chosen else number or self.chosen
        return ", ".join(filter(None, (what, self.how)))

    @property
    def who(self) -> str:
        """The operator, with the ACL user of Redis unless that is the default user."""
        return f"{self.by} (ACL user {self.user})" if self.user not in {"", "default"} else self.by


def read_audit(family: str, entry: tuple[str, list[bytes]]) -> AuditRecord:
    """An entry of a queue's stream as a value; missing or damaged fields are empty, or 0."""
    at, cells = entry
    fields = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in zip(cells[::2], cells[1::2], strict=False)
    }
    job, did, by, user, chosen = (fields.get(name, "") for name in ("job", "did", "by", "user", "chosen"))
    numbers = (fields.get(name, "") for name in NUMBERS)
    counts = RedriveCounts(*(_count(number) for number in numbers))
    when, how = moment(int(at.partition("-")[0])), fields.get("how", "")
    queue, number = fields.get("queue", family), _count(fields.get("number", ""))
    return AuditRecord(
        when, queue, job, did, name_of(by), user, chosen, counts, how, number, fields.get("act", "")
    )


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
