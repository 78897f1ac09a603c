"""Classic's plugin that gives messages a time to live, as fields of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.policy_files._block import Block, Setting, settings_of, unknown

if TYPE_CHECKING:
    from rq_dlq.policy_files._xml import Element

KNOWN: Final = ("zeroExpirationOverride", "ttlCeiling", "futureOnly", "processNetworkMessages")


def time_stamping(element: Element) -> Block:
    """What the timeStampingBrokerPlugin becomes, for all queues."""
    block = Block("timeStampingBrokerPlugin", element.line, "#")
    settings = settings_of(element)
    for name, setting in settings.items():
        if name in {"futureOnly", "processNetworkMessages"}:
            note = "the time is Redis' alone, at the moment of sending"
            block.passed_over(setting, "not needed", note)
        elif name not in KNOWN:
            unknown(block, setting, KNOWN, "timeStampingBrokerPlugin")
    default, ceiling = (_span(block, settings.get(name)) for name in ("zeroExpirationOverride", "ttlCeiling"))
    if default and default == ceiling:
        for name in ("zeroExpirationOverride", "ttlCeiling"):
            block.becomes(settings[name], "expiry.max_expiry_delay", default)
        return block
    if default:
        block.becomes(settings["zeroExpirationOverride"], "expiry.expiry_delay", default)
    if ceiling:
        note = (
            "max_expiry_delay gives a time to live also to messages without one, and is passed over where "
            "expiry_delay is said. Set either by hand"
        )
        block.passed_over(settings["ttlCeiling"], "no counterpart", note)
    return block


def _span(block: Block, setting: Setting | None) -> int | None:
    """Milliseconds; None: not said, or 0, which says so."""
    if setting is None:
        return None
    span = block.whole(setting, 0)
    if span == 0:
        block.passed_over(setting, "not needed", "0: it does nothing")
    return span
