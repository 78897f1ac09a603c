"""Other brokers' settings, under their own names, as arguments of `RedeliveryPolicy`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.fields import BY_PART
from rq_dlq.policy.presets import ActiveMQRedelivery, ArtemisRedelivery, after_the_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROWS = tuple(BY_PART["redelivery"].values())


def artemis(settings: Mapping[str, object]) -> dict[str, Any]:
    """See `RedeliveryPolicy.artemis`."""
    names = [row.artemis for row in ROWS if row.artemis]
    given = _arguments(settings, (*names, "fatal"), "Artemis")
    attempts, fatal = given.pop("max_delivery_attempts", 10), given.pop("fatal", ())
    limit = after_the_first(attempts, "max-delivery-attempts")
    return {"preset": ArtemisRedelivery(**given), "max_redeliveries": limit, "fatal": fatal}


def activemq(settings: Mapping[str, object]) -> dict[str, Any]:
    """See `RedeliveryPolicy.activemq`."""
    names = [name for row in ROWS for name in row.classic]
    given = _arguments(settings, (*names, "collisionAvoidanceFactor", "fatal"), "ActiveMQ")
    limit = check.redeliveries(given.pop("maximum_redeliveries", 6), "maximumRedeliveries")
    fatal = given.pop("fatal", ())
    return {"preset": ActiveMQRedelivery(**given), "max_redeliveries": limit, "fatal": fatal}


def jetstream(settings: Mapping[str, object]) -> dict[str, Any]:
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
    return {"delays": delays, "max_redeliveries": limit, "fatal": given.get("fatal", ())}


def _arguments(settings: Mapping[str, object], names: Iterable[str], owner: str) -> dict[str, Any]:
    """The settings by the names of our parameters; words may be joined in any way: BackOff is backoff."""
    spellings = {_plain(name): name for name in names}
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        spelling = _plain(name)
        if spelling not in spellings:
            closest = get_close_matches(spelling, spellings, n=1, cutoff=0)[0]
            unknown = f"{name!r} is not a redelivery setting of {owner}"
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
