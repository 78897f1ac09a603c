"""`rq-dlq worker`: run the handlers of an app."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rq_dlq.broker import Broker
from rq_dlq.cli._context import Command, Context, log_times, pass_context
from rq_dlq.cli._processes import Supervisor, environment, worker_command
from rq_dlq.errors import ConfigurationError
from rq_dlq.worker import Worker

if TYPE_CHECKING:
    from types import ModuleType

MOST_PROCESSES = 256


def _queues(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, int | None]:
    queues: dict[str, int | None] = {}
    for text in given:
        name, colon, number = text.rpartition(":")
        if not (colon and number.isdecimal()):
            queues[text] = None
        elif int(number):
            queues[name] = int(number)
        else:
            message = f"{text!r}: at least 1 at once; leave the queue out to run none"
            raise click.BadParameter(message, ctx, param)
    return queues


@click.command(cls=Command)
@click.argument("app", metavar="MODULE:BROKER")
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[:N]",
    callback=_queues,
    help="Only this queue, with N at once; may be repeated. Otherwise all that have a handler.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_PROCESSES),
    default=1,
    show_default=True,
    help="So many processes, each with all queues; one that dies is started again.",
)
@click.option("--burst", is_flag=True, help="Stop when nothing is ready.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when stdin ends: its parent is gone.")
@pass_context
def worker(
    context: Context, app: str, queues: dict[str, int | None], processes: int, *, burst: bool, until_eof: bool
) -> None:  # fmt: skip
    """Run the handlers of an app: MODULE:BROKER, such as `examples.flights:broker`.

    SIGTERM and Ctrl-C finish what has begun, a second one cancels it.
    """
    log_times()
    os.environ.update(environment(context))  # for the app, which is imported next
    broker = load(app)
    _agree(context, broker, app)
    run = Worker(broker, until="empty" if burst else "stopped", queues=queues or None)  # checks the queues
    with broker:
        broker.queues()  # later the worker waits for its server; one that was never there is a mistake
    if processes > 1:
        options = [f"--queue={name}" + (f":{n}" if n else "") for name, n in queues.items()]
        options += ["--burst"] * burst + ["-v"] * context.verbose
        sys.exit(Supervisor(worker_command(app, *options), processes, burst=burst).run())
    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    run.run()


def load(app: str) -> Broker:
    """The broker that MODULE:BROKER means.

    Raises:
        ConfigurationError: it is not there, or is none.
    """
    name, _, attribute = app.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found: object = _module(name)
    for part in (attribute or "broker").split("."):
        if not hasattr(found, part):
            message = f"{name} has no {part!r}: name its broker, {name}:BROKER"
            raise ConfigurationError(message)
        found = getattr(found, part)
    if not isinstance(found, Broker):
        message = f"{app} is a {type(found).__name__}, not an rq_dlq.Broker"
        raise ConfigurationError(message)
    return found


def _module(name: str) -> ModuleType:
    if "/" in name or name.endswith(".py"):
        dotted = name.removesuffix(".py").replace("/", ".").strip(".")
        message = f"{name} is a path; a module is meant: {dotted}:BROKER"
        raise ConfigurationError(message)
    try:
        return import_module(name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            message = f"there is no module {missing!r} in {Path.cwd()} or where Python looks"
        else:
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = (
                f"{name} cannot be imported: {type(error).__name__}: {error} "
                f"({where.filename}, line {where.lineno})"
            )
        raise ConfigurationError(message) from error


def _agree(context: Context, broker: Broker, app: str) -> None:
    """The options reach the app by the environment; one that has its own would ignore them in silence."""
    url, namespace = broker.settings.url, broker.settings.namespace
    if context.url and (url or context.url) != context.url:
        message = f"{app} has a URL of its own, {broker.url}: drop --url"
        raise ConfigurationError(message)
    if context.namespace and namespace != context.namespace:
        message = f"{app} has a namespace of its own, {namespace}: drop --namespace"
        raise ConfigurationError(message)


def _stop_at_eof() -> None:
    while os.read(0, 1 << 10):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
