"""ActiveMQ Classic's activemq.xml: destination policies and plugins, as entries of ours.

Classic merges nothing: only the best entry counts. So each entry here has all its fields, with Classic's
defaults written out, and again only the most specific one counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy_files._activemq_dead import discarding, dropping, letters, usual
from rq_dlq.policy_files._activemq_notes import differences
from rq_dlq.policy_files._activemq_redelivery import plugin, redelivery
from rq_dlq.policy_files._activemq_settings import DESTINATIONS, ENTRY, NO_TOPICS
from rq_dlq.policy_files._activemq_times import time_stamping
from rq_dlq.policy_files._block import Block, Setting, settings_of, unknown
from rq_dlq.policy_files._patterns import Names, covers
from rq_dlq.policy_files._reading import Problem, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rq_dlq.policy import Pattern
    from rq_dlq.policy_files._activemq_redelivery import Plugin
    from rq_dlq.policy_files._xml import Element

EVERYTHING: Final = ">"


def understands(root: Element) -> bool:
    """Whether a document is Classic's activemq.xml."""
    return root.name in {"beans", "broker", "destinationPolicy", "policyMap", "plugins", "redeliveryPlugin"}


def read(root: Element, renamed: Mapping[str, str]) -> Reading:
    """The policies in a document.

    Args:
        root: of the document.
        renamed: the name or pattern here, by the one there.
    """
    return _File(root, Names(any_words=EVERYTHING, renamed=renamed)).reading()


