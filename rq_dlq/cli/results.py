"""`rq-dlq msg result`: the return value of a handler."""

from __future__ import annotations

import click
import msgspec

from rq_dlq.cli._context import CliCommand, CommandFailed, Context, pass_context
from rq_dlq.cli._options import queue_argument, seconds
from rq_dlq.errors import ResultError, ResultUnavailable


@click.command("result", cls=CliCommand, short_help="Print a message's result.")
@queue_argument
@click.argument("message_id", metavar="ID")
@click.option(
    "--wait",
    metavar="SPAN",
    default="0s",
    show_default=True,
    callback=seconds(0),
    help="How long to wait for the result.",
)
@pass_context
def result(context: Context, /, name: str, message_id: str, *, wait: float) -> None:
    """Print the result of a message, or how the message ended without one."""
    try:
        value = context.broker.queue(name).result(message_id, wait=wait or None)
    except (ResultError, ResultUnavailable) as error:
        raise CommandFailed(str(error), error=error) from None
    shown = value.decode(errors="replace") if isinstance(value, bytes) else value
    text = shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
    context.output.either(text, {"queue": name, "id": message_id, "result": shown})
