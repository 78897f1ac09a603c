"""ActiveMQ Artemis' broker.xml: converts its address-settings to entries.

Artemis and this package merge all matching patterns field by field, the most specific first, so each block
becomes one entry. The exception is the destination of dead and expired messages: it depends on three
settings, so it is computed from all blocks of the file and written out in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.policy import Pattern, RedeliveryPolicy
from rq_dlq.policy.fields import BY_PART
from rq_dlq.policy.patterns import PatternIndex
from rq_dlq.policy_files._artemis_places import PLACES, counts, places
from rq_dlq.policy_files._block import Block, Setting, Settings, reading_of
from rq_dlq.policy_files._others import ARTEMIS, ARTEMIS_CORE, KNOWN_IDS, NO_TOPICS
from rq_dlq.policy_files._patterns import Names
from rq_dlq.policy_files._reading import Problem

if TYPE_CHECKING:
    from rq_dlq.policy_files._reading import Reading
    from rq_dlq.policy_files._xml import Element

ROOTS: Final = ("configuration", "core", "address-settings", "address-setting")
REDELIVERY, EXPIRY = (
    {row.artemis: row for row in BY_PART[part].values() if row.artemis} for part in ("redelivery", "expiry")
)
"""Our fields that a single setting of Artemis sets, by that setting."""
KNOWN: Final = (*REDELIVERY, *EXPIRY, *PLACES, *ARTEMIS)
APART: Final = ("address-settings", "wildcard-addresses", "literal-match-markers")
"""Settings of the whole broker that are converted elsewhere."""
MANAGEMENT: Final = "activemq.management"
OF_QUEUES: Final = "jms.queue."
OF_TOPICS: Final = "jms.topic."
NONE: Final = -1


def read(root: Element, renamed: Mapping[str, str]) -> Reading:
    """See `read_broker_xml`."""
    core = Block("core", Settings(root.line))
    names = _names(root, renamed, core)
    apart, blocks = [core], dict[Pattern, Block]()
    for element in root.named("address-setting"):
        block, pattern = _described(element, names)
        if pattern in blocks:
            message = f"{block.pattern} already has a block, line {blocks[pattern].line}. Put both into one"
            block.wrong(Setting("match", block.pattern, block.line), message)
        if pattern is None or pattern in blocks:
            apart.append(block)
        else:
            blocks[pattern] = block
    apart += _queues_of_others(blocks, names)
    index, queues = PatternIndex(blocks), _configured(root)
    for pattern, block in blocks.items():
        above = [blocks[other] for other in index.covering(pattern) if other != pattern]
        _redelivery(block, above)
        _expiry(block)
        places(block, above, names, queues)
    _of_the_broker(root, core)
    if blocks and not root.named("id-cache-size"):
        note = f"missing, so there the last 20,000 ids are remembered; {KNOWN_IDS}"
        core.passed_over(Setting("id-cache-size", "", root.line), "no counterpart", note)
    nothing = Problem(root.line, "address-settings", "there are none, so there is nothing to import")
    return reading_of([*blocks.values()], apart, None if blocks else nothing)


def _names(root: Element, renamed: Mapping[str, str], core: Block) -> Names:
    """The broker's syntax of names."""
    names = Names(renamed=renamed)
    for element in root.named("wildcard-addresses"):
        for child in element.children:
            field = child.name.replace("-", "_")
            if field in {"delimiter", "any_words", "single_word"}:
                if len(child.text) == 1:
                    names = replace(names, **{field: child.text})  # type: ignore[arg-type]
                else:
                    core.wrong(_setting(child), f"{child.text!r} is not one character")
    for element in root.named("literal-match-markers"):
        if len(element.text) not in {0, 2}:
            core.wrong(_setting(element), f"{element.text!r} is not two characters")
        else:
            names = replace(names, literal=element.text)
    return names


def _setting(element: Element) -> Setting:
    return Setting(element.name, element.text, element.line)


def _matched(block: Block, where: Setting, names: Names) -> Pattern | None:
    """The pattern of a block; None: it is not imported, and a finding says why."""
    match = where.value
    if match in names.renamed:
        return block.matched(where, match, names, "")
    if match.startswith(MANAGEMENT):
        block.passed_over(where, "not needed", "a queue is managed by calls and commands, not by messages")
        return None
    if match.startswith(OF_TOPICS):
        block.passed_over(where, "no counterpart", f"this block is not imported: {NO_TOPICS}")
        return None
    pattern = block.matched(where, match.removeprefix(OF_QUEUES), names, "this block is not imported")
    if pattern is not None and match.startswith(OF_QUEUES):
        note = f"{pattern.text} here: {OF_QUEUES} is a prefix of Artemis 1, which names of queues lack"
        block.passed_over(where, "not needed", note)
    return pattern


def _described(element: Element, names: Names) -> tuple[Block, Pattern | None]:
    """A block, with findings for settings without an equivalent; and its pattern, or None."""
    match = element.attributes.get("match", "")
    block = Block(f"address-setting {match}".strip(), Settings(element.line))
    _read_settings(element, block)
    where = Setting("match", match, element.lines.get("match", element.line))
    if not match:
        block.wrong(where, 'it is missing: name the addresses of the block, as in match="orders.#"')
        return block, None
    pattern = _matched(block, where, names)
    if pattern is None:
        return block, None
    block.pattern = pattern.text
    if match not in names.renamed and names.delimiter != ".":
        note = (
            f"{match} is {pattern.text} here: dots separate words here, so rename the queues in the same way"
        )
        block.passed_over(where, "not needed", note)
    for setting in block.settings.values():
        if setting.name in ARTEMIS:
            block.passed_over(setting, *ARTEMIS[setting.name])
    return block, pattern


