"""Options that choose dead letters, and the code that finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli._context import CommandFailed, Context, pass_context
from rq_dlq.cli._options import (
    all_option,
    exactly_one,
    queue_argument,
    tell_left,
    where_option,
    yes_option,
)
from rq_dlq.cli._show import left_leased
from rq_dlq.cli.queues import family_of, is_view
from rq_dlq.client.dlq import DeadLetters
from rq_dlq.core.choosing.choice import is_group

if TYPE_CHECKING:
    from rq_dlq.values.changed import Changed

ids_option = click.option(
    "--id", "ids", multiple=True, metavar="ID", help="The id of a dead letter; may be repeated."
)


def bulk(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose dead letters by ids, by a condition, or all."""
    for option in (yes_option, all_option, where_option, ids_option, queue_argument):
        function = option(function)
    return pass_context(function)


def check(chosen: dict[str, Any], own: tuple[str, object]) -> None:
    """Check that exactly one option chooses messages."""
    others = (("--id", chosen["ids"]), ("--where", chosen["where"]), ("--all", chosen["everything"]))
    exactly_one("dead letters", own, *others)


def these(chosen: dict[str, Any]) -> dict[str, Any]:
    """The chosen ids, or all, as arguments of a verb."""
    return {"ids": chosen["ids"] or None, "all": chosen["everything"]}


def all_found(context: Context, chosen: dict[str, Any], done: Changed) -> None:
    """Report how many dead letters are being processed, and how many ids are not dead letters.

    Raises:
        CommandFailed: a message that was named by its id is one of these.
    """
    left = [left_leased(done.leased)] if done.leased else []
    missing = len(set(chosen["ids"])) - done - done.leased
    if chosen["ids"] and missing > 0:
        are = "is not a dead letter" if missing == 1 else "are not dead letters"
        left.append(f"{missing:,} of the ids {are} of this queue")
    tell_left(context, left, named=bool(chosen["ids"]))


def letters_of(context: Context, name: str) -> DeadLetters[Any]:
    """The dead or expired messages that a queue name means."""
    if is_view(context, name):
        return DeadLetters(context.broker.queue(name)._core, context.broker)
    queue = context.broker.queue(family_of(context, name))
    part = context.broker.settings.naming.resolve(name).part
    return queue.expired if part == "expired" else queue.dlq


def group_of(letters: DeadLetters[Any], given: str | None, name: str) -> str | None:
    """The fingerprint, if the group exists.

    Raises:
        CommandFailed: it does not exist.
    """
    if given is not None and not (is_group(given) and letters.browse(group=given, limit=1)):
        message = f"there is no group {given!r}: `rq-dlq dlq groups {name}` lists them"
        raise CommandFailed(message)
    return given
