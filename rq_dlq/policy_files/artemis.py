"""ActiveMQ Artemis' broker.xml: its address-settings, as entries of ours.

Artemis and we merge all matching patterns field by field, the most specific first, so each block becomes one
entry. The exception is where dead and expired messages go: three settings decide that together, so it is
computed from all blocks of the file and written out in full.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rq_dlq.errors import PolicyError
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.fields import BY_PART
from rq_dlq.policy.foreign import plain
from rq_dlq.policy_files._artemis_places import PLACES, Described, places
from rq_dlq.policy_files._artemis_settings import APART, CORE, OTHERS
from rq_dlq.policy_files._block import Block, Setting, unknown
from rq_dlq.policy_files._patterns import Names, covers
from rq_dlq.policy_files._reading import Finding, Problem, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rq_dlq.policy_files._xml import Element

REDELIVERY, EXPIRY = (
    {row.artemis: row for row in BY_PART[part].values() if row.artemis} for part in ("redelivery", "expiry")
)
"""The fields of ours that a single setting of Artemis sets, by that setting."""
KNOWN: Final = (*REDELIVERY, *EXPIRY, *PLACES, *OTHERS)
UNSAID: Final = -1


def understands(root: Element) -> bool:
    """Whether a document is Artemis' broker.xml."""
    return root.name in {"configuration", "core", "address-settings", "address-setting"}


def read(root: Element, renamed: Mapping[str, str]) -> Reading:
    """The policies in a document.

    Args:
        root: of the document.
        renamed: the name or pattern here, by the one there.
    """
    names, problems = _names(root, renamed)
    findings: list[Finding] = []
    described: list[Described] = []
    for element in root.named("address-setting"):
        one = _described(element, names)
        findings += one.block.findings
        problems += one.block.problems
        if one.pattern is not None:
            problems += _twice(one, described)
            described.append(one)
    described, gone = _queues(described, names)
    findings += gone
    blocks = [_block(one, described, names) for one in described]
    entries = {block.pattern: block.entry() for block in blocks}
    problems += [problem for block in blocks for problem in block.problems]
    findings += [finding for block in blocks for finding in block.findings]
    findings += _of_the_broker(root)
    if not described and not problems and not findings:
        problems.append(
            Problem(root.line, "address-settings", "there are none, so there is nothing to import")
        )
    return Reading(
        {} if problems else {pattern: entry for pattern, entry in entries.items() if entry is not None},
        sorted(findings, key=lambda finding: finding.line),
        sorted(problems, key=lambda problem: problem.line),
        {block.pattern: block.line for block in blocks},
    )


def _names(root: Element, renamed: Mapping[str, str]) -> tuple[Names, list[Problem]]:
    """How the broker writes names."""
    names, problems = Names(renamed=renamed), list[Problem]()
    for element in root.named("wildcard-addresses"):
        for child in element.children:
            field = child.name.replace("-", "_")
            if field in {"delimiter", "any_words", "single_word"}:
                if len(child.text) == 1:
                    names = replace(names, **{field: child.text})  # type: ignore[arg-type]
                else:
                    problems.append(Problem(child.line, child.name, f"{child.text!r} is not one character"))
    for element in root.named("literal-match-markers"):
        if len(element.text) not in {0, 2}:
            problems.append(Problem(element.line, element.name, f"{element.text!r} is not two characters"))
        else:
            names = replace(names, literal=element.text)
    return names, problems


def _described(element: Element, names: Names) -> Described:
    """A block with its settings by name, and findings for the settings that become nothing."""
    match = element.attributes.get("match", "")
    block = Block(f"address-setting {match}".strip(), element.line)
    where = Setting("match", match, element.lines.get("match", element.line))
    settings = dict(_settings(element, block))
    if not match:
        block.wrong(where, 'it is missing: name the addresses that it is for, as in match="orders.#"')
        return Described(block, None, settings)
    try:
        pattern = names.pattern(match)
    except PolicyError as error:
        if match in names.renamed:
            block.wrong(where, str(error))
        else:
            block.passed_over(where, "no counterpart", f"this block is not imported: {error}")
        return Described(block, None, settings)
    block.pattern = pattern.text
    if match in names.renamed or names.delimiter != ".":
        split = "" if match in names.renamed else ": dots separate words here, so name queues like that, too"
        block.passed_over(where, "not needed", f"{match} is {pattern.text} here{split}")
    for setting in settings.values():
        if setting.name in OTHERS:
            block.passed_over(setting, *OTHERS[setting.name])
    return Described(block, pattern, settings)


