"""`rq-dlq policy …`: the policies of queues, from options, a file, or another broker's file."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _fields, _show
from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import CliGroup, CommandFailed, Context, pass_context
from rq_dlq.cli._entries import refuse, set_all, set_fields
from rq_dlq.cli._options import by_option, pairs
from rq_dlq.cli._progress import progress_bar
from rq_dlq.cli._show import Column
from rq_dlq.cli.waits import preview, simulate
from rq_dlq.policy import Entry, Pattern, Source
from rq_dlq.policy.readable import as_read, in_a_line
from rq_dlq.policy_files import Finding, Problem, Reading, read_broker_xml, read_toml
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible

if TYPE_CHECKING:
    from rq_dlq.policy import QueueSettings

POLICIES = (Column("pattern", "bold"), Column("says", wrap=True))
SOURCES = (Column("field"), Column("value", "bold"), Column("source", "cyan"))
PAGE_WIDTH = 120  # columns of a table of long texts
FINDINGS = (
    Column("at", "dim"), Column("in", cut=True), Column("setting", "bold", wrap=True, below=True),
    Column("becomes", "cyan", wrap=True, below=True), Column("note", wrap=True, below=True),
)  # fmt: skip


file_type = click.Path(exists=True, dir_okay=False, path_type=Path)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the changes, without setting anything.")


@click.group(cls=CliGroup)
def policy() -> None:
    """Set the policies of queues: redelivery, dead letters, expiry.

    A PATTERN has words between dots: `orders`, `orders.*` (one more word), `orders.#` (any number). All
    entries that match a queue are merged field by field, the most specific first. A change applies
    immediately, including to messages already in the queue.
    """


@policy.command("ls")
@pass_context
def ls(context: Context) -> None:
    """List the entries."""
    stored = context.broker.policies.read()
    entries = dict(sorted(stored.entries.items()))
    if context.output.format == "table":
        rows: list[_show.Row] = [
            {"pattern": pattern, "says": in_a_line(_fields.fields_of(entry))}
            for pattern, entry in entries.items()
        ]
    else:
        rows = [
            {"pattern": pattern, **entry.stored, "pinned": entry.pinned} for pattern, entry in entries.items()
        ]
    none = "there are no policies, so the defaults apply: `rq-dlq policy set` makes one"
    context.output.rows(rows, POLICIES, none)
    for pattern in stored.unreadable:
        context.output.say(f"the entry of {pattern!r} cannot be read, so it is ignored")


@policy.command("set")
@click.argument("pattern", required=False)
@_fields.options(_fields.ALL)
@click.option("--pin/--no-pin", default=None, help="Override what programs declare in code.")
@click.option("--replace", is_flag=True, help="Remove all fields of an earlier entry that are not passed.")
@click.option(
    "--file",
    type=file_type,
    help="A TOML file with a table for each pattern, instead of PATTERN and options.",
)
@dry_run_option
@by_option
@pass_context
def set_(
    context: Context,
    /,
    pattern: str | None,
    *,
    pin: bool | None,
    replace: bool,
    file: Path | None,
    dry_run: bool,
    by: str | None,
    **given: Any,
) -> None:
    """Set fields of the entry of PATTERN; its other fields stay.

    The word `none` turns a field off: the queue then has none, even if a wider pattern sets one. With
    --replace, fields that are not passed are removed, and inherited again. A --file always replaces the
    entries that it has.
    """
    fields = _fields.passed(_fields.ALL, given)
    if (file is None) == (pattern is None) or (file is not None and (fields or pin is not None or replace)):
        raise click.UsageError("pass either a PATTERN with options, or a --file with patterns")
    if file is not None:
        set_all(context, _toml(file), file, dry_run=dry_run, by=by)
        return
    if not fields and (pin is None or replace):
        raise click.UsageError("the entry sets nothing: pass a field, such as --max-redeliveries 5")
    text = Pattern.parse(pattern).text
    if replace:
        set_all(context, Reading({text: Entry.of(**fields, pinned=bool(pin))}), None, dry_run=dry_run, by=by)
    else:
        set_fields(context, text, {**fields, "pinned": pin}, dry_run=dry_run, by=by)


@policy.command("rm")
@click.argument("pattern")
@by_option
@pass_context
def rm(context: Context, pattern: str, by: str | None) -> None:
    """Remove the entry of PATTERN."""
    text = Pattern.parse(pattern).text
    stored = context.broker.policies.read()
    with progress_bar(context.output.stderr, f"removing {visible(text)}") as progress:
        matched = context.broker.policies.remove(text, progress=progress, by=by)
    if text not in {*stored.entries, *stored.unreadable}:  # or an earlier removal was interrupted
        rest = f". The settings without it apply to {many(matched, 'queue')}" if matched else ""
        raise CommandFailed(f"there is no entry for {text!r}: `rq-dlq policy ls` lists them{rest}")
    context.output.say(f"removed {text}: it matched {many(matched, 'queue')}")


@policy.command("undeclare")
@click.argument("name", metavar="QUEUE", shell_complete=queues)
@by_option
@pass_context
def undeclare(context: Context, name: str, by: str | None) -> None:
    """Remove the settings that programs declared in code for QUEUE.

    After that only the entries apply. A program that declares settings declares them again at its next start.
    """
    if not context.broker.policies.undeclare(name, by=by):
        raise CommandFailed(
            f"no program declared settings for {name}: `rq-dlq policy explain {name}` shows the settings in "
            "force"
        )
    context.output.say(f"removed the settings declared for {name}")


@policy.command("explain")
@click.argument("name", metavar="QUEUE", shell_complete=queues)
@pass_context
def explain(context: Context, name: str) -> None:
    """Show the policy of QUEUE, and the source of each field.

    The queue need not exist.
    """
    settings = context.broker.policies.explain(name)
    rows = [
        {"field": one.field, "value": _fields.shown(context, one.field, one.value), "source": one.source}
        for one in (*settings.sources, *_places(settings))
    ]
    context.output.rows(rows, SOURCES, "")


@policy.command("import")
@click.argument("file", type=file_type)
@click.option("--map", "renamed", multiple=True, metavar="QUEUE=NAME", callback=pairs,
              help="A new name for a queue or pattern in FILE; may be repeated.")  # fmt: skip
@dry_run_option
@by_option
@pass_context
def import_(
    context: Context, file: Path, renamed: Mapping[str, str], *, dry_run: bool, by: str | None
) -> None:
    """Import the policies of an ActiveMQ broker.

    FILE is the broker.xml of Artemis or the activemq.xml of Classic. The output lists each setting with its
    equivalent here, or why it is not needed or has no counterpart.
    """
    data = file.read_bytes()
    text = html.unescape(data.decode(errors="replace"))
    if absent := [name for name in renamed if name not in text]:
        raise click.UsageError(f"--map: there is no {absent[0]!r} in {file}")
    reading = read_broker_xml(data, renamed)
    refuse(context, reading, file)
    context.output.stdout.width = min(context.output.stdout.width, PAGE_WIDTH)  # even if stdout is a file
    rows = [_finding_row(finding, file, context.output.format) for finding in reading.findings]
    context.output.rows(rows, FINDINGS, "")
    missing = sum(finding.outcome == "no counterpart" for finding in reading.findings)
    if missing:
        context.output.say(
            f"{many(missing, 'line')} above {'has' if missing == 1 else 'have'} no counterpart"
        )
    if not reading.entries:
        context.output.say(f"there is nothing in {file} to set")
        return
    set_all(context, reading, file, dry_run=dry_run, by=by, shown=True)


for command in (preview, simulate):
    policy.add_command(command)


def _toml(file: Path) -> Reading:
    try:
        return read_toml(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return Reading(problems=[Problem(0, "", f"not UTF-8: {error.reason} at byte {error.start + 1}")])


def _places(settings: QueueSettings) -> list[Source]:
    """The queues for dead letters and expired messages; None: they are dropped."""
    wire, found = settings.wire(), list[Source]()
    fates: dict[str, Any] = json.loads(wire.get("dead_letter", "{}"))
    for part, name, fate in (
        ("dead_letter", settings.dead_name, fates.get("dead", "keep")),
        ("expiry", settings.expired_name, fates.get("expired", "expired")),
    ):
        place = None if fate == "discard" else settings.dead_name if fate == "dead" else name
        found.append(Source(f"{part}.queue", place, "the fields above"))
    return found


def _finding_row(finding: Finding, file: Path, form: str) -> dict[str, Any]:
    if form != "table":
        names = ("line", "place", "setting", "value", "outcome", "pattern", "field", "becomes", "note")
        return {"file": str(file)} | _show.attributes(finding, *names)
    becomes: str = finding.outcome
    if finding.outcome == "becomes":
        becomes = f"{finding.pattern} {finding.field} = {as_read(finding.field, finding.becomes)}"
    setting = f"{finding.setting} = {finding.value}" if finding.value else finding.setting
    return {
        "at": f"{file.name}:{finding.line}",
        "in": finding.place,
        "setting": setting,
        "becomes": becomes,
        "note": finding.note,
    }