class _File:
    """One file, while it becomes entries."""

    def __init__(self, root: Element, names: Names) -> None:
        self._root = root
        self._names = names
        self._apart: list[Block] = []  # blocks that become no entry
        self._dead: dict[Pattern, Block] = {}
        self._redelivered: dict[Pattern, Block] = {}
        self._others: list[Block] = []

    def reading(self) -> Reading:
        for element, default in _entries(self._root, "policyEntries", "policyEntry"):
            self._policies(element, self._dead, self._dead_letters, default=default)
        plugins = self._root.named("redeliveryPlugin")
        for element in plugins:
            self._plugin(element)
        if not plugins and (self._dead or self._apart):
            self._no_plugin()
        everything = self._names.pattern(EVERYTHING)
        self._apart.append(differences(self._dead, everything, self._root.line))
        self._others += [discarding(element) for element in self._root.named("discardingDLQBrokerPlugin")]
        self._others += [time_stamping(element) for element in self._root.named("timeStampingBrokerPlugin")]
        self._of_clients()
        blocks = self._joined()
        entries = {text: block.entry() for text, block in blocks.items()}
        every = [*self._apart, *blocks.values()]
        problems = [problem for block in every for problem in block.problems]
        findings = [finding for block in every for finding in block.findings]
        if not problems and not findings:
            message = "there is no policyEntry, redeliveryPlugin or the like, so there is nothing to import"
            problems.append(Problem(self._root.line, "", message))
        return Reading(
            {} if problems else {text: entry for text, entry in entries.items() if entry is not None},
            sorted(findings, key=lambda finding: finding.line),
            sorted(problems, key=lambda problem: problem.line),
            {text: block.line for text, block in blocks.items()},
        )

    def _policies(
        self,
        element: Element,
        known: dict[Pattern, Block],
        read_into: Callable[[Block, Element], None],
        *,
        default: bool,
    ) -> None:
        """Convert an entry of a map, once for each queue that it names."""
        where, patterns = self._destinations(element, default=default)
        for pattern in patterns:
            block = Block(where.place, element.line, pattern.text)
            if pattern in known and default:
                note = (
                    f"the entry of line {known[pattern].line} is for all queues, so the default has no effect"
                )
                where.passed_over(Setting("defaultEntry", "", element.line), "not needed", note)
            elif pattern in known:
                message = (
                    f"{pattern.text} already has an entry, line {known[pattern].line}. Put both into one"
                )
                where.wrong(Setting("queue", pattern.text, element.line), message)
            else:
                read_into(block, element)
                known[pattern] = block

    def _destinations(self, element: Element, *, default: bool) -> tuple[Block, list[Pattern]]:
        """The queues that an entry is for."""
        settings = settings_of(element)
        given = [settings[name] for name in DESTINATIONS if name in settings]
        text = "default" if default else " ".join(f"{one.name}={one.value}" for one in given)
        where = Block(f"{element.name} {text}".strip(), element.line)
        self._apart.append(where)
        if default:
            return where, [self._names.pattern(EVERYTHING)]
        for one in given:
            if one.name != "queue":
                where.passed_over(one, "no counterpart", f"it is not imported: {NO_TOPICS}")
        if not given:
            message = 'it names no queues: name them as in queue="orders.>"'
            where.wrong(Setting(element.name, "", element.line), message)
        patterns: list[Pattern] = []
        for name in settings["queue"].value.split(",") if "queue" in settings else ():
            pattern = self._pattern(where, settings["queue"], name.strip())
            if pattern is not None:
                patterns.append(pattern)
        return where, patterns

    def _pattern(self, where: Block, setting: Setting, name: str) -> Pattern | None:
        try:
            pattern = self._names.pattern(name)
        except PolicyError as error:
            if name in self._names.renamed:
                where.wrong(setting, str(error))
            else:
                note = f"it is not imported for {name!r}: {error}"
                where.passed_over(setting, "no counterpart", note)
            return None
        if name in self._names.renamed:
            where.passed_over(setting, "not needed", f"{name} is {pattern.text} here")
        return pattern

    def _dead_letters(self, block: Block, element: Element) -> None:
        settings = settings_of(element)
        children = [
            Setting(child.name, "", child.line)
            for child in element.children
            if child.name != "deadLetterStrategy"
        ]
        for setting in (*settings.values(), *children):
            if setting.name in ENTRY:
                block.passed_over(setting, *ENTRY[setting.name])
            elif setting.name not in {*DESTINATIONS, "deadLetterStrategy"}:
                unknown(block, setting, (*ENTRY, "deadLetterStrategy"), "policyEntry")
        letters(block, element, self._names)

    def _plugin(self, element: Element) -> None:
        for policy, default in _entries(element, "redeliveryPolicyEntries", "redeliveryPolicy"):
            self._policies(policy, self._redelivered, redelivery, default=default)
        switches = plugin(element)
        self._apart.append(switches.block)
        if switches.block.problems:
            return
        if not switches.fallback:
            self._without_policy(switches)
        if not switches.send:
            setting = switches.settings["sendToDlqIfMaxRetriesExceeded"]
            note = "as there: messages without redeliveries left are dropped; here they are counted"
            for pattern in {**self._dead, **self._redelivered}:
                if self._has_policy(pattern):
                    dropping(self._letters_of(pattern), setting, note)

    def _without_policy(self, switches: Plugin) -> None:
        """Queues without a redelivery policy drop failed messages; the others keep their strategies."""
        for pattern, block in self._redelivered.items():
            if pattern not in self._dead:
                self._inherit(pattern, block.line)
        setting = switches.settings["fallbackToDeadLetter"]
        note = "as there: a queue without a redelivery policy drops failed messages; here they are counted"
        everything = self._names.pattern(EVERYTHING)
        for pattern in {**self._dead, everything: None}:
            if not self._has_policy(pattern):
                dropping(self._letters_of(pattern), setting, note)

    def _inherit(self, pattern: Pattern, line: int) -> None:
        """Copy the dead-letter fields of the best policyEntry for a pattern."""
        above = sorted((other for other in self._dead if covers(other, pattern)), key=lambda one: one.rank)
        block = self._letters_of(pattern)
        if not above:
            usual(block, line)
            return
        source = self._dead[above[0]]
        for part in ("dead_letter", "expiry"):
            for field, value in source.fields.get(part, {}).items():
                where = Setting("", "", source.line)
                block.becomes(where, f"{part}.{field}", value, f"from line {source.line}")

    def _has_policy(self, pattern: Pattern) -> bool:
        return any(covers(other, pattern) for other in self._redelivered)

    def _letters_of(self, pattern: Pattern) -> Block:
        """The block for the dead letters of a pattern."""
        if pattern not in self._dead:
            self._dead[pattern] = Block("redeliveryPlugin", self._root.line, pattern.text)
        return self._dead[pattern]

    def _no_plugin(self) -> None:
        block = Block("broker", self._root.line)
        note = (
            "without a redeliveryPlugin clients redeliver by their own policies: set these with "
            "`rq-dlq policy set`, or in code with RedeliveryPolicy.activemq(…)"
        )
        block.passed_over(Setting("redeliveryPlugin", "", self._root.line), "no counterpart", note)
        self._apart.append(block)

    def _of_clients(self) -> None:
        """Findings for policies of clients."""
        inside = {id(one) for each in self._root.named("redeliveryPlugin") for one in each.all()}
        for element in self._root.named("redeliveryPolicy"):
            if id(element) not in inside:
                block = Block("redeliveryPolicy", element.line)
                note = "it is a client's: set it in code, with redelivery=RedeliveryPolicy.activemq(…)"
                block.passed_over(Setting("redeliveryPolicy", "", element.line), "no counterpart", note)
                self._apart.append(block)

    def _joined(self) -> dict[str, Block]:
        """One block per pattern, with all that is for it."""
        blocks: dict[str, Block] = {}
        for block in (*self._dead.values(), *self._redelivered.values(), *self._others):
            if block.pattern in blocks:
                blocks[block.pattern].take(block)
            else:
                blocks[block.pattern] = block
        return blocks


def _entries(root: Element, group: str, name: str) -> Iterator[tuple[Element, bool]]:
    """The entries of a map, each with whether it is the default. The default comes last."""
    for element in root.named(group):
        yield from ((child, False) for child in element.children)
    for element in root.named("defaultEntry"):
        yield from ((child, True) for child in element.children if child.name == name)
