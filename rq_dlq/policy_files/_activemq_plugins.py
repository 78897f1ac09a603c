"""Converts Classic's plugins for redelivery, dead letters and times to live to our fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.fields import BY_PART, REPORT_INTERVAL
from rq_dlq.policy.presets import deliveries_of_both
from rq_dlq.policy_files._activemq_dead import DEFAULT
from rq_dlq.policy_files._block import Block, Setting, Settings
from rq_dlq.policy_files._others import CLASSIC_REDELIVERY, CLASSIC_TIMES

if TYPE_CHECKING:
    from rq_dlq.policy_files._xml import Element

WHOLE: Final = ("maximumRedeliveries", "initialRedeliveryDelay", "redeliveryDelay", "maximumRedeliveryDelay")
DECIMALS: Final = ("backOffMultiplier", "collisionAvoidancePercent")
FLAGS: Final = ("useExponentialBackOff", "useCollisionAvoidance")
KNOWN: Final = (*WHOLE, *DECIMALS, *FLAGS)
DESTINATIONS: Final = ("queue", "topic", "tempQueue", "tempTopic", "destination")
FIELDS: Final = tuple(row for row in BY_PART["redelivery"].values() if row.classic)
"""Our fields that Classic's settings set."""
OF_A_CLIENT: Final = 6
"""Redeliveries by a client with default settings."""
SEND, FALLBACK = "sendToDlqIfMaxRetriesExceeded", "fallbackToDeadLetter"
"""The switches of the redeliveryPlugin. If one is off, messages are dropped instead of becoming dead letters:
messages without redeliveries left, or messages that fail in a queue without a policy."""
JAVA: Final = re.compile(r"\.[*+?{]|&&|\[[^\]]*\[|[*+?}][+]|\\[QEpPRXGZ]")
"""Parts of Java expressions that match across dots, or that differ in Python."""
TTL, CEILING = "zeroExpirationOverride", "ttlCeiling"


def redelivering(element: Element) -> tuple[Block, dict[str, Setting]]:
    """The block of the redeliveryPlugin, and the switches that are off in it."""
    block = Block("redeliveryPlugin", Settings.of(element))
    off: dict[str, Setting] = {}
    for name, setting in block.settings.items():
        if name == "redeliveryPolicyMap":
            message = f"the map {setting.value!r} is defined elsewhere. In a copy, put it into the plugin"
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
            note = _note(field.name, values, policy) if given else DEFAULT
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
        elif name in CLASSIC_REDELIVERY:
            block.passed_over(setting, *CLASSIC_REDELIVERY[name])
        elif name not in DESTINATIONS:
            block.unknown(setting, (*KNOWN, *CLASSIC_REDELIVERY), "redeliveryPolicy")
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
            f"{both} deliveries. For the same number here: --max-redeliveries {both - 1}"
        )
    return ""


def discarding(element: Element) -> Block:
    """Convert the plugin that drops dead letters before any strategy applies.

    Its entry is pinned, with a pattern that matches all queues.
    """
    settings = Settings.of(element)
    block = Block("discardingDLQBrokerPlugin", settings, "*.#")
    known = ("dropAll", "dropOnly", "dropTemporaryQueues", "dropTemporaryTopics", "reportInterval")
    for name, setting in settings.items():
        if name.startswith("dropTemporary"):
            block.passed_over(setting, "no counterpart", "there are no temporary queues and topics")
        elif name not in known:
            block.unknown(setting, known, "discardingDLQBrokerPlugin")
    every, only = settings.get("dropAll"), settings.get("dropOnly")
    everything = block.flag(every) if every else not only
    if only and every and everything:
        block.wrong(only, "dropAll is true, so this has no effect there. Remove one of them")
    elif not everything and not only:
        block.passed_over(settings["dropAll"], "not needed", "nothing is dropped")
    else:
        _dropped(block)
    return block


def _dropped(block: Block) -> None:
    settings = block.settings
    every, only, report = (settings.get(name) for name in ("dropAll", "dropOnly", "reportInterval"))
    names = _names_of(block, only) if only else None
    if names == []:
        return
    given = only or settings["dropAll"]
    block.becomes(given, "dead_letter.strategy", "discarding", "" if only or every else DEFAULT)
    if only:
        if names:
            note = "names are matched word by word: a dot is a dot, and * is one word"
            block.becomes(only, "dead_letter.only", names, note)
        if every:
            block.passed_over(every, "not needed", "dropOnly lists the queues")
    why = "the plugin runs before all strategies, including for expired messages"
    block.becomes(block.itself, "dead_letter.process_expired", True, why)  # noqa: FBT003
    block.becomes(block.itself, "pinned", True, why)  # noqa: FBT003
    number = block.whole(report) if report else None
    if report and number is not None and number < 1:
        note = f"drops are always reported, here once per {REPORT_INTERVAL}"
        block.passed_over(report, "no counterpart", note)
    elif report and number is not None:
        block.becomes(report, "dead_letter.report_interval", number)


def _names_of(block: Block, only: Setting) -> list[str] | None:
    """Our names for the expressions of dropOnly; None: one of them matches all queues.

    A Java expression must match the whole name, so `q.*` matches each name that begins with q. Other
    expressions that match across dots have no counterpart.
    """
    names: list[str] = []
    for item in only.value.split():
        head = item.removesuffix(".*")
        if head == "":
            return None
        if JAVA.search(head):
            note = (
                f"{item} matches whole names, and here words are matched one by one: its queues keep dead "
                "letters"
            )
            block.passed_over(only, "no counterpart", note)
        elif head == item:
            names.append(item.replace(r"\.", "."))
        elif (stem := head.replace(r"\.", ".")).endswith("."):  # such as q\..*: all names below q
            names += [f"{stem}*", f"{stem}*.#"]
        else:
            names.append(rf"{stem}[\s\S]*.#")
    return names


def time_stamping(element: Element) -> Block:
    """Convert the timeStampingBrokerPlugin, for all queues."""
    settings = Settings.of(element)
    block = Block("timeStampingBrokerPlugin", settings, "#")
    for name, setting in settings.items():
        if name in CLASSIC_TIMES:
            block.passed_over(setting, *CLASSIC_TIMES[name])
        elif name not in {TTL, CEILING}:
            block.unknown(setting, (TTL, CEILING, *CLASSIC_TIMES), "timeStampingBrokerPlugin")
    default, ceiling = (_span(block, settings.get(name)) for name in (TTL, CEILING))
    if default and default == ceiling:
        for name in (TTL, CEILING):
            block.becomes(settings[name], "expiry.max_expiry_delay", default)
        return block
    if default:
        block.becomes(settings[TTL], "expiry.expiry_delay", default)
    if ceiling:
        note = (
            "max_expiry_delay also gives a time to live to messages without one, and has no effect on them "
            "if expiry_delay is set. Set one of them manually"
        )
        block.passed_over(settings[CEILING], "no counterpart", note)
    return block


def _span(block: Block, setting: Setting | None) -> int | None:
    """Milliseconds; None: it is missing or 0, which is noted as a finding."""
    if setting is None:
        return None
    span = block.whole(setting, 0)
    if span == 0:
        block.passed_over(setting, "not needed", "0: it has no effect")
    return span
