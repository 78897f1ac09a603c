"""Converts Classic's dead-letter strategies to our fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.policy_files._block import Block, Setting, Settings
from rq_dlq.policy_files._others import CLASSIC_STRATEGY, NO_AUDIT
from rq_dlq.policy_files._patterns import Names

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy_files._xml import Element

SHARED: Final = "ActiveMQ.DLQ"
PREFIX: Final = "ActiveMQ.DLQ.Queue."
KINDS: Final = {
    "sharedDeadLetterStrategy": ("shared", ("deadLetterQueue",)),
    "individualDeadLetterStrategy": ("individual", ("queuePrefix", "queueSuffix")),
    "discarding": ("discarding", ()),
}
COMMON: Final = ("processExpired", "processNonPersistent", "expiration")
DEFAULT: Final = "Classic's default"
NO_SENDS: Final = "do not send to this name: it would be a separate queue, with dead letters in DLQ.<queue>"
OUTLIVED: Final = "then it is dropped and counted; Classic moves it to the dead-letter queue of its queue"


def letters(block: Block, entry: Element, names: Names) -> None:
    """Convert the dead-letter strategy of a policyEntry, with its defaults written out."""
    if "deadLetterStrategy" in block.settings:
        reference = block.settings["deadLetterStrategy"]
        message = (
            f"the strategy {reference.value!r} is defined elsewhere. In a copy, put it into the policyEntry"
        )
        block.wrong(reference, message)
        return
    holder = entry.child("deadLetterStrategy")
    if holder is None:
        usual(block, entry.line)
        return
    elements = holder.children
    if len(elements) != 1 or elements[0].name not in KINDS:
        given = ", ".join(element.name for element in elements) or "nothing"
        message = f"{given} is not one of {', '.join(KINDS)}. In a copy, use one of them"
        block.wrong(Setting("deadLetterStrategy", "", holder.line), message)
        return
    _strategy(block, elements[0], names)


def usual(block: Block, line: int) -> None:
    """Classic's default strategy: one queue for all dead letters."""
    block.becomes(Setting("deadLetterStrategy", "", line), "dead_letter.strategy", "shared", DEFAULT)
    _fields(block, Settings(line), "shared", Names())


def _strategy(block: Block, element: Element, names: Names) -> None:
    strategy, own = KINDS[element.name]
    settings = Settings.of(element)
    block.becomes(Setting(element.name, "", element.line), "dead_letter.strategy", strategy)
    queue = element.child("deadLetterQueue")
    if queue is not None and strategy == "shared":
        settings["deadLetterQueue"] = _destination(queue)
    for name, setting in settings.items():
        if name in CLASSIC_STRATEGY:
            outcome, reason = CLASSIC_STRATEGY[name]
            if name == "enableAudit" and setting.value == "false":
                outcome, reason = "no counterpart", NO_AUDIT
            as_here = name == "useQueueForQueueMessages" and setting.value == "true"
            block.passed_over(setting, "not needed" if as_here else outcome, reason)
        elif name not in own and name not in COMMON:
            block.unknown(setting, (*own, *COMMON, *CLASSIC_STRATEGY), element.name)
    _fields(block, settings, strategy, names)


def _destination(queue: Element) -> Setting:
    """The queue that a nested element names."""
    for child in queue.children:
        for name in ("physicalName", "name"):
            if name in child.attributes:
                return Setting("deadLetterQueue", child.attributes[name], child.line)
    return Setting("deadLetterQueue", queue.text, queue.line)


def _fields(block: Block, settings: Settings, strategy: str, names: Names) -> None:
    """Convert the settings of a strategy, with the defaults of those that are missing."""

    def becomes(name: str, field: str, value: JSON, note: str = "") -> None:
        block.becomes(settings[name], field, value, note or ("" if name in settings else DEFAULT))

    def flag(name: str, *, default: bool) -> bool:
        return bool(block.flag(settings[name])) if name in settings else default

    if strategy == "shared":
        name = SHARED
        if "deadLetterQueue" in settings:
            name = names.queue(settings["deadLetterQueue"].value.removeprefix("queue://"))
        becomes(
            "deadLetterQueue", "dead_letter.name", name, NO_SENDS if "deadLetterQueue" in settings else ""
        )
    elif strategy == "individual":
        prefix = settings["queuePrefix"].value if "queuePrefix" in settings else PREFIX
        becomes("queuePrefix", "dead_letter.prefix", prefix)
        becomes("queueSuffix", "dead_letter.suffix", settings["queueSuffix"].value)
    expired = flag("processExpired", default=True)
    if strategy == "discarding":
        becomes("processExpired", "dead_letter.process_expired", True, "expired messages are also dropped")  # noqa: FBT003
    else:
        becomes("processExpired", "dead_letter.process_expired", expired)
        if not expired:
            note = "as there: expired messages are dropped; here they are counted"
            becomes("processExpired", "expiry.discard", True, note)  # noqa: FBT003
    non_persistent = flag("processNonPersistent", default=False)
    becomes("processNonPersistent", "dead_letter.process_non_persistent", non_persistent)
    span = block.whole(settings["expiration"], 0) if "expiration" in settings else 0
    becomes("expiration", "dead_letter.expiration", span or None, OUTLIVED if span else f"never; {DEFAULT}")


def dropping(block: Block, setting: Setting, note: str) -> None:
    """Drop the dead letters of a block, regardless of its strategy."""
    gone = [one for one in block.findings if one.field.startswith(("dead_letter.", "expiry.disc"))]
    block.findings = [one for one in block.findings if one not in gone]
    block.fields.pop("dead_letter", None)
    block.fields.pop("expiry", None)
    for finding in gone:
        if finding.value:
            one = Setting(finding.setting, finding.value, finding.line)
            block.passed_over(one, "no counterpart", f"{setting.name} is false, and dead letters are dropped")
    block.becomes(setting, "dead_letter.strategy", "discarding", note)
    kept = "expired messages go to their own queue, since dead letters are dropped"
    block.becomes(Setting("", "", setting.line), "dead_letter.process_expired", False, kept)  # noqa: FBT003
