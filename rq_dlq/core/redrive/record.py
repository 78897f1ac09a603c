"""Redrives as jobs: what was asked for, how far it came, and what became of the messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from rq_dlq.core.queues.who import name_of
from rq_dlq.values.codec import NO_JSON

RedriveState = Literal["running", "paused", "done", "cancelled", "undone"]
STATES: tuple[RedriveState, ...] = ("running", "paused", "undone", "cancelled", "done")
NUMBERS = ("eligible", "moved", "gone", "acked", "died", "undone", "expired", "refused")
"""What is counted; the fields of a record beside its state (lua/lib/read_redrive.lua)."""


MOST_REFUSALS = 100  # that are told


@dataclass(frozen=True, slots=True)
class Refusal:
    """A dead letter that a redrive left dead, since it could not be changed as it was asked for.

    Attributes:
        id: of the message.
        why: a sentence.

    Examples:
        >>> job = mails.dlq.redrive(all=True, edit=lambda mail: {"to": mail["address"]})
        >>> for refusal in job.refusals:
        ...     print(refusal.id, refusal.why)
        mail-1 KeyError: 'address'
    """

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """What a redrive would bring back.

    Attributes:
        eligible: how many dead letters.
        expired: of these, how many had a time to live that would be over by now. They come back like the
            others, since a death ends it; with `ttl="keep"` they stay dead.
        gone: of the ids that were asked for, how many are no dead letters here.
        refused: of the eligible, how many the edit refuses: they stay dead.
        refusals: which, and why; the first hundred.

    Examples:
        >>> plan = mails.dlq.redrive(all=True, dry_run=True)
        >>> plan.eligible, plan.refused
        (1, 0)
    """

    eligible: int
    expired: int
    gone: int
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class RedriveCounts:
    """How far a redrive came.

    Attributes:
        eligible: how many dead letters it was begun for.
        moved: how many it has brought back.
        gone: how many it did not find: ids that are no dead letters, and what others brought back or removed.
        acked: of those that it brought back, how many were acked.
        died: of those, how many are dead again, expired, or were discarded as such.
        undone: how many an undo took back.
        expired: how many stay dead, since the time to live that was to be kept is over.
        refused: how many stay dead, since they could not be edited, or the other queue has their ids.

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

    def __add__(self, other: RedriveCounts) -> RedriveCounts:
        return RedriveCounts(*(getattr(self, name) + getattr(other, name) for name in NUMBERS))


class Asked(msgspec.Struct, frozen=True):
    """What a redrive was asked for; the scripts read it, too.

    Attributes:
        part: dead or expired.
        chosen: the messages, in words.
        rate: messages a second; 0: no limit.
        canary: how many come first; 0: none do.
        min_success: the part of the messages that have ended which has to be acked; 0: it is not judged.
        by: who asked, as JSON.
        user: the Redis user who asked.
        at: when, milliseconds.
        cause: cells of the history of each message.
        ttl: the messages' time to live, milliseconds; 0: none, -1: they expire when they would have.
        to: the queue that they go to; empty: their own.
        how: what the redrive changes in the messages, in words.
        offered: only its caller can bring them back, since it edits them, or they go to another queue.
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


@dataclass(frozen=True, slots=True)
class Redrive:
    """A redrive in one queue.

    Attributes:
        id: of the job.
        family: the queue.
        why: why it is paused: "success", or who paused it, as JSON; or "left": its caller did not go on with
            it, so it is cancelled; else empty.
    """

    id: str
    family: str
    asked: Asked
    state: RedriveState
    why: str
    counts: RedriveCounts

    @property
    def pause(self) -> str:
        """Why it is paused, or was cancelled by itself, a sentence; empty: neither."""
        if self.why == "left":
            return "the process that began it did not go on with it, and no other can"
        if self.state != "paused":
            return ""
        if self.why != "success":
            return f"{name_of(self.why)} paused it"
        counts = self.counts
        return (
            f"{counts.acked} of {counts.acked + counts.died} messages that came to an end were acked, "
            f"and min_success asks for {self.asked.min_success * 100:g} %"
        )


def read_redrive(job: str, family: str, cells: list[bytes | None]) -> Redrive | None:
    """A redrive from the fields of its record: what was asked for, the state, why, and the numbers.

    None: there is none, or it cannot be read.
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
