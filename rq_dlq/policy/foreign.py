"""Policies from other brokers' settings, under the names that those have there."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery, after_the_first
from rq_dlq.policy.redelivery import RedeliveryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def artemis(settings: Mapping[str, object]) -> ArtemisRedelivery:
    """See `RedeliveryPolicy.artemis`."""
    names = (
        "redelivery-delay",
        "redelivery-delay-multiplier",
        "max-redelivery-delay",
        "redelivery-collision-avoidance-factor",
        "max-delivery-attempts",
        "fatal",
    )
    return ArtemisRedelivery(**_arguments(settings, names, "Artemis"))


def activemq(settings: Mapping[str, object]) -> ActiveMQRedelivery:
    """See `RedeliveryPolicy.activemq`."""
    names = (
        "maximumRedeliveries",
        "initialRedeliveryDelay",
        "redeliveryDelay",
        "backOffMultiplier",
        "useExponentialBackOff",
        "maximumRedeliveryDelay",
        "useCollisionAvoidance",
        "collisionAvoidanceFactor",
        "collisionAvoidancePercent",
        "fatal",
    )
    return ActiveMQRedelivery(**_arguments(settings, names, "ActiveMQ"))


def jetstream(settings: Mapping[str, object]) -> RedeliveryPolicy:
    """See `RedeliveryPolicy.jetstream`."""
    given = _arguments(settings, ("max_deliver", "backoff", "ack_wait", "fatal"), "JetStream")
    attempts, backoff = given.get("max_deliver", -1), given.get("backoff", ())
    limit = after_the_first(attempts, "max_deliver")
    waits = (0,) if backoff in ((), []) else check.durations(backoff, "backoff")
    if limit is not None and len(waits) > limit + 1:  # as nats-server has it, though it never uses the last
        message = f"backoff has {len(waits)} waits, max_deliver is {attempts}. Shorten backoff, or raise it"
        raise PolicyError(message)
    if "ack_wait" in given:  # a consumer's settings may be passed whole; to us this one is the lease
        check.duration(given["ack_wait"], "ack_wait")
    delays = [wait / 1000 for wait in waits]
    return RedeliveryPolicy(delays=delays, max_redeliveries=limit, fatal=given.get("fatal", ()))


def _arguments(settings: Mapping[str, object], names: Iterable[str], owner: str) -> dict[str, Any]:
    """The settings by the names of our parameters; how words are joined is free: BackOff is backoff."""
    spellings = {_plain(name): name for name in names}
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        spelling = _plain(name)
        if spelling not in spellings:
            closest = get_close_matches(spelling, spellings, n=1, cutoff=0)[0]
            unknown = f"{name!r} is no redelivery setting of {owner}"
            message = f"{unknown}. The closest is {spellings[closest]!r}"
            raise PolicyError(message)
        parameter = _snake(spellings[spelling])
        if parameter in arguments:
            message = f"{spellings[spelling]!r} is given twice, in two spellings. Give it once"
            raise PolicyError(message)
        arguments[parameter] = value
    return {parameter: value for parameter, value in arguments.items() if value is not None}


def _plain(name: str) -> str:
    return re.sub("[-_]", "", name).lower()


def _snake(name: str) -> str:
    return re.sub("-|(?<=[a-z])(?=[A-Z])", "_", name).lower()
