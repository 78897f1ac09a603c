"""Classic's dead-letter strategies and the plugin that drops dead letters, as fields of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.policy_files._activemq_settings import STRATEGY
from rq_dlq.policy_files._block import Block, Setting, settings_of, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy_files._patterns import Names
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
NO_SENDS: Final = "send nothing to this name: it would be a queue of its own, and dead letters in DLQ.<queue>"
OUTLIVED: Final = "then it is dropped and counted; Classic moves it to the dead-letter queue of its queue"
REPORT: Final = 1000


def letters(block: Block, entry: Element, names: Names) -> None:
    """Convert the dead-letter strategy of a policyEntry, with its defaults written out."""
    reference = settings_of(entry).get("deadLetterStrategy")
    if reference is not None:
        message = f"the strategy {reference.value!r} is elsewhere. In a copy, put it into the policyEntry"
        block.wrong(reference, message)
        return
    holder = entry.child("deadLetterStrategy")
    if holder is None:
        usual(block, entry.line)
        return
    elements = holder.children
    if len(elements) != 1 or elements[0].name not in KINDS:
        given = ", ".join(element.name for element in elements) or "nothing"
        message = f"{given} is not one of {', '.join(KINDS)}. In a copy, put one of them there"
        block.wrong(Setting("deadLetterStrategy", "", holder.line), message)
        return
    _strategy(block, elements[0], names)


def usual(block: Block, line: int) -> None:
    """Classic's default strategy: one queue for all dead letters."""

    def missing(name: str) -> Setting:
        return Setting(name, "", line)

    block.becomes(missing("deadLetterStrategy"), "dead_letter.strategy", "shared", DEFAULT)
    block.becomes(missing("deadLetterQueue"), "dead_letter.name", SHARED, DEFAULT)
    _common(block, {}, line, discarding=False)


def _strategy(block: Block, element: Element, names: Names) -> None:
    strategy, own = KINDS[element.name]
    settings = settings_of(element)
    block.becomes(Setting(element.name, "", element.line), "dead_letter.strategy", strategy)
    queue = element.child("deadLetterQueue")
    if queue is not None and strategy == "shared":
        settings["deadLetterQueue"] = _destination(queue)
    for name, setting in settings.items():
        if name in STRATEGY:
            outcome, reason = STRATEGY[name]
            as_here = name == "useQueueForQueueMessages" and setting.value == "true"
            block.passed_over(setting, "not needed" if as_here else outcome, reason)
        elif name not in own and name not in COMMON:
            unknown(block, setting, (*own, *COMMON, *STRATEGY), element.name)
    if strategy == "shared":
        given = settings.get("deadLetterQueue")
        name = SHARED if given is None else names.queue(given.value.removeprefix("queue://"))
        setting = given or Setting("deadLetterQueue", "", element.line)
        block.becomes(setting, "dead_letter.name", name, NO_SENDS if given else DEFAULT)
    elif strategy == "individual":
        for name, field, default in (("queuePrefix", "prefix", PREFIX), ("queueSuffix", "suffix", "")):
            given = settings.get(name)
            setting = given or Setting(name, "", element.line)
            value = given.value if given else default
            block.becomes(setting, f"dead_letter.{field}", value, "" if given else DEFAULT)
    _common(block, settings, element.line, discarding=strategy == "discarding")


def _destination(queue: Element) -> Setting:
    """The queue that a nested element names."""
    for child in queue.children:
        for name in ("physicalName", "name"):
            if name in child.attributes:
                return Setting("deadLetterQueue", child.attributes[name], child.line)
    return Setting("deadLetterQueue", queue.text, queue.line)


