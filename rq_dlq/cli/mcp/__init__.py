"""`rq-dlq mcp`: read-only tools for an assistant."""

from __future__ import annotations

import click

from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.cli._extras import of_extra
from rq_dlq.cli._options import mask_option


@click.command(cls=CliCommand)
@mask_option
@click.option("--no-bodies", is_flag=True, help="Hide the bodies and headers of messages.")
@pass_context
def mcp(context: Context, mask: tuple[str, ...], *, no_bodies: bool) -> None:
    """Serve read-only tools for an assistant, by the Model Context Protocol on stdin and stdout.

    The assistant starts it; docs/assistant.md has the configuration for it. It needs the `mcp`
    extra: pip install 'rq-dlq[mcp]'.
    """
    with of_extra("mcp", "`rq-dlq mcp`"):
        from rq_dlq.cli.mcp.server import serve  # noqa: PLC0415
    serve(context, mask, bodies=not no_bodies)
