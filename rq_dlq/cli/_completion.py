"""Shell completion of queue names, groups of dead letters and message ids.

Completion starts no server, and prints nothing if Redis does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem

from rq_dlq.cli._context import Context
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq.client.broker import Broker
    from rq_dlq.client.queue import Queue

MOST = 50  # the most messages that are read
Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completes(find: Callable[[Broker, click.Context], Iterable[tuple[str, str]]]) -> Complete:
    """The completion function for `find`, which yields words with descriptions."""

    @wraps(find)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        from rq_dlq.client.settings import known_url  # noqa: PLC0415 - `--help` need not wait for it

        context = ctx.find_object(Context) or Context()
        try:
            if known_url(context.url) is None:
                return []
            with context.opened:
                return [
                    CompletionItem(word, help=about)
                    for word, about in find(context.broker, ctx)
                    if word.startswith(incomplete)
                ]
        except RqDlqError:
            return []

    return complete


def _queue(broker: Broker, ctx: click.Context) -> Queue[object]:
    """The queue that is already on the command line; without one, the empty name raises an error.

    While the value of an option is completed, click has not parsed the arguments: they are in `ctx.args`.
    """
    return broker.queue(ctx.params.get("name") or next(iter(ctx.args), ""))


@_completes
def queues(broker: Broker, ctx: click.Context) -> Iterable[tuple[str, str]]:
    """The queues of the namespace."""
    del ctx
    return ((name, "") for name in broker.queues())


@_completes
def groups(broker: Broker, ctx: click.Context) -> Iterable[tuple[str, str]]:
    """The groups of dead letters of the queue, the largest first."""
    return ((one.fingerprint, f"{one.count}: {one.error}") for one in _queue(broker, ctx).dlq.groups())


@_completes
def ids(broker: Broker, ctx: click.Context) -> Iterable[tuple[str, str]]:
    """The ids of the next messages of the queue, and of its oldest dead letters."""
    queue = _queue(broker, ctx)
    yield from ((message.id, "") for message in queue.peek(MOST))
    yield from ((letter.id, f"dead: {letter.reason}") for letter in queue.dlq.browse(limit=MOST))


def groups_and_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The groups of dead letters that match; if none does, message ids."""
    return groups(ctx, param, incomplete) or ids(ctx, param, incomplete)
