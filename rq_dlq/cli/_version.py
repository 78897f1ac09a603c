"""`rq-dlq --version`: this version, what it works with, and how the server that is named runs its verbs."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli._context import Context, sentence
from rq_dlq.errors import RqDlqError
from rq_dlq.values.version import OLDEST_READER, OLDEST_SERVER, __version__

if TYPE_CHECKING:
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.steps.step import Steps


def tell(ctx: click.Context, _: click.Parameter, given: bool) -> None:  # noqa: FBT001 - as click calls it
    """Print it, and end."""
    if not given or ctx.resilient_parsing:
        return
    oldest = ".".join(map(str, OLDEST_SERVER))
    click.echo(
        f"{ctx.find_root().info_name} {__version__}, for Redis {oldest} and newer, and Valkey; "
        f"{OLDEST_READER} and newer can read its data"
    )
    context = ctx.ensure_object(Context)
    if context.url or os.environ.get("RQ_DLQ_URL"):
        try:
            with context.opened:
                click.echo(_server(context))
        except RqDlqError as error:
            context.output.say(sentence(error))
    ctx.exit()


def _server(context: Context) -> str:
    """How the server runs the verbs, in one line."""
    from rq_dlq._redis import FAIL_FAST  # noqa: PLC0415 - without a server none of it is needed
    from rq_dlq._redis.loading import how  # noqa: PLC0415
    from rq_dlq.client.settings import server_facts, version_of  # noqa: PLC0415

    broker = context.broker
    with closing(broker._connect(FAIL_FAST, checked=False)) as connections:
        version = connections.run(server_facts()).get("redis_version", "")
        connections.fit(version_of(version))
        connections.run(_counts(broker.settings))
        return f"Redis {version or '?'} at {broker.url} runs the verbs {how(connections.verbs)}"


def _counts(settings: BrokerSettings) -> Steps[Any]:
    """Run a verb that only reads."""
    from rq_dlq._keys import QueueKeys  # noqa: PLC0415
    from rq_dlq.core.queues import calls  # noqa: PLC0415

    return (yield calls.stats(QueueKeys(settings.namespace, "doctor"), "doctor"))
