"""Redelivery of which an entry says some fields only, and the policy of what entries say together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from rq_dlq.durations import TEN_YEARS, shown
from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import wire as stored
from rq_dlq.policy.presets import JAVA_LONG, ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.policy.redelivery import RedeliveryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rq_dlq.policy._checks import JSON

RQ, ARTEMIS, ACTIVEMQ = (
    kind.ARITHMETIC for kind in (RedeliveryPolicy, ArtemisRedelivery, ActiveMQRedelivery)
)
ARITHMETICS: Final = (RQ, ARTEMIS, ACTIVEMQ)
FIELDS: Final = (
    "arithmetic",
    "initial_delay",
    "redelivery_delay",
    "multiplier",
    "max_delay",
    "collision_avoidance",
    "max_redeliveries",
    "delays",
)
SETTLED: Final = ("initial_delay", "multiplier", "max_delay")
"""What a list of waits settles, too."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    kind.ARITHMETIC: kind().as_wire() for kind in (RedeliveryPolicy, ArtemisRedelivery, ActiveMQRedelivery)
}


def said_of(given: object) -> dict[str, JSON]:
    """What an entry says, as it stands in Redis.

    Args:
        given: a policy, which says all its fields (but `fatal`, which stays with the client), or a
            mapping of some of them.

    Raises:
        PolicyError: it makes no sense, even if nothing else is said anywhere.
    """
    if isinstance(given, RedeliveryPolicy):
        return _settled(dict(given.as_wire()))
    fields = check.fields(given, (*FIELDS, "fatal"), "redelivery")
    if "fatal" in fields:
        message = "fatal has classes, which do not go to Redis. Pass it with the policy of a queue in code"
        raise PolicyError(message)
    return _alone({name: SAID[name](fields[name], name) for name in fields})


def read(wire: object) -> dict[str, JSON]:
    """What an entry in Redis says.

    Raises:
        PolicyError: it makes no sense.
    """
    fields = check.fields(wire, FIELDS, "redelivery")
    return _alone({name: READ[name](fields[name], name) for name in fields})


def complete(said: Mapping[str, Any]) -> RedeliveryPolicy:
    """The policy of what entries say together; the rest is its arithmetic's own default.

    Entries that meet may not fit: a first wait longer than the longest is held to that.
    """
    arithmetic = said.get("arithmetic", RQ)
    known = DEFAULTS[arithmetic]
    fields = {**known, **{name: value for name, value in said.items() if name in known}}
    return FITTING[arithmetic](fields, said)


def _rq(fields: dict[str, Any], said: Mapping[str, Any]) -> RedeliveryPolicy:
    if fields["delays"]:
        fields.update(_settled_by(fields["delays"]))
        if "collision_avoidance" not in said:
            fields["collision_avoidance"] = 0
    else:
        limit = TEN_YEARS if fields["max_delay"] is None else min(fields["max_delay"], TEN_YEARS)
        if fields["max_delay"] is not None:
            fields["max_delay"] = limit
        fields["initial_delay"] = min(fields["initial_delay"], limit)
    return stored.read(fields)


def _artemis(fields: dict[str, Any], said: Mapping[str, Any]) -> RedeliveryPolicy:
    """Its maximum is ten times the delay unless said, and never none."""
    delay = fields["initial_delay"]
    limit = said.get("max_delay", min(10 * delay, JAVA_LONG))
    fields["max_delay"] = max(delay, TEN_YEARS) if limit is None else limit
    fields["initial_delay"] = min(delay, fields["max_delay"])
    if fields["max_redeliveries"] is not None:  # one delivery more must be countable, too
        fields["max_redeliveries"] = min(fields["max_redeliveries"], check.MOST_REDELIVERIES - 1)
    return stored.read(fields)


def _activemq(fields: dict[str, Any], said: Mapping[str, Any]) -> RedeliveryPolicy:
    """Its first wait is not held to the maximum, the others are."""
    del said
    if fields["max_delay"] is not None:
        fields["redelivery_delay"] = min(fields["redelivery_delay"], fields["max_delay"])
    try:
        return stored.read(fields)
    except PolicyError:  # below 0, which it forgives only where no wait is made from it
        return stored.read({**fields, "redelivery_delay": max(fields["redelivery_delay"], 0)})


