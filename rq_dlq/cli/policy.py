"""`rq-dlq policy …`: what holds for which queues, set by hand, from a file, or from another broker's file."""

from __future__ import annotations

import html
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rq_dlq._work.policies import check_names
from rq_dlq.cli import _fields, _show
from rq_dlq.cli._context import PART_WAY, Context, Failure, Group, pass_context, sentence
from rq_dlq.cli._show import Column
from rq_dlq.cli.waits import preview, simulate
from rq_dlq.errors import PolicyError, RqDlqError
from rq_dlq.policy import Entry, Pattern, Source
from rq_dlq.policy.entry import NUMBERS, PARTS
from rq_dlq.policy_files import Finding, Problem, Reading, read_broker_xml, read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq.policy import QueueSettings

NAMED = 20  # problems of a file that are named
POLICIES = (Column("pattern", "bold"), Column("says", wrap=True))
ENTRIES = (Column("pattern", "bold"), Column("field"), Column("value", wrap=True))
SOURCES = (Column("field"), Column("value", "bold"), Column("source", "cyan"))
FINDINGS = (
    Column("at", "dim"), Column("in", wrap=True), Column("setting", "bold", wrap=True),
    Column("becomes", "cyan", wrap=True), Column("note", wrap=True),
)  # fmt: skip