def _read_settings(element: Element, block: Block) -> None:
    for child in element.children:
        setting = Setting(child.name.lower(), child.text, child.line)
        if setting.name not in KNOWN:
            block.unknown(setting, KNOWN, "an address-setting")
        elif setting.name in block.settings:
            first = block.settings[setting.name].line
            block.wrong(setting, f"it is already set in line {first}. Set it once")
        else:
            block.settings[setting.name] = setting


def _queues_of_others(blocks: dict[Pattern, Block], names: Names) -> list[Block]:
    """Remove and return the blocks of queues that blocks name as dead-letter or expiry queues."""
    given = {
        names.queue(block.settings[name].value)
        for block in blocks.values()
        for name in ("dead-letter-address", "expiry-address")
        if name in block.settings
    }
    taken = [blocks.pop(pattern) for pattern in [*blocks] if pattern.text in given]
    for block in taken:
        _of_others(block, names)
    return taken


def _of_others(block: Block, names: Names) -> None:
    """Add findings for the block of a dead-letter or expiry queue."""
    where = Setting("match", block.pattern, block.line)
    next_address = block.settings.get("dead-letter-address")
    if next_address and names.queue(next_address.value) not in {"", block.pattern}:
        note = (
            "it is not imported: a message that fails in a dead-letter queue stays there, so a chain of "
            "retries ends there. Give the first queue the redeliveries of the whole chain, with its delays"
        )
        block.passed_over(where, "no counterpart", note)
    else:
        note = "it is not imported: a message that fails in a dead-letter or expiry queue stays there"
        block.passed_over(where, "not needed", note)
    if (span := block.settings.get("expiry-delay")) and span.value not in {"", str(NONE)}:
        note = (
            "it was their retention: for the same here, `rq-dlq policy set` the queues that they come from, "
            f"with --expiration {span.value}ms for dead letters, --retention {span.value}ms for "
            "expired messages"
        )
        block.passed_over(span, "no counterpart", note)


def _redelivery(block: Block, above: Sequence[Block]) -> None:
    given: dict[str, Any] = {}
    for name, field in REDELIVERY.items():
        if name in block.settings:
            setting = block.settings[name]
            value = block.decimal(setting) if field.kind == "NUMBER" else block.whole(setting)
            if value is not None:
                given[name] = value
    if block.redelivery(RedeliveryPolicy.artemis, given) is None:
        return
    if given or (counts(block) and not any(map(counts, above))):
        note = "exact to the bit; other settings: Artemis' defaults, no wait and 10 deliveries"
        block.becomes(block.itself, "redelivery.arithmetic", "artemis", note)
    for name, value in given.items():
        _of_redelivery(block, block.settings[name], value, given)


def _of_redelivery(block: Block, setting: Setting, value: float, given: Mapping[str, Any]) -> None:
    field, note = REDELIVERY[setting.name].where, ""
    if setting.name == "max-delivery-attempts":
        unlimited = value == NONE
        note = "no limit" if unlimited else "redeliveries, not counting the first delivery"
        block.becomes(setting, field, None if unlimited else int(value) - 1, note)
        return
    if setting.name == "redelivery-delay" and value and "max-redelivery-delay" not in given:
        note = "the longest wait is ten times that, unless another block sets max-redelivery-delay"
    block.becomes(setting, field, value, note)


def _expiry(block: Block) -> None:
    for name, field in EXPIRY.items():
        if name not in block.settings:
            continue
        setting = block.settings[name]
        if field.kind == "flag":
            flag = block.flag(setting)
            if flag is not None:
                block.becomes(setting, field.where, flag)
            continue
        value = block.whole(setting, NONE)
        if value == 0:
            message = "with 0 every message would expire immediately. Write -1 for no expiry, or 1 or more"
            block.wrong(setting, message)
        elif value is not None:
            note = "none" if value == NONE else ""
            block.becomes(setting, field.where, None if value == NONE else value, note)


def _configured(root: Element) -> dict[str, list[str]] | None:
    """The queues that the file configures, by address; None: it has no <addresses>."""
    if not (elements := root.named("addresses")):
        return None
    found = [address for element in elements for address in element.children if address.name == "address"]
    return {
        address.attributes.get("name", ""): [
            queue.attributes["name"] for queue in address.named("queue") if "name" in queue.attributes
        ]
        for address in found
    }


def _of_the_broker(root: Element, core: Block) -> None:
    """Add findings for the rest of the file."""
    others: dict[str, int] = {}
    for child in [child for element in root.named("core") for child in element.children]:
        if child.name in ARTEMIS_CORE:
            core.passed_over(_setting(child), *ARTEMIS_CORE[child.name])
        elif child.name not in APART:
            others.setdefault(child.name, child.line)
    if others:
        setting = Setting(", ".join(others), "", min(others.values()))
        core.passed_over(setting, "no counterpart", "it does not concern redelivery, dead letters or expiry")
