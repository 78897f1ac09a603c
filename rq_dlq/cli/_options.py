"""Arguments and options that several commands share, and their checks."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import CommandFailed, Context
from rq_dlq.errors import InvalidDuration
from rq_dlq.filters._facts import is_field
from rq_dlq.values.durations import milliseconds
from rq_dlq.values.masks import USUAL
from rq_dlq.values.readable import many, utc

if TYPE_CHECKING:
    from rq_dlq.client.dependency import Dependency
    from rq_dlq.client.key import Key
    from rq_dlq.client.plan import Plan
    from rq_dlq.client.queue import Queue
    from rq_dlq.values.changed import CarriedOut

QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
COMPARED = re.compile(r"[=<>]\s*([A-Za-z_$][\w.$-]*)")
NO_TEXT = {"TRUE", "FALSE", "NULL"}


def _where(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The condition. Prints a note if a word lacks its quotes, as in --where 'tenant = 'a''."""
    del ctx, param
    for word in COMPARED.findall(QUOTED.sub("''", text or "")):
        if not (is_field(word) or word.startswith("body.") or word.upper() in NO_TEXT):
            click.echo(
                f"{word} has no quotes, so it is the header of that name; the text is '{word}'", err=True
            )
    return text


queue_argument = click.argument("name", metavar="QUEUE", shell_complete=queues)
where_option = click.option(
    "--where",
    metavar="EXPR",
    callback=_where,
    help="Only messages that meet this: \"tenant = 'a' and delivery_count > 2\".",
)
all_option = click.option("--all", "everything", is_flag=True, help="All of them.")
mask_option = click.option(
    "--mask", multiple=True, metavar="FIELD",
    help=(
        f"Hide the values of fields with this in their names, in addition to {', '.join(USUAL)}; may be "
        "repeated."
    ),
)  # fmt: skip
key_option = click.option("--key", "key_text", metavar="K", help="Only messages with this key.")
dependency_option = click.option("--dependency", metavar="D", help="Only messages with this dependency.")
by_option = click.option(
    "--by", metavar="NAME", help="The operator's name, for the audit; default user@host."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def _keep_log_format(ctx: click.Context, param: click.Parameter, value: str) -> None:
    del param
    ctx.ensure_object(Context).log_format = value


log_format_option = click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    expose_value=False,
    callback=_keep_log_format,
    help="The format of the log on stderr; json: one object per line.",
)


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation before a bulk change.

    Args:
        what: the change, as the start of a question.
        yes: the user passed --yes.

    Raises:
        UsageError: there is no terminal, and --yes is missing.
        Abort: the answer is no.
    """
    if yes:
        return
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise click.UsageError(f"{what}? There is no terminal to confirm this on: add --yes to do it.")
    click.confirm(f"{what}?", abort=True, err=True)


def carry_out(context: Context, plan: Plan[CarriedOut], done: str, what: str, by: str | None) -> CarriedOut:
    """Do what was confirmed, and nothing more; tell how that differs from the question.

    Args:
        done: the words before the number.
        what: the noun after it.
    """
    told = plan.carry_out(by=by)
    number = many(told.changed, what)
    if told.changed < told.planned:
        number = f"{told.changed:,} of {many(told.planned, what)}"
    context.output.say("; ".join([f"{done} {number}", *told.differences]))
    return told


def tell_left(context: Context, left: Sequence[str], *, named: bool) -> None:
    """Report the chosen messages that a verb did not change.

    Raises:
        CommandFailed: they were named by their ids.
    """
    if named and left:
        raise CommandFailed("\n".join(left))
    for line in left:
        context.output.say(line)


def seconds(minimum: int = 1) -> Callable[[click.Context, click.Parameter, str], float]:
    """The callback of an option for a duration in seconds. The minimum is in milliseconds."""

    def read(ctx: click.Context, param: click.Parameter, text: str) -> float:
        try:
            return milliseconds(text, name=param.opts[0], minimum=minimum) / 1000
        except InvalidDuration as error:
            text = str(error).removeprefix(f"{param.opts[0]}: ")  # click also names the option
            raise click.BadParameter(text, ctx, param) from None

    return read


class Number(click.FloatRange):
    """A number within bounds. NaN, which no bound excludes, is also refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def end(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | str | None:
    """The value of an option for the end of a pause: a time, or a duration as text."""
    del ctx, param
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return text  # a duration
    return found.astimezone() if found is not None and found.tzinfo is None else found


def until_then(until: datetime | str | None) -> str:
    """What `end` has read, as it follows "is paused": " until …" or " for 2h"; None: empty."""
    if until is None:
        return ""
    return f" until {utc(until)}" if isinstance(until, datetime) else f" for {until}"


def time(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    """The value of an option for a time; without a zone it is this machine's."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone()
    except ValueError:
        message = f'{text!r} is not a time: pass one such as "2026-12-24 18:00" or "2026-12-24T18:00+01:00"'
        raise click.BadParameter(message, ctx, param) from None


def exactly_one(what: str, *options: tuple[str, object]) -> None:
    """Check that exactly one of these options, each a name with its value, chooses `what`.

    Raises:
        UsageError: none of them was passed, or more than one.
    """
    if sum(value not in (None, (), False) for _, value in options) != 1:
        raise click.UsageError(f"choose {what} with exactly one of {', '.join(name for name, _ in options)}")


def pairs(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The values of an option in the form NAME=VALUE, by name."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{text!r} is not of the form {param.metavar}", ctx, param)
        found[name] = value
    return found


def address(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, int] | None:
    """An address to listen on: HOST:PORT, or a port on loopback; an IPv6 host is in brackets."""
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not (host and port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        message = f"{text!r} is not an address: pass HOST:PORT, such as 0.0.0.0:8081, or PORT on 127.0.0.1"
        raise click.BadParameter(message, ctx, param)
    return host, int(port)


def part_of(
    queue: Queue[Any], key_text: str | None, dependency: str | None
) -> tuple[str, str, Queue[Any] | Key | Dependency]:
    """The target of a pause or resume: its name, the options that name it, and the object."""
    if key_text is not None and dependency is not None:
        raise CommandFailed("pass --key or --dependency, not both")
    if key_text is not None:
        return f"key {key_text} of {queue.name}", f" --key {shlex.quote(key_text)}", queue.key(key_text)
    if dependency is not None:
        options = f" --dependency {shlex.quote(dependency)}"
        return f"{dependency} in {queue.name}", options, queue.dependency(dependency)
    return queue.name, "", queue


import_timeout_option = click.option(
    "--import-timeout",
    callback=seconds(),
    default="1m",
    metavar="SPAN",
    show_default=True,
    help="The longest time for importing the app.",
)