def _alone(said: dict[str, Any]) -> dict[str, JSON]:
    """Check that the fields of one entry fit each other."""
    arithmetic = said.get("arithmetic", RQ)
    if "redelivery_delay" in said and arithmetic != ACTIVEMQ:
        message = f"redelivery_delay is ActiveMQ's. Add arithmetic: {ACTIVEMQ!r}, or leave it out"
        raise PolicyError(message)
    delays = said.get("delays")
    if delays:
        settled = {**_settled_by(delays), "arithmetic": RQ}
        if any(said.get(name, value) != value for name, value in settled.items()):
            message = "delays settles initial_delay, multiplier, max_delay and the arithmetic. Give either"
            raise PolicyError(message)
    elif arithmetic == ACTIVEMQ:
        if "redelivery_delay" in said:
            check.within(said["redelivery_delay"], said.get("max_delay"), "redelivery_delay", "max_delay")
    elif "initial_delay" in said:
        limit = said.get("max_delay", DEFAULTS[RQ]["max_delay"] if arithmetic == RQ else None)
        check.within(said["initial_delay"], limit, "initial_delay", "max_delay")
    return _settled(said)


def _settled(said: dict[str, Any]) -> dict[str, JSON]:
    """Waits are one thing: who lists them says all of them, who has them grow says no list."""
    if said.get("delays"):
        said.update(_settled_by(said["delays"]), arithmetic=RQ)
    elif any(name in said for name in SETTLED):
        said["delays"] = None
    return {name: said[name] for name in FIELDS if name in said}


def _settled_by(delays: list[int]) -> dict[str, Any]:
    return {"initial_delay": delays[0], "multiplier": 1.0, "max_delay": max(delays)}


def _arithmetic(value: object, name: str) -> str:
    if value not in ARITHMETICS:
        message = f"{name} is {shown(value)}. Pass one of {', '.join(ARITHMETICS)}"
        raise PolicyError(message)
    return str(value)


def _long(value: object, name: str) -> int:
    return check.whole(value, f"{name}, in milliseconds,", 0, JAVA_LONG)


def _any_long(value: object, name: str) -> int:
    return check.whole(value, f"{name}, in milliseconds,", -JAVA_LONG, JAVA_LONG)


def _waits(value: object, name: str) -> list[int] | None:
    return None if value is None else list(check.durations(value, name))  # type: ignore[arg-type]


def _read_waits(value: object, name: str) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        message = f"{name} is {shown(value)}. Pass a list of milliseconds"  # pyright: ignore[reportUnknownArgumentType]
        raise PolicyError(message)
    listed = cast("list[object]", value)
    return [check.whole(wait, f"{name}, in milliseconds,", 0, TEN_YEARS) for wait in listed]


def _or_none(checked: Callable[[object, str], int]) -> Callable[[object, str], int | None]:
    return lambda value, name: None if value is None else checked(value, name)


PLAIN: Final[Mapping[str, Callable[[object, str], Any]]] = {
    "arithmetic": _arithmetic,
    "multiplier": lambda value, name: check.number(value, name, 1),
    "collision_avoidance": lambda value, name: check.number(value, name, 0, 1),
    "max_redeliveries": check.redeliveries,
}
SAID: Final[Mapping[str, Callable[[object, str], Any]]] = {
    **PLAIN,
    "initial_delay": check.duration,
    "redelivery_delay": check.duration,
    "max_delay": _or_none(check.duration),
    "delays": _waits,
}
"""By field: the check of what people pass."""
READ: Final[Mapping[str, Callable[[object, str], Any]]] = {
    **PLAIN,
    "initial_delay": _long,
    "redelivery_delay": _any_long,
    "max_delay": _or_none(_long),
    "delays": _read_waits,
}
"""By field: the check of what stands in Redis, where the presets' longs are, too."""
FITTING: Final = {RQ: _rq, ARTEMIS: _artemis, ACTIVEMQ: _activemq}
