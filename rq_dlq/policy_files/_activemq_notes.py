"""Notes on differences in behaviour after an import of all settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rq_dlq.policy.patterns import ONE
from rq_dlq.policy_files._block import Block, Setting, Settings
from rq_dlq.policy_files._patterns import common
from rq_dlq.policy_files._reading import Problem

if TYPE_CHECKING:
    from rq_dlq.policy import Pattern
    from rq_dlq.policy_files._xml import Element


CLIENT_POLICY: Final = "RedeliveryPolicy"


def nothing_to_import(root: Element) -> Problem:
    """The problem of a file without entries, perhaps that of a client in Spring."""
    for bean in root.named("bean"):
        if bean.attributes.get("class", "").rpartition(".")[2] == CLIENT_POLICY:
            message = (
                "a RedeliveryPolicy bean belongs to a client's connection factory: pass its properties to "
                "RedeliveryPolicy.activemq(maximumRedeliveries=…), or put them into an activemq.xml, as a "
                "<redeliveryPolicy> of the redeliveryPlugin"
            )
            return Problem(bean.line, CLIENT_POLICY, message)
    message = "it has no policyEntry, redeliveryPlugin or similar element, so there is nothing to import"
    return Problem(root.line, "", message)


def differences(entries: Mapping[Pattern, Block], everything: Pattern, line: int, *, named: bool) -> Block:
    """Notes on queues that no policyEntry covers, and on queues that two crossing patterns match.

    Args:
        entries: the policyEntries, by pattern.
        everything: the pattern for all queues.
        line: the line for notes that belong to no entry.
        named: the file has policyEntries, even if only for topics.
    """
    notes = Block("policyEntry", Settings(line))
    if named and everything not in entries:
        covered = ", ".join(pattern.text for pattern in entries)
        outside = f"queues outside {covered}" if covered else "all queues"
        note = (
            f"{outside}: dead letters were in ActiveMQ.DLQ, and are in DLQ.<queue>, with our redelivery "
            "policy: set an entry for them with `rq-dlq policy set '#'`"
        )
        notes.passed_over(Setting("queue", "", line), "no counterpart", note)
    for one, other in _may_cross(entries):
        shared = common(one, other)
        letters = [entries[pattern].fields.get("dead_letter") for pattern in (one, other)]
        if shared and not one.covers(other) and not other.covers(one) and letters[0] != letters[1]:
            first = min(one, other, key=lambda pattern: pattern.rank)
            note = (
                f"queues like {shared}, which {one.text} and {other.text} cover: here {first.text} takes "
                "precedence, in Classic it may be the other one"
            )
            notes.passed_over(Setting("queue", "", entries[other].line), "no counterpart", note)
    return notes


def _may_cross(patterns: Iterable[Pattern]) -> Iterator[tuple[Pattern, Pattern]]:
    """The pairs that may cross, in order; pairs without a one-word wildcard do not cross."""
    wild: list[Pattern] = []
    single: list[Pattern] = []
    for other in patterns:
        has_single = ONE in other.text.split(".")
        yield from ((one, other) for one in (wild if has_single else single))
        if not other.literal:
            wild.append(other)
        if has_single:
            single.append(other)
