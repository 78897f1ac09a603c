"""The terms of a redrive, and its changes to the messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from rq_dlq.core.redrive.record import Asked
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import Duration, human, milliseconds, shown
from rq_dlq.values.failure import Cause

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState

MOST_CANARY = 1_000  # lua/redrive.lua, room reads this many
USUAL_SUCCESS = 0.95  # the success that a canary must reach
KEEP = "keep"
KEPT = -1  # for KEEP, lua/state.lua, redriven_expiry


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of a redrive, and its changes to the messages.

    Args:
        rate: messages a second; None: no limit.
        canary: how many are moved first; the others wait until all of these have ended.
        min_success: the share of acks that the outcomes must have, otherwise it pauses; None: the usual share
            for a canary, and without one it is not judged.
        by: the operator; None: this process.
        detach: leave it to workers and maintenance.
        to: another queue that they go to; None: their own.
        create: create that queue if it does not exist.
        edit: takes the body of each message and returns the new one, or raises an error to leave it dead;
            None: no edit.
        ttl: their time to live from now, or "keep" for the rest of theirs; None: no ttl.

    Raises:
        InvalidInput: an argument is not valid, or two do not go together.
        InvalidDuration: `ttl` is not valid.
    """

    rate: float | None = None
    canary: int | None = None
    min_success: float | None = None
    by: str | None = None
    detach: bool = False
    to: QueueState[Any] | None = None
    create: bool = False
    edit: Callable[[Any], object] | None = None
    ttl: Duration | None = None

    def __post_init__(self) -> None:
        rate, canary, part = self.rate, self.canary, self.min_success
        if rate is not None and not (_is_number(rate) and 0 < rate <= 1_000_000):  # noqa: PLR2004
            raise InvalidInput(
                f"rate {shown(rate)}: pass messages a second, above 0, or leave it out for no limit"
            )
        if canary is not None and not (type(canary) is int and 0 < canary <= MOST_CANARY):
            raise InvalidInput(
                f"canary {shown(canary)}: pass how many messages are redriven first, 1 to {MOST_CANARY:,}"
            )
        if part is not None and not (_is_number(part) and 0 < part <= 1):
            raise InvalidInput(
                f"min_success {shown(part)}: pass a fraction, more than 0 and at most 1, such as 0.95"
            )
        if part is not None and rate is None and canary is None:
            raise InvalidInput(
                "min_success needs a canary or a rate: without one, all are moved before any has ended"
            )
        if self.create and self.to is None:
            raise InvalidInput("create creates the queue `to`: pass both")
        if self.edit is not None and (not callable(self.edit) or iscoroutinefunction(self.edit)):
            raise InvalidInput(f"edit {shown(self.edit)}: pass a plain function from a body to the new one")
        self._check_together()
        _ = self.milliseconds

    def _check_together(self) -> None:
        if self.to is not None and (self.canary is not None or self.min_success is not None):
            message = (
                "canary and min_success depend on the outcomes of the messages, which are not counted in "
                "another queue: leave them out, or redrive without `to`"
            )
            raise InvalidInput(message)
        if self.detach and self.offered:
            what = "edit" if self.edit is not None else "to"
            message = (
                f"detach leaves the redrive to other processes, which cannot do `{what}`: leave one of them "
                "out"
            )
            raise InvalidInput(message)

    @property
    def is_gradual(self) -> bool:
        """Whether it takes time, or others drive it."""
        return self.detach or self.rate is not None or self.canary is not None

    @property
    def offered(self) -> bool:
        """Whether only the caller can bring the messages back."""
        return self.edit is not None or self.to is not None

    @property
    def keeps_ttl(self) -> bool:
        """Whether the messages keep their time to live."""
        return self.milliseconds == KEPT

    @property
    def milliseconds(self) -> int:
        """The time to live as scripts read it; 0: none."""
        if self.ttl is None:
            return 0
        return KEPT if self.ttl == KEEP else milliseconds(self.ttl, name="ttl", minimum=1)

    @property
    def how(self) -> str:
        """Its changes to the messages, in words."""
        ttl = self.milliseconds
        words = (
            "edited" if self.edit is not None else "",
            f"to {self.to.name}" if self.to is not None else "",
            ("ttl kept" if ttl == KEPT else f"ttl {human(ttl)}") if ttl else "",
        )
        return ", ".join(filter(None, words))

    def asked(self, *, part: str, job: str, source: str, chosen: str, by: str, user: str, at: int) -> Asked:
        """The request, for the messages in one part of a queue."""
        there = source if self.to is None else self.to.keys.family
        to = "" if there == source else there  # the other queue's own part of a shared name goes back
        origin = f" from {source}" if to else ""
        how = f" ({self.how})" if self.how else ""
        return Asked(
            part=part,
            chosen=chosen,
            rate=self.rate or 0,
            canary=self.canary or 0,
            min_success=self.min_success or (USUAL_SUCCESS if self.canary else 0),
            by=by,
            user=user,
            at=at,
            cause=Cause.of(f"redrive {job}{origin}{how}").cells(),
            ttl=self.milliseconds,
            to=to,
            how=self.how,
            offered=self.offered,
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
