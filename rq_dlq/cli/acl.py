"""`rq-dlq acl`: the rights in Redis that a role needs."""

from __future__ import annotations

import click

from rq_dlq._redis.acl import READS, acl_line
from rq_dlq._redis.roles import ROLES
from rq_dlq.cli._context import Command, Context, pass_context
from rq_dlq.client.durability import DURABILITIES
from rq_dlq.client.settings import BrokerSettings

_HELP = f"""Print the ACL line of a role for Redis: {", ".join(ROLES)}.

{"".join(f"{role.name}: {role.does}.{chr(10)}{chr(10)}" for role in ROLES.values())}
It is a line of an ACL file; after its first word, it is the arguments of ACL SETUSER. It has no password, so
login as this user is not possible until you add one: `>secret`, or `#` and its SHA-256.
"""


@click.command(cls=Command, help=_HELP)
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
@click.option("--redis-6", "old", is_flag=True, help="For Redis 6.2, which has no read-only keys.")
@pass_context
def acl(context: Context, role: str, user: str | None, queue: str, durability: str, *, old: bool) -> None:
    """Print the ACL line of a role."""
    namespace = BrokerSettings().namespace if context.namespace is None else context.namespace
    reads = "~" if old else READS
    line = acl_line(ROLES[role], user or role, namespace, queue, durability, reads=reads)
    if context.output.format == "table":
        click.echo(line)
    else:
        context.output.record({"role": role, "user": user or role, "line": line})
    if old and READS in acl_line(ROLES[role], user or role, namespace, queue, durability):
        context.output.say(
            "on Redis 6.2 this user can also write keys that it only needs to read: the policies of all "
            "queues"
        )
