"""`rq-dlq acl`: what a role needs to be allowed in Redis."""

from __future__ import annotations

import click

from rq_dlq._redis.roles import ROLES, acl_line
from rq_dlq.cli._context import Command, Context, pass_context
from rq_dlq.durability import DURABILITIES
from rq_dlq.settings import BrokerSettings

_HELP = f"""Print the line of a role for the ACLs of Redis: {", ".join(ROLES)}.

{"".join(f"{role.name}: {role.does}.{chr(10)}{chr(10)}" for role in ROLES.values())}
It is a line of an ACL file, and after its first word what ACL SETUSER takes. There is no password in it: add
one, as `>secret`, or as `#` and its SHA-256; until then nobody can log in as this user.
"""


@click.command(cls=Command, help=_HELP)
@click.argument("role", type=click.Choice(list(ROLES)))
@click.option("--user", metavar="NAME", help="Of the user; unless said the role's.")
@click.option(
    "--queue", metavar="PATTERN", default="*", show_default=True,
    help="Only queues of this name or pattern (* and ? as in the keys of Redis), and what is theirs.",
)  # fmt: skip
@click.option(
    "--durability", type=click.Choice(DURABILITIES), default="memory", show_default=True,
    help="Of its broker: fsync asks CONFIG GET, which shows passwords, too; replicated asks WAIT.",
)  # fmt: skip
@pass_context
def acl(context: Context, role: str, user: str | None, queue: str, durability: str) -> None:
    """Print a role's line."""
    namespace = context.namespace or BrokerSettings().namespace
    click.echo(acl_line(ROLES[role], user or role, namespace, queue, durability))