def _renamed(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for text in given:
        name, equals, ours = text.partition("=")
        if not (name and equals and ours):
            message = f"{text!r} is not of the form QUEUE=NAME"
            raise click.BadParameter(message, ctx, param)
        renamed[name] = ours
    return renamed


file_type = click.Path(exists=True, dir_okay=False, path_type=Path)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be set, and set nothing.")


@click.group(cls=Group)
def policy() -> None:
    """Say what holds for which queues: redelivery, dead letters, expiry.

    A PATTERN is words between dots: `orders`, `orders.*` (one word more), `orders.#` (any number). All that
    match a queue are merged field by field, the most specific first. A change holds at once, also for
    messages that are queued.
    """


@policy.command("ls")
@pass_context
def ls(context: Context) -> None:
    """List the entries."""
    stored = context.broker.policies.read()
    entries = dict(sorted(stored.entries.items()))
    if context.output.format == "table":
        rows = [{"pattern": pattern, "says": _text(entry)} for pattern, entry in entries.items()]
    else:
        rows = [{"pattern": pattern, **_plain(entry)} for pattern, entry in entries.items()]
    none = "there are no policies: `rq-dlq policy set` makes one, until then the defaults hold"
    context.output.rows(rows, POLICIES, none)
    for pattern in stored.unreadable:
        context.output.say(f"what is stored for {pattern!r} cannot be read, and is passed over")


@policy.command("set")
@click.argument("pattern", required=False)
@_fields.options(_fields.ALL)
@click.option("--pin", is_flag=True, help="It beats what programs declare in code.")
@click.option(
    "--file", type=file_type, help="A TOML file with a table for each pattern, in place of all this."
)
@dry_run_option
@pass_context
def set_(
    context: Context, /, pattern: str | None, *, pin: bool, file: Path | None, dry_run: bool, **given: Any
) -> None:
    """Set the entry of PATTERN, in place of the one that stood there; what is not said is inherited."""
    said = _fields.said(_fields.ALL, given)
    if (file is None) == (pattern is None) or (file is not None and (said or pin)):
        message = "say either a PATTERN with options, or --file, which has the patterns in it"
        raise click.UsageError(message)
    if file is not None:
        _set_all(context, _toml(file), file, dry_run=dry_run)
        return
    text = Pattern.parse(pattern).text
    reading = Reading({text: Entry.of(**said, pinned=pin)})
    _set_all(context, reading, None, dry_run=dry_run)


@policy.command("rm")
@click.argument("pattern")
@pass_context
def rm(context: Context, pattern: str) -> None:
    """Remove the entry of PATTERN."""
    text = Pattern.parse(pattern).text
    stored = context.broker.policies.read()
    if text not in {*stored.entries, *stored.unreadable}:
        message = f"there is no entry for {text!r}: `rq-dlq policy ls` lists them"
        raise Failure(message)
    matched = context.broker.policies.remove(text)
    context.output.say(f"removed {text}: it matched {_show.many(matched, 'queue')}")


@policy.command("undeclare")
@click.argument("name", metavar="QUEUE")
@pass_context
def undeclare(context: Context, name: str) -> None:
    """Withdraw what programs declared in code for QUEUE, so that the entries hold alone.

    A program that still declares something does so again when it starts next.
    """
    if not context.broker.policies.undeclare(name):
        message = f"no program declared anything for {name}: `rq-dlq policy explain {name}` tells what holds"
        raise Failure(message)
    context.output.say(f"withdrew what was declared for {name}")


@policy.command("explain")
@click.argument("name", metavar="QUEUE")
@pass_context
def explain(context: Context, name: str) -> None:
    """Tell what holds for QUEUE, used or not, and where each field was said."""
    settings = context.broker.policies.explain(name)
    read = _fields.as_read if context.output.format == "table" else _as_it_is
    rows = [
        {"field": one.field, "value": read(one.field, one.value), "source": one.source}
        for one in (*settings.sources, *_places(settings))
    ]
    context.output.rows(rows, SOURCES, "")


@policy.command("import")
@click.argument("file", type=file_type)
@click.option("--map", "renamed", multiple=True, metavar="QUEUE=NAME", callback=_renamed,
              help="What a queue or pattern there is called here; may be repeated.")  # fmt: skip
@dry_run_option
@pass_context
def import_(context: Context, file: Path, renamed: Mapping[str, str], *, dry_run: bool) -> None:
    """Take over the policies of ActiveMQ Artemis' broker.xml, or of ActiveMQ Classic's activemq.xml.

    Each setting is told, with what it becomes, or why it is not needed or has no counterpart.
    """
    data = file.read_bytes()
    text = html.unescape(data.decode(errors="replace"))
    if absent := [name for name in renamed if name not in text]:
        message = f"--map: there is no {absent[0]!r} in {file}"
        raise click.UsageError(message)
    reading = read_broker_xml(data, renamed)
    _refuse(context, reading, file)
    rows = [_finding_row(finding, file, context.output.format) for finding in reading.findings]
    context.output.rows(rows, FINDINGS, "")
    missing = sum(finding.outcome == "no counterpart" for finding in reading.findings)
    if missing:
        context.output.say(f"{_show.many(missing, 'line')} above: no counterpart")
    if not reading.entries:
        context.output.say(f"there is nothing in {file} to set")
        return
    _set_all(context, reading, file, dry_run=dry_run, told=True)


for command in (preview, simulate):
    policy.add_command(command)


def _toml(file: Path) -> Reading:
    try:
        return read_toml(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return Reading(problems=[Problem(0, "", f"no UTF-8 text: {error.reason} at byte {error.start + 1}")])


def _refuse(context: Context, reading: Reading, file: Path) -> None:
    """Name what is wrong with a file.

    Raises:
        Failure: there is something.
    """
    if not reading.problems:
        return
    for problem in reading.problems[:NAMED]:
        where = f"{file}:{problem.line}" if problem.line else str(file)
        context.output.say(": ".join(filter(None, (where, problem.setting, problem.message))))
    if len(reading.problems) > NAMED:
        context.output.say(f"… and {len(reading.problems) - NAMED} more")
    message = f"{_show.many(len(reading.problems), 'problem')} in {file}, so nothing was changed"
    raise Failure(message)


def _set_all(
    context: Context, reading: Reading, file: Path | None, *, dry_run: bool, told: bool = False
) -> None:
    """Set all entries, after each of them was checked."""
    if file is not None:
        _refuse(context, reading, file)
    problems = [] if dry_run and _nowhere(context) else _taken(context, reading)
    if file is not None:
        _refuse(context, Reading(problems=problems), file)
    elif problems:
        raise PolicyError(problems[0].message)
    if dry_run:
        if not told:
            context.output.rows(_entry_rows(context, reading.entries), ENTRIES, "")
        number = len(reading.entries)
        what = "1 entry" if number == 1 else f"{number} entries"
        context.output.say(f"{what} would be set; nothing was changed (--dry-run)")
        return
    done = 0
    try:
        for pattern, entry in reading.entries.items():
            matched = context.broker.policies.put(pattern, entry)
            done += 1
            context.output.say(f"set {pattern}: it matches {_show.many(matched, 'queue')}")
    except (KeyboardInterrupt, RqDlqError) as error:
        if not done:
            raise
        why = sentence(error) or "interrupted"
        message = f"stopped part-way, after {done} of {len(reading.entries)} entries: {why}. Say it again"
        raise Failure(message, PART_WAY) from None


def _nowhere(context: Context) -> bool:
    """Whether no server was named; a dry run does not start one."""
    return not (context.url or os.environ.get("RQ_DLQ_URL"))


def _taken(context: Context, reading: Reading) -> list[Problem]:
    """Entries that give dead letters the name of a queue that there is."""
    broker, problems = context.broker, list[Problem]()
    homes, stored = broker.queues(), broker.policies.read()
    for pattern, entry in reading.entries.items():
        try:
            check_names(stored, Pattern.parse(pattern), entry, homes)
            stored = replace(stored, entries={**stored.entries, pattern: entry})
        except PolicyError as error:
            at = [
                one.line for one in reading.findings if one.pattern == pattern and one.field.endswith(".name")
            ]
            problems.append(Problem(at[-1] if at else reading.lines.get(pattern, 0), pattern, str(error)))
    return problems


def _as_it_is(where: str, value: Any) -> Any:
    del where
    return value


def _places(settings: QueueSettings) -> list[Source]:
    """The names of the queues that take what died and what expired; None: it is dropped."""
    wire, found = settings.wire(), list[Source]()
    fates: dict[str, Any] = json.loads(wire.get("dead_letter", "{}"))
    for part, name, fate in (
        ("dead_letter", settings.dead_name, fates.get("dead", "keep")),
        ("expiry", settings.expired_name, fates.get("expired", "expired")),
    ):
        place = None if fate == "discard" else settings.dead_name if fate == "dead" else name
        found.append(Source(f"{part}.queue", place, "the fields above"))
    return found


def _text(entry: Entry) -> str:
    parts: dict[str, list[str]] = {}
    for where, value in _fields.fields_of(entry).items():
        part, _, name = where.rpartition(".")
        parts.setdefault(part, []).append(f"{name} {_fields.as_read(where, value)}")
    lines = {part: ", ".join(said) for part, said in parts.items()}
    return "; ".join(f"{part}: {line}" if part else line for part, line in lines.items())


def _plain(entry: Entry) -> dict[str, Any]:
    """An entry as programs read it."""
    parts = {part: dict(getattr(entry, part)) for part in PARTS if getattr(entry, part)}
    numbers = {name: value for name, value in _fields.fields_of(entry).items() if name in NUMBERS}
    return parts | numbers | {"pinned": entry.pinned}


def _entry_rows(context: Context, entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
    shown = context.output.format == "table"
    return [
        {"pattern": pattern, "field": where, "value": _fields.as_read(where, value) if shown else value}
        for pattern, entry in entries.items()
        for where, value in _fields.fields_of(entry).items()
    ]


def _finding_row(finding: Finding, file: Path, form: str) -> dict[str, Any]:
    if form != "table":
        names = ("line", "place", "setting", "value", "outcome", "pattern", "field", "becomes", "note")
        return {"file": str(file)} | {name: getattr(finding, name) for name in names}
    becomes: str = finding.outcome
    if finding.outcome == "becomes":
        becomes = f"{finding.pattern} {finding.field} = {_fields.as_read(finding.field, finding.becomes)}"
    setting = f"{finding.setting} = {finding.value}" if finding.value else finding.setting
    return {
        "at": f"{file.name}:{finding.line}",
        "in": finding.place,
        "setting": setting,
        "becomes": becomes,
        "note": finding.note,
    }
