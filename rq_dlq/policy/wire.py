"""Policies read back from where they stand in Redis."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.durations import TEN_YEARS
from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.policy.redelivery import RedeliveryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def read(wire: Mapping[str, Any]) -> RedeliveryPolicy:
    """See `RedeliveryPolicy.from_wire`."""
    fields = dict(wire)
    arithmetic = fields.pop("arithmetic", None)
    if not isinstance(arithmetic, str) or arithmetic not in READERS:
        message = f"no policy: its arithmetic is {arithmetic!r}, none of {', '.join(READERS)}"
        raise PolicyError(message)
    own, reader = READERS[arithmetic]
    wrong = sorted(fields.keys() ^ (COMMON | own))
    if wrong:
        message = f"no policy of arithmetic {arithmetic!r}: missing or unknown is {', '.join(wrong)}"
        raise PolicyError(message)
    return reader(fields)


def _rq(fields: Mapping[str, Any]) -> RedeliveryPolicy:
    delays = fields["delays"]
    return RedeliveryPolicy(
        initial_delay=_span(fields["initial_delay"], "initial_delay"),
        multiplier=fields["multiplier"],
        max_delay=None if fields["max_delay"] is None else _span(fields["max_delay"], "max_delay"),
        collision_avoidance=fields["collision_avoidance"],
        max_redeliveries=fields["max_redeliveries"],
        delays=None if delays is None else [_span(delay, "delays") for delay in delays],
    )


def _artemis(fields: Mapping[str, Any]) -> RedeliveryPolicy:
    limit = check.redeliveries(fields["max_redeliveries"], "max_redeliveries")
    return ArtemisRedelivery(
        redelivery_delay=fields["initial_delay"],
        redelivery_delay_multiplier=fields["multiplier"],
        max_redelivery_delay=fields["max_delay"],
        redelivery_collision_avoidance_factor=fields["collision_avoidance"],
        max_delivery_attempts=-1 if limit is None else limit + 1,
    )


def _activemq(fields: Mapping[str, Any]) -> RedeliveryPolicy:
    return ActiveMQRedelivery(
        maximum_redeliveries=fields["max_redeliveries"],
        initial_redelivery_delay=fields["initial_delay"],
        redelivery_delay=fields["redelivery_delay"],
        back_off_multiplier=fields["multiplier"],
        use_exponential_back_off=True,  # with a multiplier of 1, where it is not
        maximum_redelivery_delay=-1 if fields["max_delay"] is None else fields["max_delay"],
        use_collision_avoidance=True,  # with a factor of 0, where it is not
        collision_avoidance_factor=fields["collision_avoidance"],
    )


def _span(ms: object, name: str) -> timedelta:
    return timedelta(milliseconds=check.whole(ms, f"{name}, in milliseconds,", 0, TEN_YEARS))


COMMON: Final = frozenset(
    {"initial_delay", "multiplier", "max_delay", "collision_avoidance", "max_redeliveries"}
)
READERS: Final[dict[str, tuple[frozenset[str], Callable[[Mapping[str, Any]], RedeliveryPolicy]]]] = {
    RedeliveryPolicy.ARITHMETIC: (frozenset({"delays"}), _rq),
    ArtemisRedelivery.ARITHMETIC: (frozenset(), _artemis),
    ActiveMQRedelivery.ARITHMETIC: (frozenset({"redelivery_delay"}), _activemq),
}
"""By arithmetic: the fields that only it has, and what makes the policy."""