def _common(block: Block, settings: Mapping[str, Setting], line: int, *, discarding: bool) -> None:
    """Convert the settings that all strategies have."""

    def flag(name: str, default: bool) -> tuple[Setting, bool, str]:  # noqa: FBT001 - a value
        setting = settings.get(name)
        if setting is None:
            return Setting(name, "", line), default, DEFAULT
        return setting, bool(block.flag(setting)), ""

    setting, expired, note = flag("processExpired", default=True)
    if discarding:
        note = "expired messages are dropped, too"
        block.becomes(setting, "dead_letter.process_expired", True, note)  # noqa: FBT003
    else:
        block.becomes(setting, "dead_letter.process_expired", expired, note)
        if not expired:
            note = "as there: expired messages are dropped; here they are counted"
            block.becomes(setting, "expiry.discard", True, note)  # noqa: FBT003
    setting, non_persistent, note = flag("processNonPersistent", default=False)
    block.becomes(setting, "dead_letter.process_non_persistent", non_persistent, note)
    given = settings.get("expiration")
    setting = given or Setting("expiration", "", line)
    span = block.whole(given, 0) if given else 0
    block.becomes(setting, "dead_letter.expiration", span or None, OUTLIVED if span else f"never; {DEFAULT}")


def dropping(block: Block, setting: Setting, note: str) -> None:
    """Drop the dead letters of a block, whatever its strategy."""
    gone = [
        finding for finding in block.findings if finding.field.startswith(("dead_letter.", "expiry.disc"))
    ]
    block.findings = [finding for finding in block.findings if finding not in gone]
    block.fields.pop("dead_letter", None)
    block.fields.pop("expiry", None)
    for finding in gone:
        if finding.value:
            one = Setting(finding.setting, finding.value, finding.line)
            block.passed_over(one, "no counterpart", f"{setting.name} is false, and dead letters are dropped")
    block.becomes(setting, "dead_letter.strategy", "discarding", note)
    kept = "expired messages go to their own queue, since dead letters are dropped"
    block.becomes(Setting("", "", setting.line), "dead_letter.process_expired", False, kept)  # noqa: FBT003


def discarding(element: Element) -> Block:
    """The plugin that drops dead letters before any strategy sees them.

    Its entry is pinned, with a pattern that matches all queues.
    """
    block = Block("discardingDLQBrokerPlugin", element.line, "*.#")
    settings = settings_of(element)
    known = ("dropAll", "dropOnly", "dropTemporaryQueues", "dropTemporaryTopics", "reportInterval")
    for name, setting in settings.items():
        if name.startswith("dropTemporary"):
            block.passed_over(setting, "no counterpart", "there are no temporary queues and topics")
        elif name not in known:
            unknown(block, setting, known, "discardingDLQBrokerPlugin")
    every, only = settings.get("dropAll"), settings.get("dropOnly")
    everything = block.flag(every) if every else only is None
    if only is not None and every is not None and everything:
        block.wrong(only, "dropAll is true, so this has no effect there. Remove one of them")
    elif not everything and only is None:
        block.passed_over(every or Setting("dropAll", "", element.line), "not needed", "nothing is dropped")
    else:
        _dropped(block, every, only, settings.get("reportInterval"))
    return block


def _dropped(block: Block, every: Setting | None, only: Setting | None, report: Setting | None) -> None:
    given = only or every or Setting("dropAll", "", block.line)
    block.becomes(given, "dead_letter.strategy", "discarding", "" if only or every else DEFAULT)
    if only is not None:
        note = "names are compared word by word: a dot is a dot, and * is one word"
        block.becomes(only, "dead_letter.only", only.value.split(), note)
    if every is not None and only is not None:
        block.passed_over(every, "not needed", "dropOnly lists the queues")
    why = "the plugin comes before all strategies, also for expired messages"
    block.becomes(Setting("", "", block.line), "dead_letter.process_expired", True, why)  # noqa: FBT003
    block.becomes(Setting("", "", block.line), "pinned", True, why)  # noqa: FBT003
    if report is not None:
        number = block.whole(report)
        if number is not None and number < 1:
            note = f"drops are always reported, here once per {REPORT}"
            block.passed_over(report, "no counterpart", note)
        elif number is not None:
            block.becomes(report, "dead_letter.report_interval", number)
