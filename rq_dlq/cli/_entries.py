"""Checks entries of the map of policies, from the command line or a file, and then sets them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rq_dlq.cli import _fields
from rq_dlq.cli._context import PART_WAY, CommandFailed, Context, notes, sentence
from rq_dlq.cli._progress import progress_bar
from rq_dlq.cli._show import Column
from rq_dlq.client.settings import known_url
from rq_dlq.core.policies.given_names import check_names
from rq_dlq.errors import PolicyError, RqDlqError
from rq_dlq.policy import Entry, Pattern
from rq_dlq.policy.readable import as_read
from rq_dlq.policy_files import Problem, Reading
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible

NAMED: Final = 20  # how many problems of a file are shown
ENTRIES: Final = (Column("pattern", "bold"), Column("field"), Column("value", wrap=True))


def refuse(context: Context, reading: Reading, file: Path) -> None:
    """Show the problems of a file.

    Raises:
        CommandFailed: it has problems.
    """
    if not reading.problems:
        return
    for problem in reading.problems[:NAMED]:
        where = f"{file}:{problem.line}" if problem.line else str(file)
        context.output.say(": ".join(filter(None, (where, problem.setting, problem.message))))
    if len(reading.problems) > NAMED:
        context.output.say(f"… and {len(reading.problems) - NAMED} more")
    raise CommandFailed(f"{many(len(reading.problems), 'problem')} in {file}, so nothing was changed")


def set_all(
    context: Context,
    reading: Reading,
    file: Path | None,
    *,
    dry_run: bool,
    by: str | None,
    shown: bool = False,
) -> None:
    """Set all entries, after checking each of them.

    Args:
        file: the file with the entries; None: they are from options.
        dry_run: only show the entries.
        by: the operator's name, for the audit.
        shown: the entries have already been shown.

    Raises:
        CommandFailed: the file has problems; or only some entries were set.
        PolicyError: an entry from options cannot be set.
    """
    if file is not None:
        refuse(context, reading, file)
    has_server = known_url(context.url)  # a dry run does not start one
    problems = _unusable(context, reading) if has_server or not dry_run else []
    if file is not None:
        refuse(context, Reading(problems=problems), file)
    elif problems:
        raise PolicyError(problems[0].message)
    if dry_run:
        _would_set(context, {} if shown else reading.entries, len(reading.entries))
        return
    before, policies = context.broker.policies.read().entries, context.broker.policies
    each = {pattern: partial(policies.put, pattern, entry) for pattern, entry in reading.entries.items()}
    for pattern in _set_each(context, each, by):
        _say_gone(context, before.get(pattern), reading.entries[pattern])


def _set_each(context: Context, each: Mapping[str, Callable[..., int]], by: str | None) -> Iterator[str]:
    """Set entries, by their patterns; yields each pattern when that is done.

    Raises:
        CommandFailed: only some were set.
    """
    done = 0
    try:
        for pattern, put in each.items():
            with progress_bar(context.output.stderr, f"setting {visible(pattern)}") as progress:
                matched = put(progress=progress, by=by)
            done += 1
            context.output.say(f"set {pattern}: it matches {many(matched, 'queue')}")
            yield pattern
    except (KeyboardInterrupt, RqDlqError) as error:
        if not done and not notes(error):
            raise
        why = sentence(error) or "interrupted"
        raise CommandFailed(
            f"stopped part-way, after {done} of {len(each)} entries: {why}. Repeat the command",
            PART_WAY,
            error,
        ) from None


def set_fields(
    context: Context, pattern: str, fields: Mapping[str, Any], *, dry_run: bool, by: str | None
) -> None:
    """Set fields of an entry; the others stay.

    Args:
        fields: the arguments of `Entry.over`.
        dry_run: only show the entry as it would be.
    """
    policies = context.broker.policies if known_url(context.url) or not dry_run else None
    if dry_run:
        before = None if policies is None else policies.read().entries.get(pattern)
        entries = {pattern: Entry.over(before, **fields)}
        if policies is not None and (problems := _unusable(context, Reading(entries))):
            raise PolicyError(problems[0].message)
        _would_set(context, entries, 1)
        return
    each = {pattern: partial(context.broker.policies.set, pattern, **fields)}
    deque(_set_each(context, each, by), maxlen=0)


def _would_set(context: Context, entries: Mapping[str, Entry], number: int) -> None:
    """Show the entries of a dry run."""
    if entries:
        rows = [
            {"pattern": pattern, "field": where, "value": _fields.shown(context, where, value)}
            for pattern, entry in entries.items()
            for where, value in _fields.fields_of(entry).items()
        ]
        context.output.rows(rows, ENTRIES, "")
    what = many(number, "entry", "entries")
    context.output.say(f"{what} would be set; nothing was changed (--dry-run)")


def _say_gone(context: Context, before: Entry | None, entry: Entry) -> None:
    """Tell the user which fields of the previous entry were removed, in case they meant to keep them."""
    fields, now = _fields.fields_of(before) if before is not None else {}, _fields.fields_of(entry)
    gone = [f"{where} {as_read(where, value)}" for where, value in fields.items() if where not in now]
    if gone:
        context.output.say(
            f"the previous entry also set {', '.join(gone)}: to keep these fields, pass them, too"
        )


def _unusable(context: Context, reading: Reading) -> list[Problem]:
    """Problems with names of dead-letter or expiry queues that are not allowed."""
    broker, problems = context.broker, list[Problem]()
    families, stored = broker.queues(), broker.policies.read()
    for pattern, entry in reading.entries.items():
        try:
            check_names(stored, Pattern.parse(pattern), entry, families)
            stored = replace(stored, entries={**stored.entries, pattern: entry})
        except PolicyError as error:
            at = [
                one.line for one in reading.findings if one.pattern == pattern and one.field.endswith(".name")
            ]
            problems.append(Problem(at[-1] if at else reading.lines.get(pattern, 0), pattern, str(error)))
    return problems
