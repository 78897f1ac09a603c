"""Classic's broker-side redelivery, as fields of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.fields import BY_PART
from rq_dlq.policy.foreign import plain
from rq_dlq.policy.presets import deliveries_of_both
from rq_dlq.policy_files._activemq_settings import DESTINATIONS, POLICY
from rq_dlq.policy_files._block import Block, Setting, settings_of, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy_files._xml import Element

WHOLE: Final = ("maximumRedeliveries", "initialRedeliveryDelay", "redeliveryDelay", "maximumRedeliveryDelay")
DECIMALS: Final = ("backOffMultiplier", "collisionAvoidancePercent")
FLAGS: Final = ("useExponentialBackOff", "useCollisionAvoidance")
KNOWN: Final = (*WHOLE, *DECIMALS, *FLAGS)
FIELDS: Final = tuple(row for row in BY_PART["redelivery"].values() if row.classic)
"""The fields of ours that Classic's settings set."""
OF_A_CLIENT: Final = 6
"""Redeliveries by a client with default settings."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """The switches of the redeliveryPlugin.

    Attributes:
        block: the plugin's block.
        settings: by name.
        send: a message without redeliveries left becomes a dead letter; False: it is dropped.
        fallback: in a queue without a policy, a failed message becomes a dead letter; False: it is dropped.
    """

    block: Block
    settings: Mapping[str, Setting]
    send: bool
    fallback: bool


def plugin(element: Element) -> Plugin:
    """Read the switches."""
    block = Block("redeliveryPlugin", element.line)
    settings = settings_of(element)
    known = ("fallbackToDeadLetter", "sendToDlqIfMaxRetriesExceeded")
    given: dict[str, bool | None] = {}
    for name, setting in settings.items():
        if name == "redeliveryPolicyMap":
            message = f"the map {setting.value!r} is elsewhere. In a copy, put it into the plugin"
            block.wrong(setting, message)
        elif name not in known:
            unknown(block, setting, known, "redeliveryPlugin")
        else:
            given[name] = block.flag(setting)
            if given[name]:
                block.passed_over(setting, "not needed", "dead letters are kept by default")
    return Plugin(block, settings, *(given.get(name) is not False for name in reversed(known)))


def redelivery(block: Block, element: Element) -> None:
    """Convert a redeliveryPolicy, with its defaults written out."""
    settings = settings_of(element)
    values = _values(block, settings)
    if block.problems:
        return
    try:
        policy = RedeliveryPolicy.activemq(**values)
    except PolicyError as error:
        blamed = [name for name in values if plain(name) in plain(str(error))] or list(values)
        block.wrong(settings[max(blamed, key=len)], str(error))
        return
    wire = policy.as_wire()
    note = "exact to the bit; other settings: Classic's defaults"
    block.becomes(Setting("", "", element.line), "redelivery.arithmetic", "activemq", note)
    for field in FIELDS:
        given = [settings[name] for name in field.classic if name in settings]
        for setting in given or [Setting(field.classic[0], "", element.line)]:
            note = _note(field.name, values, policy) if given else "Classic's default"
            block.becomes(setting, field.where, wire[field.name], note)


def _values(block: Block, settings: Mapping[str, Setting]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, setting in settings.items():
        if name in WHOLE:
            values[name] = block.whole(setting)
        elif name in DECIMALS:
            values[name] = block.decimal(setting)
        elif name in FLAGS:
            values[name] = block.flag(setting)
        elif name in POLICY:
            block.passed_over(setting, *POLICY[name])
        elif name not in DESTINATIONS:
            unknown(block, setting, (*KNOWN, *POLICY), "redeliveryPolicy")
    return values


def _note(field: str, values: Mapping[str, Any], policy: RedeliveryPolicy) -> str:
    if field == "multiplier" and not values.get("useExponentialBackOff"):
        return "1, since useExponentialBackOff is not true: waits do not grow"
    if field == "collision_avoidance" and not values.get("useCollisionAvoidance"):
        return "0, since useCollisionAvoidance is not true: waits are not spread"
    if field == "max_redeliveries":
        both = deliveries_of_both(OF_A_CLIENT, policy.max_redeliveries)
        if both is None:
            return "no limit"
        return (
            f"by the broker; a client with default settings adds {OF_A_CLIENT}, so there were "
            f"{both} deliveries. For as many here: --max-redeliveries {both - 1}"
        )
    return ""
