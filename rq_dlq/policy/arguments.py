"""Arguments of `RedeliveryPolicy`, from Redis and from the settings of other brokers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.arithmetic import Backoff
from rq_dlq.policy.fields import BY_PART
from rq_dlq.policy.presets import (
    JAVA_LONG,
    ActiveMQRedelivery,
    ArtemisRedelivery,
    after_the_first,
    usual_maximum,
)
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from rq_dlq.policy.arithmetic import Arithmetic

ROWS: Final = tuple(BY_PART["redelivery"].values())
KINDS: Final[Mapping[str, type[Arithmetic]]] = {
    kind.NAME: kind for kind in (Backoff, ArtemisRedelivery, ActiveMQRedelivery)
}


def from_wire(wire: Mapping[str, Any]) -> dict[str, Any]:
    """See `RedeliveryPolicy.from_wire`."""
    fields = dict(wire)
    arithmetic = fields.pop("arithmetic", None)
    if not isinstance(arithmetic, str) or arithmetic not in KINDS:
        raise PolicyError(f"not a policy: its arithmetic is {arithmetic!r}. Possible are {', '.join(KINDS)}")
    kind = KINDS[arithmetic]
    wrong = sorted(fields.keys() ^ {"max_redeliveries", *(field.name for field in dataclasses.fields(kind))})
    if wrong:
        message = f"not a policy of arithmetic {arithmetic!r}: missing or unknown: {', '.join(wrong)}"
        raise PolicyError(message)
    if kind is not Backoff:
        limit = fields.pop("max_redeliveries")
        return {"preset": kind(**fields), "max_redeliveries": limit}
    limit, delays = fields["max_delay"], fields["delays"]
    return {
        **fields,
        "initial_delay": _span(fields["initial_delay"], "initial_delay"),
        "max_delay": None if limit is None else _span(limit, "max_delay"),
        "delays": None if delays is None else [_span(delay, "delays") for delay in delays],
    }


def artemis(settings: Mapping[str, object]) -> dict[str, Any]:
    """See `RedeliveryPolicy.artemis`."""
    names = [row.artemis for row in ROWS if row.artemis]
    given = _arguments(settings, (*names, "fatal"), "Artemis", limit="max-delivery-attempts")
    delay, longest = given.get("redelivery-delay", 0), given.get("max-redelivery-delay")
    preset = ArtemisRedelivery(
        initial_delay=delay,
        multiplier=given.get("redelivery-delay-multiplier", 1.0),
        max_delay=usual_maximum(delay) if longest is None else longest,
        collision_avoidance=given.get("redelivery-collision-avoidance-factor", 0.0),
    )
    limit = after_the_first(given.get("max-delivery-attempts", 10), "max-delivery-attempts")
    return {"preset": preset, "max_redeliveries": limit, "fatal": given.get("fatal", ())}


def activemq(settings: Mapping[str, object]) -> dict[str, Any]:
    """See `RedeliveryPolicy.activemq`."""
    names = [name for row in ROWS for name in row.classic]
    names += "collisionAvoidanceFactor", "fatal"
    given = _arguments(settings, names, "ActiveMQ", limit="maximumRedeliveries")
    growth = check.growth(given.get("backOffMultiplier", 5.0), "backOffMultiplier")
    factor = _factor(given.get("collisionAvoidanceFactor"), given.get("collisionAvoidancePercent"))
    grows, spreads = (
        check.flag(given.get(name, False), name)
        for name in ("useExponentialBackOff", "useCollisionAvoidance")
    )
    longest = check.whole(given.get("maximumRedeliveryDelay", -1), "maximumRedeliveryDelay", -1, JAVA_LONG)
    preset = ActiveMQRedelivery(
        initial_delay=given.get("initialRedeliveryDelay", 1000),
        redelivery_delay=given.get("redeliveryDelay", 1000),
        multiplier=growth if grows else 1.0,
        max_delay=None if longest == -1 else longest,
        collision_avoidance=factor if spreads else 0.0,
    )
    limit = check.redeliveries(given.get("maximumRedeliveries", 6), "maximumRedeliveries")
    return {"preset": preset, "max_redeliveries": limit, "fatal": given.get("fatal", ())}


def jetstream(settings: Mapping[str, object]) -> dict[str, Any]:
    """See `RedeliveryPolicy.jetstream`."""
    names = "max_deliver", "backoff", "ack_wait", "fatal"
    given = _arguments(settings, names, "JetStream", limit="max_deliver")
    attempts, backoff = given.get("max_deliver", -1), given.get("backoff", ())
    limit = after_the_first(attempts, "max_deliver")
    waits = (0,) if backoff in ((), []) else check.durations(backoff, "backoff")
    if limit is not None and len(waits) > limit + 1:  # as in nats-server, although the last is never used
        message = f"backoff has {len(waits)} waits, max_deliver is {attempts}. Shorten backoff, or raise it"
        raise PolicyError(message)
    if "ack_wait" in given:  # accepted, since it is a consumer's setting; here it is the lease
        check.duration(given["ack_wait"], "ack_wait")
    delays = [wait / 1000 for wait in waits]
    return {"delays": delays, "max_redeliveries": limit, "fatal": given.get("fatal", ())}


def _span(ms: object, name: str) -> timedelta:
    return timedelta(milliseconds=check.whole(ms, f"{name}, in milliseconds,", 0, TEN_YEARS))


def plain(name: str) -> str:
    """A name without case and separators: max-redelivery-delay and maxRedeliveryDelay are the same."""
    return re.sub("[-_]", "", name).lower()


def _arguments(
    settings: Mapping[str, object], names: Iterable[str], owner: str, *, limit: str
) -> dict[str, Any]:
    """The given settings, by these names; case and separators do not matter: BackOff is backoff.

    A setting that is None is left out, except the limit: there None means no limit.
    """
    spellings = {plain(name): name for name in names}
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        spelling = plain(name)
        if spelling not in spellings:
            unknown = f"{name!r} is not a redelivery setting of {owner}"
            raise PolicyError(f"{unknown}. {check.closest(spelling, spellings)}")
        if spellings[spelling] in arguments:
            raise PolicyError(f"{spellings[spelling]!r} is given twice, in two spellings. Give it once")
        arguments[spellings[spelling]] = value
    return {name: value for name, value in arguments.items() if value is not None or name == limit}


def _factor(factor: float | None, percent: float | None) -> float:
    """The fraction by which ActiveMQ randomizes waits; ActiveMQ has two settings for it."""
    if factor is not None and percent is not None:
        message = (
            "collisionAvoidanceFactor and collisionAvoidancePercent are the same setting. Give one of them"
        )
        raise PolicyError(message)
    if percent is not None:
        return check.number(percent, "collisionAvoidancePercent", 0, 100) * 0.01
    return check.part(0.15 if factor is None else factor, "collisionAvoidanceFactor")
