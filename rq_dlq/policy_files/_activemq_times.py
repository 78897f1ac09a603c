"""Classic's plugin that gives messages a time to live, as fields of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.policy_files._block import Block, Setting, Settings

if TYPE_CHECKING:
    from rq_dlq.policy_files._xml import Element

KNOWN: Final = ("zeroExpirationOverride", "ttlCeiling", "futureOnly", "processNetworkMessages")


def time_stamping(element: Element) -> Block:
    """Convert the timeStampingBrokerPlugin, for all queues."""
    settings = Settings.of(element)
    block = Block("timeStampingBrokerPlugin", settings, "#")
    for name, setting in settings.items():
        if name in {"futureOnly", "processNetworkMessages"}:
            note = "only the clock of Redis counts, at the moment of sending"
            block.passed_over(setting, "not needed", note)
        elif name not in KNOWN:
            block.unknown(setting, KNOWN, "timeStampingBrokerPlugin")
    default, ceiling = (_span(block, settings.get(name)) for name in ("zeroExpirationOverride", "ttlCeiling"))
    if default and default == ceiling:
        for name in ("zeroExpirationOverride", "ttlCeiling"):
            block.becomes(settings[name], "expiry.max_expiry_delay", default)
        return block
    if default:
        block.becomes(settings["zeroExpirationOverride"], "expiry.expiry_delay", default)
    if ceiling:
        note = (
            "max_expiry_delay also gives a time to live to messages without one, and has no effect on them "
            "if expiry_delay is set. Set one of them by hand"
        )
        block.passed_over(settings["ttlCeiling"], "no counterpart", note)
    return block


def _span(block: Block, setting: Setting | None) -> int | None:
    """Milliseconds; None: it is missing, or 0, which a finding notes."""
    if setting is None:
        return None
    span = block.whole(setting, 0)
    if span == 0:
        block.passed_over(setting, "not needed", "0: it does nothing")
    return span
