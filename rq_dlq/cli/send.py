"""`rq-dlq send`: messages from a file or a pipe."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import PART_WAY, CliCommand, CommandFailed, Context, pass_context, sentence
from rq_dlq.cli._input import READERS, Parsed, opened, stdin
from rq_dlq.cli._options import pairs, time
from rq_dlq.cli._progress import progress_bar
from rq_dlq.core.sending.calls import send as plain
from rq_dlq.core.sending.packing import MODES
from rq_dlq.core.sending.send import send_options
from rq_dlq.core.sending.windows import check_named
from rq_dlq.errors import InvalidInput, InvalidMessage, RqDlqError
from rq_dlq.values.codec import DEFAULT_PRIORITY, Codec
from rq_dlq.values.message import Message
from rq_dlq.values.readable import many

if TYPE_CHECKING:
    from rq_dlq.client.queue import Queue

BATCH = 1_000  # messages in one call
NAMED = 10  # how many bad lines are listed
MANY = 10_000  # a progress bar is shown from this many messages


class _MessagesPath(click.Path):
    """A file of messages. The error for a missing file shows how to send a single message."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check that the file exists."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            pipe = f"echo {shlex.quote(value)} | rq-dlq send QUEUE"
            self.fail(f"{error.message} To send a single message, pipe it: {pipe}", param, ctx)


@click.command(cls=CliCommand)
@click.argument("name", metavar="QUEUE", shell_complete=queues)
@click.argument("file", required=False, type=_MessagesPath(exists=True, dir_okay=False, allow_dash=True))
@click.option("--jsonl", is_flag=True, help="Each line is a JSON value.")
@click.option(
    "--csv",
    is_flag=True,
    help="Each row is an object with the names of the first row; cells become numbers, null or text.",
)
@click.option("--delay", metavar="SPAN", help='Deliver only after this time: "5s", "1h30m".')
@click.option(
    "--at", metavar="TIME", callback=time, help='Deliver at this time: "2026-12-24 18:00", "…+01:00".'
)
@click.option("--ttl", metavar="SPAN", help="Expire messages that are still waiting after this time.")
@click.option(
    "--expires-at", metavar="TIME", callback=time, help="Expire messages that are still waiting at this time."
)
@click.option(
    "--priority",
    type=click.IntRange(0, 9),
    default=DEFAULT_PRIORITY,
    show_default=True,
    help="0 last, 9 first.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="K=V",
    callback=pairs,
    help="A header of each message; may be repeated.",
)
@click.option("--key", help="The key of each message, by which a queue may order or limit them.")
@click.option("--dependency", help="The dependency of the work, by which a queue may detect an outage.")
@click.option("--id", "message_id", metavar="ID", help="The id of the message, of which there is one.")
@click.option("--id-field", metavar="NAME", help="Each message's id is this field of its object.")
@click.option(
    "--on-duplicate",
    type=click.Choice(MODES),
    default="drop",
    show_default=True,
    help="What happens to a message whose id is known: with --id or --id-field.",
)
@click.option(
    "--max-delay", metavar="SPAN", help="With debounce, the longest wait since the first send: 10m."
)
@click.option("--result", is_flag=True, help="Keep the results of their handlers, for `msg result`.")
@click.option(
    "--skip-bad",
    is_flag=True,
    help="Skip lines that are not messages. Without this, one such line stops the command.",
)
@click.option("--ids", is_flag=True, help="Also write the id of each message.")
@pass_context
def send(
    context: Context,
    /,
    name: str,
    file: str | None,
    *,
    jsonl: bool,
    csv: bool,
    skip_bad: bool,
    ids: bool,
    message_id: str | None,
    id_field: str | None,
    **options: Any,
) -> None:
    """Send messages, one per line, from FILE or from stdin (-).

    Each line is a body, unchanged, unless you pass --jsonl or --csv.
    """
    if jsonl and csv:
        raise click.UsageError("a file is either --jsonl or --csv")
    if message_id is not None and id_field is not None:
        raise click.UsageError("an id is either --id or --id-field")
    if message_id is None and id_field is None and send_options(**options).call is not plain:
        check_named(None)
    form = "jsonl" if jsonl else "csv" if csv else "text"
    path = None if file in (None, "-") else Path(str(file))
    queue = context.broker.queue(name)
    if path is None and stdin().isatty():
        context.output.say("one message per line; Ctrl-D ends the input, Ctrl-C sends nothing")
    with opened(path) as source:
        read = partial(_messages, context, source, form, {**options, "id": message_id, "field": id_field})
        total, skipped = _check(context, read(), skip_bad=skip_bad)
        if message_id is not None and total > 1:
            raise CommandFailed(f"--id is the id of one message, and there are {total:,}: use --id-field")
        bodies = (body for _, body in read() if not isinstance(body, InvalidInput))
        names: list[str] = []
        known = Counter[str]()
        write = partial(_ids, context, names) if ids else None
        sent = _send(context, queue, bodies, total, options, known=known, ids=write)
    _tell(context, {"queue": name, "sent": sent - known.total(), "skipped": skipped}, known, names)


