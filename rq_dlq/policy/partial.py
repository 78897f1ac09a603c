"""Redelivery in entries that set only some fields, and the combined policy of several entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import fields
from rq_dlq.policy.fields import ARITHMETICS
from rq_dlq.policy.presets import usual_maximum
from rq_dlq.policy.redelivery import RedeliveryPolicy
from rq_dlq.values.durations import TEN_YEARS

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON

RQ, ARTEMIS, ACTIVEMQ = ARITHMETICS
ROWS: Final = fields.BY_PART["redelivery"]
SETTLED: Final = ("initial_delay", "multiplier", "max_delay")
"""The fields that a list of waits sets, too."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    RQ: RedeliveryPolicy().as_wire(),
    ARTEMIS: RedeliveryPolicy.artemis().as_wire(),
    ACTIVEMQ: RedeliveryPolicy.activemq().as_wire(),
}


def wire_of(given: object) -> dict[str, JSON]:
    """The fields that an entry sets, as Redis stores them.

    Args:
        given: a policy, which sets all its fields (except `fatal`, which stays with the client), or a mapping
            of some fields.

    Raises:
        PolicyError: a field is not valid, or contradicts another one.
    """
    return over({}, given)


def over(before: Mapping[str, Any], given: object) -> dict[str, Any]:
    """The fields of an earlier entry with those of `wire_of` in their place."""
    later = {name: value for name, value in before.items() if name not in ROWS}
    if isinstance(given, RedeliveryPolicy):
        return {**later, **_settled(dict(given.as_wire()))}
    known = check.fields(given, (*ROWS, "fatal"), "redelivery")
    if "fatal" in known:
        message = (
            "fatal has classes, which Redis cannot store. Pass it to a queue in code: "
            "broker.queue(…, redelivery=RedeliveryPolicy(…, fatal=(ValueError,)))"
        )
        raise PolicyError(message)
    new = {name: ROWS[name].given(value, name) for name, value in known.items()}
    growing = (*SETTLED, "arithmetic", "redelivery_delay")
    gone: set[str] = set()  # a list of waits and growing waits exclude each other: the newer ones count
    if new.get("delays"):
        gone = {*growing}
    elif before.get("delays") and any(name in new for name in (*growing, "delays")):
        gone = {*SETTLED, "delays"}
    elif any(name in new for name in growing):
        gone = {"delays"}
    kept = {name: value for name, value in before.items() if name in ROWS and name not in gone}
    return {**later, **_alone({**kept, **new})}


def read(wire: Mapping[str, object]) -> dict[str, JSON]:
    """The fields that an entry in Redis sets.

    Raises:
        PolicyError: a field is not valid.
    """
    return _alone({name: ROWS[name].read(value, name) for name, value in wire.items()})


def complete(given: Mapping[str, Any]) -> RedeliveryPolicy:
    """The combined policy of several entries; other fields have the defaults of its arithmetic.

    The entries may contradict each other: a first wait above the longest one is lowered to it.
    """
    arithmetic = given.get("arithmetic", RQ)
    known = DEFAULTS[arithmetic]
    every = {**known, **{name: value for name, value in given.items() if name in known}}
    return FITTING[arithmetic](every, given)


def _rq(every: dict[str, Any], given: Mapping[str, Any]) -> RedeliveryPolicy:
    if every["delays"]:
        every.update(_settled_by(every["delays"]))
        if "collision_avoidance" not in given:
            every["collision_avoidance"] = 0
    else:
        limit = TEN_YEARS if every["max_delay"] is None else min(every["max_delay"], TEN_YEARS)
        if every["max_delay"] is not None:
            every["max_delay"] = limit
        every["initial_delay"] = min(every["initial_delay"], limit)
    return RedeliveryPolicy.from_wire(every)


def _artemis(every: dict[str, Any], given: Mapping[str, Any]) -> RedeliveryPolicy:
    """Artemis always has a maximum, by default ten times the delay."""
    delay = every["initial_delay"]
    limit = given.get("max_delay", usual_maximum(delay))
    every["max_delay"] = max(delay, TEN_YEARS) if limit is None else limit
    every["initial_delay"] = min(delay, every["max_delay"])
    return RedeliveryPolicy.from_wire(every)


def _activemq(every: dict[str, Any], _: Mapping[str, Any]) -> RedeliveryPolicy:
    """ActiveMQ applies the maximum to all waits except the first."""
    if every["max_delay"] is not None:
        every["redelivery_delay"] = min(every["redelivery_delay"], every["max_delay"])
    try:
        return RedeliveryPolicy.from_wire(every)
    except PolicyError:  # negative, which is valid only if no wait is computed from it
        return RedeliveryPolicy.from_wire({**every, "redelivery_delay": max(every["redelivery_delay"], 0)})


def _alone(given: dict[str, Any]) -> dict[str, JSON]:
    """Check that the fields of one entry do not contradict each other."""
    arithmetic = given.get("arithmetic", RQ)
    if "redelivery_delay" in given and arithmetic != ACTIVEMQ:
        raise PolicyError(f"redelivery_delay is ActiveMQ's. Add arithmetic: {ACTIVEMQ!r}, or leave it out")
    delays = given.get("delays")
    if delays:
        settled = {**_settled_by(delays), "arithmetic": RQ}
        if any(given.get(name, value) != value for name, value in settled.items()):
            message = "delays sets initial_delay, multiplier, max_delay and arithmetic: give delays or those"
            raise PolicyError(message)
    elif arithmetic == ACTIVEMQ:
        if "redelivery_delay" in given:
            check.within(given["redelivery_delay"], given.get("max_delay"), "redelivery_delay", "max_delay")
    elif "initial_delay" in given:
        limit = given.get("max_delay", DEFAULTS[RQ]["max_delay"] if arithmetic == RQ else None)
        check.within(given["initial_delay"], limit, "initial_delay", "max_delay")
    return _settled(given)


def _settled(given: dict[str, Any]) -> dict[str, JSON]:
    """The fields, made consistent: a list sets all waits; a field of growing waits removes the list."""
    if given.get("delays"):
        given.update(_settled_by(given["delays"]), arithmetic=RQ)
    elif any(name in given for name in SETTLED):
        given["delays"] = None
    return {name: given[name] for name in ROWS if name in given}


def _settled_by(delays: list[int]) -> dict[str, Any]:
    return {"initial_delay": delays[0], "multiplier": 1.0, "max_delay": max(delays)}


FITTING: Final = {RQ: _rq, ARTEMIS: _artemis, ACTIVEMQ: _activemq}
