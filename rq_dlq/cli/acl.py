"""`rq-dlq acl`: the rights in Redis that a role needs."""

from __future__ import annotations

import os
from contextlib import closing

import click

from rq_dlq._redis import FAIL_FAST
from rq_dlq._redis.acl import BOTH, FUNCTIONS, OLD, acl_line
from rq_dlq._redis.roles import ROLES
from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.client.durability import DURABILITIES
from rq_dlq.client.settings import BrokerSettings, server_facts, version_of
from rq_dlq.errors import RqDlqError

_HELP = f"""Print the ACL line of a role for Redis: {", ".join(ROLES)}.

{"".join(f"{role.name}: {role.does}.{chr(10)}{chr(10)}" for role in ROLES.values())}
It is a line of an ACL file; after its first word, it is the arguments of ACL SETUSER. It has no password, so
login as this user is not possible until you add one: `>secret`, or `#` and its SHA-256.
"""


@click.command(cls=CliCommand, help=_HELP)
@click.argument("role", type=click.Choice(list(ROLES)))
@click.option("--user", metavar="NAME", help="The name of the user; by default the role's.")
@click.option(
    "--queue", metavar="PATTERN", default="*", show_default=True,
    help="Only the keys of queues with this name or pattern (* and ? as in Redis).",
)  # fmt: skip
@click.option(
    "--durability", type=click.Choice(DURABILITIES), default="memory", show_default=True,
    help="The durability of its broker: fsync needs CONFIG GET, which also shows passwords; "
    "replicated needs WAIT.",
)  # fmt: skip
@click.option(
    "--redis-6/--redis-7", "old", default=None,
    help="For Redis 6.2, which has no read-only keys, no selectors and no functions, or for Redis 7 and "
    "Valkey; by default for the server of --url or $RQ_DLQ_URL, and without one for Redis 7.",
)  # fmt: skip
@click.option(
    "--functions-only", is_flag=True,
    help="Without the rights to run and load scripts. Then no program works before `rq-dlq load` has loaded "
    "the library of its version.",
)  # fmt: skip
@pass_context
def acl(
    context: Context,
    role: str,
    user: str | None,
    queue: str,
    durability: str,
    *,
    old: bool | None,
    functions_only: bool,
) -> None:
    """Print the ACL line of a role."""
    if old and functions_only:
        raise click.UsageError("Redis 6.2 has no functions: pass --redis-6 or --functions-only")
    if old is None and (old := _is_old(context)) and functions_only:
        raise click.UsageError("that server has no functions: leave out --functions-only, or pass --redis-7")
    ways = OLD if old else FUNCTIONS if functions_only else BOTH
    namespace = BrokerSettings().namespace if context.namespace is None else context.namespace
    name = role if user is None else user
    line = acl_line(ROLES[role], name, namespace, queue, durability, ways=ways)
    if context.output.format == "table":
        click.echo(line)
    else:
        context.output.record({"role": role, "user": name, "line": line})
    if old:
        context.output.say(
            "on Redis 6.2 this user can also write keys that it only needs to read, and change the policies "
            "and the names of all queues by any command"
        )


def _is_old(context: Context) -> bool:
    """Whether the server that is named has no read-only keys; says so before the line."""
    if not (context.url or os.environ.get("RQ_DLQ_URL")):
        return False
    broker = context.broker
    try:
        with closing(broker._connect(FAIL_FAST, checked=False)) as connections:
            version = connections.run_once(server_facts()).get("redis_version", "")
    except RqDlqError as error:
        context.output.say(f"for Redis 7 or newer, or Valkey; for Redis 6.2 pass --redis-6 ({error})")
        return False
    old = () < version_of(version) < (7,)
    if old:
        context.output.say(f"for Redis {version}, the server at {broker.url}; for a newer one pass --redis-7")
    return old
