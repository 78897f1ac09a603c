"""Classic's broker-side redelivery, as fields of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.fields import BY_PART
from rq_dlq.policy.presets import deliveries_of_both
from rq_dlq.policy_files._activemq_settings import DESTINATIONS, POLICY
from rq_dlq.policy_files._block import Block, Setting, Settings

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


SEND, FALLBACK = "sendToDlqIfMaxRetriesExceeded", "fallbackToDeadLetter"
"""The switches of the redeliveryPlugin. Off, they drop what otherwise becomes a dead letter: messages without
redeliveries left, and messages that fail in a queue without a policy."""


def plugin(element: Element) -> tuple[Block, dict[str, Setting]]:
    """The block of the redeliveryPlugin, and those of its switches that are off."""
    block = Block("redeliveryPlugin", Settings.of(element))
    off: dict[str, Setting] = {}
    for name, setting in block.settings.items():
        if name == "redeliveryPolicyMap":
            message = f"the map {setting.value!r} is elsewhere. In a copy, put it into the plugin"
            block.wrong(setting, message)
        elif name not in {SEND, FALLBACK}:
            block.unknown(setting, (FALLBACK, SEND), "redeliveryPlugin")
        elif block.flag(setting):
            block.passed_over(setting, "not needed", "dead letters are kept by default")
        else:
            off[name] = setting
    return block, off


def redelivery(block: Block) -> None:
    """Convert a redeliveryPolicy, with its defaults written out."""
    settings, values = block.settings, _values(block)
    policy = None if block.problems else block.redelivery(RedeliveryPolicy.activemq, values)
    if policy is None:
        return
    wire = policy.as_wire()
    note = "exact to the bit; other settings: Classic's defaults"
    block.becomes(block.itself, "redelivery.arithmetic", "activemq", note)
    for field in FIELDS:
        given = [settings[name] for name in field.classic if name in settings]
        for setting in given or [settings[field.classic[0]]]:
            note = _note(field.name, values, policy) if given else "Classic's default"
            block.becomes(setting, field.where, wire[field.name], note)


def _values(block: Block) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, setting in block.settings.items():
        if name in WHOLE:
            values[name] = block.whole(setting)
        elif name in DECIMALS:
            values[name] = block.decimal(setting)
        elif name in FLAGS:
            values[name] = block.flag(setting)
        elif name in POLICY:
            block.passed_over(setting, *POLICY[name])
        elif name not in DESTINATIONS:
            block.unknown(setting, (*KNOWN, *POLICY), "redeliveryPolicy")
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
