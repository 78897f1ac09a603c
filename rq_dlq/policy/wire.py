"""From a policy in Redis to the arguments of `RedeliveryPolicy`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.arithmetic import Backoff
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery, after_the_first
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def read(wire: Mapping[str, Any]) -> dict[str, Any]:
    """See `RedeliveryPolicy.from_wire`."""
    fields = dict(wire)
    arithmetic = fields.pop("arithmetic", None)
    if not isinstance(arithmetic, str) or arithmetic not in READERS:
        message = f"not a policy: its arithmetic is {arithmetic!r}. There are {', '.join(READERS)}"
        raise PolicyError(message)
    own, reader = READERS[arithmetic]
    wrong = sorted(fields.keys() ^ (COMMON | own))
    if wrong:
        message = f"not a policy of arithmetic {arithmetic!r}: missing or unknown is {', '.join(wrong)}"
        raise PolicyError(message)
    return reader(fields)


def _rq(fields: Mapping[str, Any]) -> dict[str, Any]:
    delays = fields["delays"]
    return {
        "initial_delay": _span(fields["initial_delay"], "initial_delay"),
        "multiplier": fields["multiplier"],
        "max_delay": None if fields["max_delay"] is None else _span(fields["max_delay"], "max_delay"),
        "collision_avoidance": fields["collision_avoidance"],
        "max_redeliveries": fields["max_redeliveries"],
        "delays": None if delays is None else [_span(delay, "delays") for delay in delays],
    }


def _artemis(fields: Mapping[str, Any]) -> dict[str, Any]:
    limit = check.redeliveries(fields["max_redeliveries"], "max_redeliveries")
    attempts = -1 if limit is None else limit + 1
    preset = ArtemisRedelivery(
        redelivery_delay=fields["initial_delay"],
        redelivery_delay_multiplier=fields["multiplier"],
        max_redelivery_delay=fields["max_delay"],
        redelivery_collision_avoidance_factor=fields["collision_avoidance"],
    )
    return {"preset": preset, "max_redeliveries": after_the_first(attempts, "max-delivery-attempts")}


def _activemq(fields: Mapping[str, Any]) -> dict[str, Any]:
    preset = ActiveMQRedelivery(
        initial_redelivery_delay=fields["initial_delay"],
        redelivery_delay=fields["redelivery_delay"],
        back_off_multiplier=fields["multiplier"],
        use_exponential_back_off=True,  # with a multiplier of 1, where it is not
        maximum_redelivery_delay=-1 if fields["max_delay"] is None else fields["max_delay"],
        use_collision_avoidance=True,  # with a factor of 0, where it is not
        collision_avoidance_factor=fields["collision_avoidance"],
    )
    return {"preset": preset, "max_redeliveries": fields["max_redeliveries"]}


def _span(ms: object, name: str) -> timedelta:
    return timedelta(milliseconds=check.whole(ms, f"{name}, in milliseconds,", 0, TEN_YEARS))


COMMON: Final = frozenset(
    {"initial_delay", "multiplier", "max_delay", "collision_avoidance", "max_redeliveries"}
)
READERS: Final[dict[str, tuple[frozenset[str], Callable[[Mapping[str, Any]], dict[str, Any]]]]] = {
    Backoff.NAME: (frozenset({"delays"}), _rq),
    ArtemisRedelivery.NAME: (frozenset(), _artemis),
    ActiveMQRedelivery.NAME: (frozenset({"redelivery_delay"}), _activemq),
}
"""By arithmetic: the fields that only it has, and what reads them."""
