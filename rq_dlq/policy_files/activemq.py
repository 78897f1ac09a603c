"""ActiveMQ Classic's activemq.xml: converts destination policies and plugins to entries.

Classic does not merge entries: only the best match applies. So each entry here has all fields, with Classic's
defaults written out: here, too, only the most specific entry applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rq_dlq.policy.patterns import PatternIndex
from rq_dlq.policy_files._activemq_dead import dropping, letters, usual
from rq_dlq.policy_files._activemq_notes import differences, nothing_to_import
from rq_dlq.policy_files._activemq_plugins import (
    DESTINATIONS,
    FALLBACK,
    SEND,
    discarding,
    redelivering,
    redelivery,
    time_stamping,
)
from rq_dlq.policy_files._block import Block, Setting, Settings, reading_of
from rq_dlq.policy_files._others import CLASSIC, KNOWN_IDS, NO_AUDIT, NO_TOPICS
from rq_dlq.policy_files._patterns import Names

if TYPE_CHECKING:
    from rq_dlq.policy import Pattern
    from rq_dlq.policy_files._reading import Reading
    from rq_dlq.policy_files._xml import Element

ROOTS: Final = ("beans", "broker", "destinationPolicy", "policyMap", "plugins", "redeliveryPlugin")
EVERYTHING: Final = ">"


def read(root: Element, renamed: Mapping[str, str]) -> Reading:
    """See `read_broker_xml`."""
    return _BrokerXml(root, Names(any_words=EVERYTHING, renamed=renamed)).reading()


class _BrokerXml:
    """A file during its conversion to entries."""

    def __init__(self, root: Element, names: Names) -> None:
        self._root = root
        self._names = names
        self._apart: list[Block] = []  # blocks that do not become entries
        self._dead: dict[Pattern, Block] = {}
        self._redelivered: dict[Pattern, Block] = {}
        self._others: list[Block] = []

    def reading(self) -> Reading:
        for element, default in _entries(self._root, "policyEntries", "policyEntry"):
            for block in self._blocks(element, self._dead, default=default):
                self._dead_letters(block, element)
        plugins = self._root.named("redeliveryPlugin")
        for element in plugins:
            self._plugin(element)
        if not plugins and (self._dead or self._apart):
            self._no_plugin()
        everything = self._names.pattern(EVERYTHING)
        named = bool(self._root.named("policyEntry"))
        if named and not any("enableAudit" in one.attributes for one in self._root.all()):
            block = Block("broker", Settings(self._root.line))
            note = (
                f"missing, so there the last ids of a producer are also remembered after the ack; {KNOWN_IDS}"
            )
            block.passed_over(block.settings["enableAudit"], "no counterpart", note)
            self._apart.append(block)
        self._apart.append(differences(self._dead, everything, self._root.line, named=named))
        self._others += [discarding(element) for element in self._root.named("discardingDLQBrokerPlugin")]
        self._others += [time_stamping(element) for element in self._root.named("timeStampingBrokerPlugin")]
        self._of_clients()
        self._imported()
        return reading_of(self._joined(), self._apart, nothing_to_import(self._root))

    def _blocks(self, element: Element, known: dict[Pattern, Block], *, default: bool) -> list[Block]:
        """A block for each queue that an entry of a map names, unless the queue already has one."""
        where, patterns = self._destinations(element, default=default)
        blocks: list[Block] = []
        for pattern in patterns:
            if pattern not in known:
                known[pattern] = Block(where.place, where.settings, pattern.text)
                blocks.append(known[pattern])
                continue
            line = known[pattern].line
            if default:
                note = f"the entry of line {line} matches all queues, so the default has no effect"
                where.passed_over(where.settings["defaultEntry"], "not needed", note)
            else:
                message = f"{pattern.text} already has an entry, line {line}. Put both into one"
                where.wrong(Setting("queue", pattern.text, element.line), message)
        return blocks

    def _destinations(self, element: Element, *, default: bool) -> tuple[Block, list[Pattern]]:
        """The queues of an entry."""
        settings = Settings.of(element)
        given = [settings[name] for name in DESTINATIONS if name in settings]
        text = "default" if default else " ".join(f"{one.name}={one.value}" for one in given)
        where = Block(f"{element.name} {text}".strip(), settings)
        self._apart.append(where)
        if default:
            return where, [self._names.pattern(EVERYTHING)]
        for one in given:
            if one.name != "queue":
                where.passed_over(one, "no counterpart", f"it is not imported: {NO_TOPICS}")
        if not given:
            message = 'it names no queues: name them as in queue="orders.>"'
            where.wrong(Setting(element.name, "", element.line), message)
        queue = settings["queue"]
        names = [name.strip() for name in queue.value.split(",")] if "queue" in settings else []
        found = (where.matched(queue, one, self._names, f"it is not imported for {one!r}") for one in names)
        return where, [pattern for pattern in found if pattern is not None]

    def _dead_letters(self, block: Block, element: Element) -> None:
        children = [
            Setting(child.name, "", child.line)
            for child in element.children
            if child.name != "deadLetterStrategy"
        ]
        for setting in (*block.settings.values(), *children):
            if setting.name == "enableAudit" and setting.value == "false":
                block.passed_over(setting, "no counterpart", NO_AUDIT)
            elif setting.name in CLASSIC:
                block.passed_over(setting, *CLASSIC[setting.name])
            elif setting.name not in {*DESTINATIONS, "deadLetterStrategy"}:
                block.unknown(setting, (*CLASSIC, "deadLetterStrategy"), "policyEntry")
        letters(block, element, self._names)

    def _plugin(self, element: Element) -> None:
        for policy, default in _entries(element, "redeliveryPolicyEntries", "redeliveryPolicy"):
            for block in self._blocks(policy, self._redelivered, default=default):
                redelivery(block)
        block, off = redelivering(element)
        self._apart.append(block)
        if block.problems:
            return
        index = PatternIndex(self._redelivered)
        if FALLBACK in off:
            self._without_policy(off[FALLBACK], index)
        if SEND in off:
            note = "as there: messages without redeliveries left are dropped; here they are counted"
            for pattern in {**self._dead, **self._redelivered}:
                if index.covering(pattern):
                    dropping(self._letters_of(pattern), off[SEND], note)

    def _without_policy(self, fallback: Setting, redelivered: PatternIndex) -> None:
        """Drop failed messages of queues without a redelivery policy; the others keep their strategies."""
        dead = PatternIndex(self._dead)
        for pattern, block in self._redelivered.items():
            if pattern not in self._dead:
                self._inherit(pattern, dead.covering(pattern), block.line)
        note = "as there: a queue without a redelivery policy drops failed messages; here they are counted"
        everything = self._names.pattern(EVERYTHING)
        for pattern in {**self._dead, everything: None}:
            if not redelivered.covering(pattern):
                dropping(self._letters_of(pattern), fallback, note)

    def _inherit(self, pattern: Pattern, above: Sequence[Pattern], line: int) -> None:
        """Copy the dead-letter fields of the best policyEntry for a pattern."""
        block = self._letters_of(pattern)
        if not above:
            usual(block, line)
            return
        source = self._dead[above[0]]
        for part in ("dead_letter", "expiry"):
            for field, value in source.fields.get(part, {}).items():
                where = Setting("", "", source.line)
                block.becomes(where, f"{part}.{field}", value, f"from line {source.line}")

    def _letters_of(self, pattern: Pattern) -> Block:
        """The block for the dead letters of a pattern."""
        if pattern not in self._dead:
            self._dead[pattern] = Block("redeliveryPlugin", Settings(self._root.line), pattern.text)
        return self._dead[pattern]

    def _no_plugin(self) -> None:
        block = Block("broker", Settings(self._root.line))
        note = (
            "without a redeliveryPlugin, clients redeliver by their own policies: set these with "
            "`rq-dlq policy set`, or in code with RedeliveryPolicy.activemq(…)"
        )
        block.passed_over(block.settings["redeliveryPlugin"], "no counterpart", note)
        self._apart.append(block)

    def _of_clients(self) -> None:
        """Add findings for the policies of clients."""
        inside = {id(one) for each in self._root.named("redeliveryPlugin") for one in each.all()}
        for element in self._root.named("redeliveryPolicy"):
            if id(element) not in inside:
                block = Block("redeliveryPolicy", Settings(element.line))
                note = "it belongs to a client: set it in code, with redelivery=RedeliveryPolicy.activemq(…)"
                block.passed_over(block.settings["redeliveryPolicy"], "no counterpart", note)
                self._apart.append(block)

    def _imported(self) -> None:
        """Add findings for other Spring files; this file does not need them."""
        for element in self._root.named("import"):
            block = Block("import", Settings.of(element))
            note = "this file is not read: if it has policies, import it separately"
            block.passed_over(block.settings["resource"], "no counterpart", note)
            self._apart.append(block)

    def _joined(self) -> list[Block]:
        """One block per pattern, with all its settings."""
        blocks: dict[str, Block] = {}
        for block in (*self._dead.values(), *self._redelivered.values(), *self._others):
            if block.pattern in blocks:
                blocks[block.pattern].take(block)
            else:
                blocks[block.pattern] = block
        return [*blocks.values()]


def _entries(root: Element, group: str, name: str) -> Iterator[tuple[Element, bool]]:
    """The entries of a map, the default last; for each, whether it is the default."""
    for element in root.named(group):
        yield from ((child, False) for child in element.children)
    for element in root.named("defaultEntry"):
        yield from ((child, True) for child in element.children if child.name == name)
