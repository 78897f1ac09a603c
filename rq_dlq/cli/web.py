"""`rq-dlq web`: the page for operators."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rq_dlq.cli._context import FAILED, CliCommand, Context, pass_context
from rq_dlq.cli._extras import of_extra
from rq_dlq.cli._options import address, mask_option
from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_VARIABLE = "RQ_DLQ_WEB_TOKEN"  # noqa: S105 - its name
CLOSING = 2  # seconds that open pages get when the server ends


def _given(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The value of an option. An empty one is refused: it would mean no login."""
    if text is not None and not text.strip():
        raise click.BadParameter("it is empty", ctx, param)
    return text and text.strip()


def _token(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The token. An empty variable is refused: click would treat it as unset."""
    typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if not typed and not os.environ.get(TOKEN_VARIABLE, "not set").strip():
        raise ConfigurationError(
            f"${TOKEN_VARIABLE} is empty: put a token of at least 16 characters into it, or `unset "
            f"{TOKEN_VARIABLE}`"
        )
    return _given(ctx, param, text)


def _path(ctx: click.Context, param: click.Parameter, text: str) -> str:
    del ctx, param
    inner = text.strip("/")
    return f"/{inner}" if inner else ""


@click.command(cls=CliCommand)
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    callback=address,
    default="127.0.0.1:8080",
    show_default=True,
    help="Where to serve the page. A port alone means 127.0.0.1.",
)
@click.option(
    "--token",
    envvar=TOKEN_VARIABLE,
    callback=_token,
    help="The secret that opens the page; default $RQ_DLQ_WEB_TOKEN.",
)
@click.option(
    "--login-header",
    metavar="NAME",
    callback=_given,
    help="A proxy in front handles the login, and passes the user's name in this header.",
)
@click.option(
    "--write/--read-only",
    "write",
    default=None,
    help="Allow changes, or only reading. On loopback changes are allowed by default, elsewhere not.",
)
@click.option(
    "--host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A host name that browsers use for the page, behind a proxy on this machine; may be repeated.",
)
@mask_option
@click.option(
    "--root-path",
    default="",
    metavar="/PATH",
    callback=_path,
    help="The path under which a proxy serves the page.",
)
@pass_context
def web(
    context: Context,
    *,
    listen: tuple[str, int],
    token: str | None,
    login_header: str | None,
    write: bool | None,
    names: tuple[str, ...],
    mask: tuple[str, ...],
    root_path: str,
) -> None:
    """Serve a page for operators: problems, since when, and redrives (needs the `web` extra)."""
    with of_extra("web", "`rq-dlq web`"):
        import uvicorn  # noqa: PLC0415

        from rq_dlq.web import app  # noqa: PLC0415
    host, port = listen
    local = host in LOOPBACK
    if token and login_header:
        raise click.UsageError("pass either --token or --login-header")
    if not (token or login_header):
        _check_private(host, names)
    options: dict[str, Any] = {"token": token} if token else {"user": _user(login_header)}
    pages = app(
        _awaiting(context),
        write=local if write is None else write,
        mask=mask,
        hosts=_hosts(names) if names or (local and not login_header) else None,
        **options,
    )
    config = uvicorn.Config(
        pages, root_path=root_path, log_level="warning", access_log=False, timeout_graceful_shutdown=CLOSING
    )
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt), _listening(host, port) as listener:
        context.output.say(
            f"http://{f'[{host}]' if ':' in host else host}:{port}{root_path}/ (Ctrl-C ends it)"
        )
        server.run(sockets=[listener])
    if not server.started:
        sys.exit(FAILED)  # its log has the reason


def _check_private(host: str, names: tuple[str, ...]) -> None:
    """Raise ConfigurationError if other machines can reach the page: then it needs a login."""
    if names or host not in LOOPBACK:
        message = (
            f"{names[0] if names else host} can be reached from other machines, so the page needs a login: "
            "pass --token (or set $RQ_DLQ_WEB_TOKEN), or --login-header X-Forwarded-User if a proxy in "
            "front does the login"
        )
        raise ConfigurationError(message)


def _listening(host: str, port: int) -> socket.socket:
    """The socket of an address.

    Raises:
        ConfigurationError: it is not available.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]  # Python repeats the address
        raise ConfigurationError(f"cannot listen on {host}:{port}: {why}; choose another") from None


def _hosts(names: tuple[str, ...]) -> frozenset[str]:
    """The host names of the page: those of this machine, and the given ones."""
    from rq_dlq.web.guard import LOCAL, name_of  # noqa: PLC0415

    return LOCAL | {name_of(name) for name in names}


def _awaiting(context: Context) -> Any:
    from rq_dlq.asyncio import Broker  # noqa: PLC0415

    return Broker(settings=context.broker_settings)


def _user(header: str | None) -> Any:
    """A function that names the sender of a request: the user in a header, or the user of this process."""

    def named(request: HTTPConnection) -> str | None:
        return request.headers.get(str(header))

    def own(_: HTTPConnection) -> str:
        return name

    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "web"
    return named if header else own
