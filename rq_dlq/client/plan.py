# Generated from rq_dlq/asyncio/plan.py by `python -m tests.colours_twin --write`.
"""A plan: what a verb would do, to be shown, and carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from rq_dlq.core.queues.who import who
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.changed import Refusal, in_words
from rq_dlq.values.failure import moment

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.core.changing.plans import Planned

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[R]):
    """What a verb would do: `dry_run=True` returns it, and nothing is changed.

    `carry_out` does what the plan says, and nothing more: to the messages that were there when it was made. A
    message that came or died since stays as it is, and so does one that was redriven or moved since, even if
    it is back. The plan is good for an hour, and once: carried out again, it only returns the first answer.
    It cannot be pickled: it stays in the process that made it.

    Attributes:
        verb: redrive, purge, dead_letter, expire, deliver_now, prioritize, move or copy.
        queue: the name of the queue.
        chosen: the chosen messages, in words.
        eligible: how many messages would be changed.
        leased: how many more are chosen, but are being processed: they stay.
        expired: of a redrive: how many are past their time to live. They are redriven like the others, since
            a death ends it; with `ttl="keep"` they stay dead.
        gone: of a redrive: how many of the given ids are not dead letters here.
        refused: of a redrive: how many of the eligible ones the edit refuses: they stay dead.
        refusals: the first hundred of these, with reasons.
        at: when it was made, by the server's clock (UTC).

    Examples:
        >>> plan = mails.dlq.purge(all=True, dry_run=True)
        >>> print(plan)
        1 dead letter of mails will be removed
        >>> done = plan.carry_out(by="anna")
        >>> print(done)
        1 removed
        >>> plan = mails.dlq.redrive(all=True, dry_run=True)
        >>> plan.eligible, plan.refused
        (0, 0)
    """

    verb: str
    queue: str
    chosen: str
    eligible: int
    leased: int
    expired: int
    gone: int
    refused: int
    refusals: tuple[Refusal, ...]
    at: datetime
    _planned: Planned = field(repr=False, compare=False)
    _carry: Callable[[str | None], Any] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return in_words(
            self.verb, self.queue, self.eligible - self.refused, self.leased, died=self._planned.died
        )

    def carry_out(self, *, by: str | None = None) -> R:
        """Do what the plan says.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Of `dlq.redrive` the job, whose `carried_out` compares it with the plan; of other verbs a
            `CarriedOut`.

        Raises:
            InvalidInput: the plan is more than an hour old, or `by` is not a name; nothing was done.

        Examples:
            >>> plan = mails.dlq.redrive(all=True, dry_run=True)
            >>> job = plan.carry_out(by="anna")
            >>> print(job.carried_out)
            1 moved back
        """
        who(by)  # also of a plan that chose nothing
        return self._carry(by)  # type: ignore[no-any-return]

    def __reduce__(self) -> NoReturn:
        raise ConfigurationError(
            "a plan cannot be pickled for another process, since it may contain functions: carry it out "
            "where it was made, or make one there"
        )


def plan_of(queue: str, planned: Planned, carry: Callable[[str | None], Any]) -> Plan[Any]:
    """A plan as callers get it.

    Args:
        queue: its name.
        carry: carries it out, for the operator whose name it gets.
    """
    return Plan(
        verb=planned.verb, queue=queue, chosen=planned.chosen, eligible=planned.eligible,
        leased=planned.leased, expired=planned.expired, gone=planned.gone, refused=planned.refused,
        refusals=planned.refusals, at=moment(planned.at), _planned=planned, _carry=carry,
    )  # fmt: skip
