"""The results of verbs on chosen messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

from rq_dlq.values.readable import many

MOST_REFUSALS: Final = 100  # that are kept


class Changed(int):
    """The number of messages that a verb changed, with the number of leased ones that it left unchanged.

    When pickled, it is a plain number; other encoders may need `int(changed)`.

    Attributes:
        leased: the number of chosen messages that are being processed, and were left unchanged.
            To cancel one of them, use `Queue.cancel`. 0 if `places` leaves out "leased".

    Examples:
        >>> changed = orders.select(ids=["order-41"]).prioritize(9)
        >>> changed, changed.leased
        (1, 0)
        >>> (delivery,) = orders.claim()
        >>> changed = orders.purge(where="body.total > 5")
        >>> changed, changed.leased
        (0, 1)
    """

    leased: int

    def __new__(cls, number: int, leased: int = 0) -> Self:
        """Make it from both numbers."""
        changed = super().__new__(cls, number)
        changed.leased = leased
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class _Words(NamedTuple):
    """The words for a verb: what it has done, and why it left one message, or several."""

    done: str
    missing: tuple[str, str]


_GONE: Final = ("is not there any more", "are not there any more")
_KNOWN: Final = (
    "is not there any more, or the other queue has its id, or is full",
    "are not there any more, or the other queue has their ids, or is full",
)
_BEHIND: Final = (
    "is not there any more, or waits for others of its key",
    "are not there any more, or wait for others of their keys",
)
_HAVE: Final = ("is not there any more, or has it already", "are not there any more, or have it already")
_VERBS: Final = {
    "redrive": _Words("moved back", _GONE),
    "purge": _Words("removed", _GONE),
    "dead_letter": _Words("sent to the dead-letter queue", _GONE),
    "expire": _Words("expired", _GONE),
    "deliver_now": _Words("made ready", _BEHIND),
    "prioritize": _Words("given the priority", _HAVE),
    "move": _Words("moved", _KNOWN),
    "copy": _Words("copied", _KNOWN),
}


def in_words(verb: str, queue: str, number: int, leased: int, *, died: bool) -> str:
    """What a plan will do, a sentence."""
    what = "dead letter" if died else "message"
    stay = f"; {many(leased, what)} being processed will stay" if leased else ""
    return f"{many(number, what)} of {queue} will be {_VERBS[verb].done}{stay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """What a plan has done; as text, a sentence about it.

    Attributes:
        verb: of the plan.
        planned: how many messages the plan had.
        changed: how many of them were changed.
        gone: how many were not there any more: others had redriven, removed or processed them.
        leased: how many are being processed, and were left.
        later: how many more meet the condition, but have come since the plan was made: they stay as they are.
        died: the plan was about dead letters, or expired messages.

    Examples:
        >>> plan = mails.dlq.purge(all=True, dry_run=True)
        >>> done = plan.carry_out(by="anna")
        >>> print(done)
        1 removed
        >>> done.planned, done.differences
        (1, [])
    """

    verb: str
    planned: int
    changed: int
    gone: int = 0
    leased: int = 0
    later: int = 0
    died: bool = False

    def __add__(self, other: CarriedOut) -> CarriedOut:
        numbers = ("planned", "changed", "gone", "leased", "later")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in numbers})

    @property
    def differences(self) -> list[str]:
        """How it differs from the plan, in words; empty: it does not."""
        words = _VERBS[self.verb]
        came = "died" if self.died else "come"
        counts = (
            (self.gone, *words.missing),
            (self.leased, "is being processed, and stays", "are being processed, and stay"),
            (self.later, f"more has {came} since, and stays", f"more have {came} since, and stay"),
        )
        return [f"{number:,} {one if number == 1 else several}" for number, one, several in counts if number]

    def __str__(self) -> str:
        short = self.changed < self.planned
        number = f"{self.changed:,} of {self.planned:,}" if short else f"{self.changed:,}"
        return "; ".join([f"{number} {_VERBS[self.verb].done}", *self.differences])


@dataclass(frozen=True, slots=True)
class Refusal:
    """A dead letter that a redrive left dead, because it could not be changed as requested.

    Attributes:
        id: the message's id.
        why: the reason, a sentence.

    Examples:
        >>> job = mails.dlq.redrive(all=True, edit=lambda mail: {"to": mail["address"]})
        >>> for refusal in job.refusals:
        ...     print(refusal.id, refusal.why)
        mail-1 KeyError: 'address'
    """

    id: str
    why: str
