"""`rq-dlq dlq tail`, `export` and `import`: dead letters as a stream or as a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rq_dlq.cli import _exported, _show
from rq_dlq.cli._completion import groups
from rq_dlq.cli._context import CliCommand, CommandFailed, Context, pass_context
from rq_dlq.cli._input import opened
from rq_dlq.cli._letters import group_of, letters_of
from rq_dlq.cli._options import by_option, queue_argument, where_option
from rq_dlq.client.choosing import dead_choice
from rq_dlq.core.choosing.choice import REASONS
from rq_dlq.core.choosing.reading import read
from rq_dlq.core.choosing.rows import following
from rq_dlq.core.queues.names import members
from rq_dlq.core.sending.restore import restore
from rq_dlq.errors import InvalidInput, UnprocessableMessage
from rq_dlq.values.readable import many, some, utc_short
from rq_dlq.values.visible import visible_line
from rq_dlq.values.wanted import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rq_dlq.client.dlq import DeadLetters
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.message import DeadLetter, MessageRow

NAMED = 10  # how many lines or ids are listed
PERIOD = 0.5  # seconds between two polls

group_option = click.option(
    "--group", metavar="GROUP", shell_complete=groups, help="Only this kind of failure, from `groups`."
)
reason_option = click.option(
    "--reason", type=click.Choice(REASONS), help="Only dead letters with this reason."
)


@click.command("tail", cls=CliCommand)
@queue_argument
@group_option
@reason_option
@where_option
@click.option(
    "--lines",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many existing dead letters to write first.",
)
@pass_context
def tail(context: Context, /, name: str, *, group: str | None, lines: int, **conditions: Any) -> None:
    """Write the newest dead letters, then each new one.

    It continues until Ctrl-C.
    """
    letters = letters_of(context, name)
    try:
        for letter in _coming(letters, lines, {"group": group_of(letters, group, name), **conditions}):
            if context.output.format != "table":
                context.output.record(_show.letter_row(letter))
                continue
            cells = (utc_short(letter.died_at), letter.id, letter.fingerprint or "-")
            context.output.tell(visible_line("  ".join((*cells, letter.reason, str(letter.cause)))))
    except KeyboardInterrupt:
        return


def _coming(letters: DeadLetters[Any], lines: int, conditions: dict[str, Any]) -> Iterator[DeadLetter[Any]]:
    """The newest dead letters, in the order in which they died; then each new one, without end.

    A message that dies in the same millisecond as the last one is not missed: each poll begins with it.
    """
    newest = letters.browse(limit=1, order="newest")
    since = newest[0].died_at if newest else None
    seen = {letter.id for letter in (letters.browse(limit=None, since=since) if since else [])}
    yield from reversed(letters.browse(limit=lines, order="newest", **conditions) if lines else [])
    while True:
        found = letters.browse(limit=None, since=since, **conditions)
        yield from (letter for letter in found if letter.id not in seen)
        if found:
            latest = max(letter.died_at for letter in found)
            kept = seen if latest == since else set[str]()
            since, seen = latest, kept | {letter.id for letter in found if letter.died_at == latest}
        time.sleep(PERIOD)


@click.command("export", cls=CliCommand)
@queue_argument
@group_option
@reason_option
@where_option
@pass_context
def export(context: Context, /, name: str, *, group: str | None, **conditions: Any) -> None:
    """Write the dead letters of a queue to stdout.

    Each is a line of JSON, with its body and its history: `rq-dlq dlq import` restores them.
    """
    letters = letters_of(context, name)
    where = conditions.pop("where")
    choice = dead_choice({"group": group_of(letters, group, name), **conditions}, where=where)
    queues = context.broker._run(members(letters._core))
    reading = read(queues, choice, ALL)
    done, damaged = 0, list[str]()
    while page := context.broker._run(following(reading)):
        for row, letter in zip(page.rows, page.messages, strict=True):
            try:
                line = _show.as_json(_exported.exported(row, letter))
            except UnprocessableMessage:
                damaged.append(letter.id)
            else:
                context.output.stdout.out(line, highlight=False)
                done += 1
    context.output.say(f"exported {many(done, 'dead letter')} of {name}")
    if damaged:
        which = some(damaged, NAMED)
        raise CommandFailed(f"{many(len(damaged), 'damaged message')} could not be exported: {which}")


@click.command("import", cls=CliCommand)
@queue_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@by_option
@pass_context
def import_(context: Context, name: str, file: str, by: str | None) -> None:
    """Import dead letters from `export` into a queue.

    They are read from FILE or from stdin (-), and are dead as before: the same ids, bodies, headers, times
    and histories. An existing message with the same id is not changed. If a line is not a dead letter,
    nothing is imported.
    """
    queue = context.broker.queue(context.broker.settings.naming.resolve(name).family)._core
    with opened(None if file == "-" else Path(file)) as source:
        total = _check(context, source, queue)
        source.seek(0)
        known = context.broker._run(restore(queue, _rows(source, queue), by))
    context.output.say(f"imported {many(total - len(known), 'dead letter')} into {name}")
    if known:
        which = some(known, NAMED)
        context.output.say(f"{many(len(known), 'id')} already in the queue, not changed: {which}")


def _rows(source: IO[bytes], queue: QueueState[Any]) -> Iterator[MessageRow]:
    """The rows that the lines describe."""
    return (_exported.read(line, number, queue) for number, line in enumerate(source) if line.strip())


def _check(context: Context, source: IO[bytes], queue: QueueState[Any]) -> int:
    """Check all lines; returns the number of dead letters.

    Raises:
        CommandFailed: some lines are not dead letters.
    """
    good = bad = 0
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            _exported.read(line, number, queue)
            good += 1
        except InvalidInput as error:
            bad += 1
            if bad <= NAMED:
                context.output.say(f"line {number}: {error}")
    if bad > NAMED:
        context.output.say(f"… and {bad - NAMED:,} more")
    if bad:
        raise CommandFailed(f"{many(bad, 'bad line')}, so nothing was imported")
    return good
