"""`rq-dlq mcp`: tools by which an assistant looks at queues. It can change nothing."""

from __future__ import annotations

import click

from rq_dlq.cli._context import Command, Context, pass_context
from rq_dlq.errors import ConfigurationError


@click.command(cls=Command)
@click.option(
    "--mask",
    multiple=True,
    metavar="FIELD",
    help="Hide the values of fields with this in their names, beside password, token, secret, authorization, "
    "api_key and cookie; may be repeated.",
)
@click.option("--no-bodies", is_flag=True, help="Show neither bodies nor headers of messages.")
@pass_context
def mcp(context: Context, mask: tuple[str, ...], *, no_bodies: bool) -> None:
    """Serve read-only tools for an assistant, by the Model Context Protocol on stdin and stdout.

    The assistant starts it; docs/assistant.md has what to paste into its configuration. It needs the `mcp`
    extra: pip install 'rq-dlq[mcp]'.
    """
    try:
        from rq_dlq.cli.mcp.server import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "pydantic"}:
            raise
        raise ConfigurationError("this needs the SDK of the protocol: pip install 'rq-dlq[mcp]'") from None
    serve(context, mask, bodies=not no_bodies)
