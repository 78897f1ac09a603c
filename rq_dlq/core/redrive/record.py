"""Redrives as jobs: the request, the progress, and the outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from rq_dlq.core.queues.who import name_of
from rq_dlq.values.changed import CarriedOut
from rq_dlq.values.codec import NO_JSON

RedriveState = Literal["running", "paused", "done", "cancelled", "undone"]
STATES: tuple[RedriveState, ...] = ("running", "paused", "undone", "cancelled", "done")
NUMBERS = ("eligible", "moved", "gone", "acked", "died", "undone", "expired", "refused", "leased")
"""The counts; the fields of a record besides its state (lua/redrive.lua, read)."""


@dataclass(frozen=True, slots=True)
class RedriveCounts:
    """The progress of a redrive.

    Attributes:
        eligible: how many dead letters it was started for.
        moved: how many were moved back.
        gone: how many were not found: ids that are not dead letters, and messages redriven or removed by
            others; with `all=True` also those that were claimed after the redrive began.
        acked: how many of the moved ones were acked.
        died: how many of them are dead again, expired, or were discarded as such.
        undone: how many an undo took back.
        expired: how many stay dead, because the kept time to live has ended.
        refused: how many stay dead, because their edit failed, or the target queue has their ids.
        leased: how many were being processed, when the redrive began or when their turn came. They stay dead
            when they are released: redrive them again. Only a redrive with `all=True` takes one that is
            released before it has come to its place.

    Examples:
        >>> job = mails.dlq.redrive(all=True)
        >>> job.counts.eligible, job.counts.moved
        (1, 1)
    """

    eligible: int = 0
    moved: int = 0
    gone: int = 0
    acked: int = 0
    died: int = 0
    undone: int = 0
    expired: int = 0
    refused: int = 0
    leased: int = 0

    def __add__(self, other: RedriveCounts) -> RedriveCounts:
        return RedriveCounts(*(getattr(self, name) + getattr(other, name) for name in NUMBERS))


class Asked(msgspec.Struct, frozen=True):
    """The request of a redrive, which scripts also read.

    Attributes:
        part: dead or expired.
        chosen: the messages, in words.
        rate: messages a second; 0: no limit.
        canary: how many are moved first; 0: no canary.
        min_success: the share of acks that the outcomes must have; 0: it is not judged.
        by: the operator, as JSON.
        user: the Redis user who asked.
        at: when, milliseconds.
        cause: cells of the history of each message.
        ttl: the messages' time to live, milliseconds; 0: none, -1: they expire when they would have.
        to: the queue that they go to; empty: their own.
        how: what the redrive changes in the messages, in words.
        offered: only its caller can move them, since it edits them, or they go to another queue.
        planned: how many messages the plan had that it carries out; None: it has no plan.
        later: how many more had died since the plan was made, when it began.
    """

    part: str
    chosen: str
    rate: float
    canary: int
    min_success: float
    by: str
    user: str
    at: int
    cause: str
    ttl: int = 0
    to: str = ""
    how: str = ""
    offered: bool = False
    planned: int | None = None
    later: int = 0


@dataclass(frozen=True, slots=True)
class Redrive:
    """A redrive in one queue.

    Attributes:
        id: of the job.
        family: the queue.
        why: the cause of a pause: "success", or the operator, as JSON; or "left": its caller did not continue
            it, so it is cancelled; otherwise empty.
    """

    id: str
    family: str
    asked: Asked
    state: RedriveState
    why: str
    counts: RedriveCounts

    @property
    def carried_out(self) -> CarriedOut | None:
        """What it has done of its plan; None: it has no plan."""
        counts, planned = self.counts, self.asked.planned
        if planned is None:
            return None
        leased = max(0, planned - counts.eligible - counts.gone)
        return CarriedOut(
            verb="redrive", planned=planned, changed=counts.moved, gone=counts.gone, leased=leased,
            later=self.asked.later, died=True,
        )  # fmt: skip

    @property
    def pause(self) -> str:
        """Why it is paused, or was cancelled automatically, a sentence; empty: neither."""
        if self.why == "left":
            return "the process that began it did not continue it, and no other process can"
        if self.state != "paused":
            return ""
        if self.why != "success":
            return f"{name_of(self.why)} paused it"
        counts = self.counts
        return (
            f"{counts.acked} of {counts.acked + counts.died} messages that ended were acked, and min_success "
            f"requires {self.asked.min_success * 100:g} %"
        )


def read_redrive(job: str, family: str, cells: list[bytes | None]) -> Redrive | None:
    """A redrive from the fields of its record: the request, the state, why, and the numbers.

    None: it does not exist, or cannot be read.
    """
    asked, state, why, *numbers = cells
    try:
        return Redrive(
            job,
            family,
            msgspec.json.decode(asked or b"", type=Asked),
            (state or b"").decode(),  # type: ignore[arg-type]
            (why or b"").decode(errors="replace"),
            RedriveCounts(*(int(float(number or 0)) for number in numbers)),
        )
    except NO_JSON:
        return None