def _tell(context: Context, record: dict[str, Any], known: Counter[str], names: list[str]) -> None:
    """Say how many were sent, and what was done to those that were known."""
    if context.output.format == "table":
        words = ", ".join(f"{word}: {count:,}" for word, count in sorted(known.items()))
        told = f"; {many(known.total(), 'id')} known ({words})" if known else ""
        context.output.say(f"sent {many(record['sent'], 'message')} to {record['queue']}{told}")
        return
    record |= {"known": dict(known)} if known else {}
    context.output.record(record | {"ids": names} if names else record)


def _ids(context: Context, known: list[str], new: Sequence[str]) -> None:
    """Write the ids of a batch, or collect them for a JSON document."""
    match context.output.format:
        case "json":
            known += map(str, new)
        case "jsonl":
            for message_id in new:
                context.output.record({"id": str(message_id)})
        case _:
            context.output.stdout.out("\n".join(new), highlight=False)


def _messages(context: Context, source: IO[bytes], form: str, options: dict[str, Any]) -> Iterator[Parsed]:
    """All lines, each with its body, or with the reason why it is not a message."""
    codec = Codec[Any](Any, context.broker.settings.max_message_bytes)
    source.seek(0)
    for line, body in READERS[form](source):
        try:
            if not isinstance(body, InvalidInput):
                named = {of: options[of] for of in ("key", "dependency")}
                codec.packer(options["priority"], options["headers"], **named)(body)
                if options["id"] is not None or options["field"] is not None:
                    yield line, Message(body, id=_id_of(body, options))
                    continue
            yield line, body
        except InvalidInput as error:
            yield line, error


def _id_of(body: Any, options: dict[str, Any]) -> str:
    if options["id"] is not None:
        return str(options["id"])
    found = body.get(options["field"]) if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    if not isinstance(found, str | int) or isinstance(found, bool):
        raise InvalidMessage(f"no text or whole number in the field {options['field']!r}, which is its id")
    return str(found)


def _check(context: Context, lines: Iterator[Parsed], *, skip_bad: bool) -> tuple[int, int]:
    """Check all lines without sending; returns how many are messages, and how many are not.

    Raises:
        CommandFailed: some are not messages, without --skip-bad.
    """
    good = bad = 0
    for line, body in lines:
        if not isinstance(body, InvalidInput):
            good += 1
            continue
        bad += 1
        if bad <= NAMED:
            context.output.say(f"line {line}: {body}")
    if bad > NAMED:
        context.output.say(f"… and {bad - NAMED:,} more")
    if bad:
        found, them, are = "1 line is not a message", "it", "is"
        if bad > 1:
            found, them, are = f"{bad:,} lines are not messages", "them", "are"
        if not skip_bad:
            raise CommandFailed(f"{found}, so nothing was sent: correct {them}, or pass --skip-bad")
        context.output.say(f"{found}, and {are} skipped")
    return good, bad


def _send(
    context: Context,
    queue: Queue[Any],
    bodies: Iterator[Any],
    total: int,
    options: dict[str, Any],
    *,
    known: Counter[str],
    ids: Callable[[Sequence[str]], object] | None,
) -> int:
    """Send in batches; returns how many.

    Args:
        known: counts what was done to those whose ids the queue knew, or where they are.

    Raises:
        CommandFailed: it stopped part-way; the error says how many messages were sent.
    """
    sent = 0
    queue.stats()  # connects now, so that its warnings come before the progress bar
    try:
        with progress_bar(context.output.stderr, "sending", shown=total >= MANY) as progress:
            progress(0, total)
            while batch := list(islice(bodies, BATCH)):
                new = queue.send_many(batch, **options)
                if ids is not None:
                    ids(new)
                known.update(one.did or one.known or "unknown" for one in new if one.new is False)
                sent += len(batch)
                progress(sent, total)
    except (KeyboardInterrupt, RqDlqError) as error:
        if not sent and isinstance(error, RqDlqError):
            raise
        why = sentence(error) or "interrupted"
        more = min(BATCH, total - sent)
        message = f"stopped part-way, after {sent:,} of {total:,} messages (or up to {more:,} more): {why}"
        raise CommandFailed(message, PART_WAY, error) from None
    return sent