def _settings(element: Element, block: Block) -> Iterator[tuple[str, Setting]]:
    seen: dict[str, int] = {}
    for child in element.children:
        setting = Setting(child.name.lower(), child.text, child.line)
        if setting.name == "include":
            href = child.attributes.get("href", "another file")
            message = f"its settings are in {href}: import that file, or put them here in a copy"
            block.wrong(setting, message)
        elif setting.name not in KNOWN:
            unknown(block, setting, KNOWN, "an address-setting")
        elif setting.name in seen:
            block.wrong(setting, f"it is already set in line {seen[setting.name]}. Set it once")
        else:
            seen[setting.name] = child.line
            yield setting.name, setting


def _twice(one: Described, before: Sequence[Described]) -> list[Problem]:
    same = next((other for other in before if other.pattern == one.pattern), None)
    if same is None:
        return []
    message = f"{one.block.pattern} already has a block, line {same.block.line}. Put both into one"
    return [Problem(one.block.line, "match", message)]


def _queues(described: Sequence[Described], names: Names) -> tuple[list[Described], list[Finding]]:
    """The blocks, without those for the dead-letter and expiry queues of others."""
    given = {
        names.queue(one.settings[name].value)
        for one in described
        for name in ("dead-letter-address", "expiry-address")
        if name in one.settings
    }
    kept = [one for one in described if one.block.pattern not in given]
    note = "it is not imported: a message that fails in a dead-letter or expiry queue stays there"
    gone = [
        Finding(one.block.line, one.block.place, "match", one.block.pattern, "not needed", note=note)
        for one in described
        if one not in kept
    ]
    return kept, gone


def _block(one: Described, all_of_them: Sequence[Described], names: Names) -> Block:
    """The entry of a block."""
    block = Block(one.block.place, one.block.line, one.block.pattern)
    above = sorted(
        (other for other in all_of_them if other is not one and covers(other.known, one.known)),
        key=lambda other: other.known.rank,
    )
    _redelivery(block, one, above)
    _expiry(block, one.settings)
    places(block, one, above, names)
    return block


def _redelivery(block: Block, one: Described, above: Sequence[Described]) -> None:
    given: dict[str, Any] = {}
    for name, field in REDELIVERY.items():
        if name in one.settings:
            setting = one.settings[name]
            value = block.decimal(setting) if field.kind == "NUMBER" else block.whole(setting)
            if value is not None:
                given[name] = value
    try:
        RedeliveryPolicy.artemis(**given)
    except PolicyError as error:
        blamed = [name for name in given if plain(name) in plain(str(error))] or list(given)
        block.wrong(one.settings[blamed[-1]], str(error))
        return
    if given or (one.counts and not any(other.counts for other in above)):
        note = "exact to the bit; other settings: Artemis' defaults, no wait and 10 deliveries"
        block.becomes(Setting("", "", block.line), "redelivery.arithmetic", "artemis", note)
    for name, value in given.items():
        _of_redelivery(block, one.settings[name], value, given)


def _of_redelivery(block: Block, setting: Setting, value: float, given: Mapping[str, Any]) -> None:
    field, note = REDELIVERY[setting.name].where, ""
    if setting.name == "max-delivery-attempts":
        unlimited = value == UNSAID
        note = "no limit" if unlimited else "redeliveries, so without the first delivery"
        block.becomes(setting, field, None if unlimited else int(value) - 1, note)
        return
    if setting.name == "redelivery-delay" and value and "max-redelivery-delay" not in given:
        note = "the longest wait is ten times that, unless another block says max-redelivery-delay"
    block.becomes(setting, field, value, note)


def _expiry(block: Block, settings: Mapping[str, Setting]) -> None:
    for name, field in EXPIRY.items():
        if name not in settings:
            continue
        setting = settings[name]
        if field.kind == "flag":
            flag = block.flag(setting)
            if flag is not None:
                block.becomes(setting, field.where, flag)
            continue
        value = block.whole(setting, UNSAID)
        if value == 0:
            message = "with 0 every message would expire at once. Write -1 for none, or 1 or more"
            block.wrong(setting, message)
        elif value is not None:
            note = "none" if value == UNSAID else ""
            block.becomes(setting, field.where, None if value == UNSAID else value, note)


def _of_the_broker(root: Element) -> list[Finding]:
    """The findings for the rest of the file."""
    findings: list[Finding] = []
    others: dict[str, int] = {}
    for core in root.named("core"):
        for child in core.children:
            if child.name in CORE:
                outcome, reason = CORE[child.name]
                findings.append(Finding(child.line, "core", child.name, child.text, outcome, note=reason))
            elif child.name not in APART:
                others.setdefault(child.name, child.line)
    if others:
        reason = "it is not about redelivery, dead letters or expiry"
        line = min(others.values())
        findings.append(Finding(line, "core", ", ".join(others), "", "no counterpart", note=reason))
    return findings
