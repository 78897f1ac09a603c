"""A queue's rule for messages with the same key: order, a limit, fairness, and a rate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import rate as rates
from rq_dlq.values.durations import shown
from rq_dlq.values.later import upgrade

USUAL_WINDOW: Final = 4
MOST_WINDOW, MOST_SEATS = 100, 1_000
_TEXT = re.compile(
    r"(?:(?P<order>order)(?: (?P<on_dead>skip|hold))?|limit (?P<limit>\d{1,4})"
    r"|(?P<fair>fair)(?: (?P<window>\d{1,4}))?)?(?:(?:^| )rate (?P<rate>\S+))?"
)
_GRAMMAR = 'order, "order hold", "limit 8", fair, "fair 8", "rate 10/s", or with a rate: "limit 8 rate 10/s"'


@dataclass(frozen=True, slots=True)
class PerKey:
    """The rule of a queue for messages with the same key: one of order, limit and fair; a rate; or both.

    Attributes:
        order: messages of a key are delivered one at a time, in the order of priority and sending: each waits
            until all earlier ones are done, even while one of them waits for its next attempt.
        on_dead: with `order`: what happens to the messages behind a dead letter. "skip": they are delivered.
            "hold": they wait until it is redriven, purged, moved, dropped or acked.
        limit: at most this many messages of a key are ready or leased at a time, 1 to 1,000. A message that
            waits for its next attempt makes room for another one.
        fair: keys take turns: a key has at most this many messages ready before the others, 1 to 100; True:
            4. A key is not limited while no other key has messages.
        rate: how many messages of a key are delivered per time span, evenly: "10/s", "5/10m"; a whole number
            is a rate per second; None: no rate. It can be used alone or with one of the three.

    Raises:
        PolicyError: none of them is given, or more than one of the three, or a value is not valid.

    Examples:
        >>> orders = broker.queue("in-order", per_key=PerKey(order=True))
        >>> sent = orders.send_many([Message(step, key="customer-7") for step in ("open", "pay", "ship")])
        >>> [delivery.body for delivery in orders.claim(count=3)]
        ['open']
    """

    order: bool = False
    on_dead: Literal["skip", "hold"] = "skip"
    limit: int | None = None
    fair: bool | int = False
    rate: str | int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check.flag(self.order, "per_key.order")
        fair = self.fair is not False
        check.store(self, rate=rates.given(self.rate, "per_key.rate", none=""))
        modes = self.order + (self.limit is not None) + fair
        if modes > 1 or not (modes or self.rate):
            raise PolicyError("per_key: pass one of order=True, limit=8 and fair=True, or a rate, or both")
        if self.on_dead not in {"skip", "hold"}:
            raise PolicyError(f"per_key.on_dead is {shown(self.on_dead)}. Pass 'skip' or 'hold'")
        if self.on_dead == "hold" and not self.order:
            raise PolicyError(
                "per_key.on_dead='hold' requires order=True. Pass only these, or leave on_dead out"
            )
        if self.limit is not None:
            check.whole(self.limit, "per_key.limit", 1, MOST_SEATS)
        if fair:
            window = USUAL_WINDOW if self.fair is True else self.fair
            check.store(self, fair=check.whole(window, "per_key.fair", 1, MOST_WINDOW))

    def __str__(self) -> str:
        said = ["order hold" if self.on_dead == "hold" else "order"] if self.order else []
        said += [] if self.limit is None else [f"limit {self.limit}"]
        said += [] if self.fair is False else [f"fair {self.fair}"]
        return " ".join([*said, *([] if self.rate is None else [f"rate {self.rate}"])])

    @classmethod
    def of(cls, given: object) -> PerKey:
        """The rule for an argument: a rule, its text, or a mapping of its fields.

        Raises:
            PolicyError: it is not a rule.
        """
        if isinstance(given, PerKey):
            return given
        if isinstance(given, Mapping):
            names = ("order", "on_dead", "limit", "fair", "rate")
            return cls(**check.fields(cast("Mapping[str, Any]", given), names, "per_key"))
        found = _TEXT.fullmatch(given) if isinstance(given, str) and given else None
        if found is None:
            rule = "" if isinstance(given, str) else "PerKey(order=True), or text: "
            raise PolicyError(f"per_key is {shown(given)}. Pass {rule}{_GRAMMAR}")
        limit, window = found["limit"], found["window"]
        return cls(
            order=bool(found["order"]),
            on_dead="hold" if found["on_dead"] == "hold" else "skip",
            limit=None if limit is None else int(limit),
            fair=int(window) if window else bool(found["fair"]),
            rate=found["rate"],
        )


def given(value: object, _: str) -> str | None:
    """The argument `per_key` as text; None: keys are ignored."""
    return None if value is None else str(PerKey.of(value))


def stored(value: object, name: str) -> str | None:
    """The text in Redis; it may be a rule that only a later version can read."""
    if value is not None and (not isinstance(value, str) or not value):
        raise PolicyError(f"{name} is {shown(value)}. Pass text")
    return value


def in_force(text: str | None, family: str) -> PerKey | None:
    """The rule in force for a queue.

    Raises:
        UpgradeRequired: only a later version can read it.
    """
    try:
        return None if text is None else PerKey.of(text)
    except PolicyError:
        raise upgrade(f"the policy of {family!r}, whose per_key is {shown(text)},", "") from None
