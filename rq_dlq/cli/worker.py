"""`rq-dlq worker`: run the handlers of an app."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click

from rq_dlq import asyncio
from rq_dlq.cli._context import Command, Context, log_times, pass_context
from rq_dlq.cli._processes import Supervisor, environment, worker_command
from rq_dlq.client.broker import Broker
from rq_dlq.errors import ConfigurationError
from rq_dlq.worker import Worker

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
            message = f"{text!r}: the number must be 1 or more; to run none, leave out the queue"
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
    help="Only this queue, N messages at once; may be repeated. By default all queues with a handler.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_PROCESSES),
    default=1,
    show_default=True,
    help="The number of processes, each with all queues; one that dies is restarted.",
)
@click.option("--burst", is_flag=True, help="Stop when nothing is ready.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when stdin ends: the parent is gone.")
@pass_context
def worker(
    context: Context, app: str, queues: dict[str, int | None], processes: int, *, burst: bool, until_eof: bool
) -> None:  # fmt: skip
    """Run the handlers of an app: MODULE:BROKER, such as `examples.flights:broker`.

    On SIGTERM or Ctrl-C the running handlers finish; a second one cancels them.
    """
    log_times()
    os.environ.update(environment(context))  # the app, which is imported next, reads it
    broker = load(app)
    _agree(context, broker, app)
    run = Worker(broker, until="empty" if burst else "stopped", queues=queues or None)  # checks the queues
    with run._broker as blocking:
        blocking.queues()  # fails now if there is no server; later the worker would wait for one
    if processes > 1:
        options = [f"--queue={name}" + (f":{n}" if n else "") for name, n in queues.items()]
        options += ["--burst"] * burst + ["-v"] * context.verbose
        sys.exit(Supervisor(worker_command(app, *options), processes, burst=burst).run())
    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    run.run()


def load(app: str) -> Broker | asyncio.Broker:
    """The broker that MODULE:BROKER names.

    Raises:
        ConfigurationError: there is no such object, or it is not a broker.
    """
    name, _, attribute = app.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found: object = _module(name)
    for part in (attribute or "broker").split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"{name} has no {part!r}: name its broker, {name}:BROKER")
        found = getattr(found, part)
    if not isinstance(found, Broker | asyncio.Broker):
        raise ConfigurationError(f"{app} is a {type(found).__name__}, not a Broker of rq_dlq")
    return found


def _module(name: str) -> ModuleType:
    if "/" in name or name.endswith(".py"):
        dotted = name.removesuffix(".py").replace("/", ".").strip(".")
        raise ConfigurationError(f"{name} is a path: pass the module, {dotted}:BROKER")
    try:
        return import_module(name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            message = f"there is no module {missing!r} in {Path.cwd()} or on Python's path"
        else:
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = (
                f"{name} cannot be imported: {type(error).__name__}: {error} "
                f"({where.filename}, line {where.lineno})"
            )
        raise ConfigurationError(message) from error


def _agree(context: Context, broker: Broker | asyncio.Broker, app: str) -> None:
    """Check that the app uses the options. They reach it by the environment, and its own settings win.

    Raises:
        ConfigurationError: the app sets its own URL or namespace, and the options have another one.
    """
    url, namespace = broker.settings.url, broker.settings.namespace
    if context.url and (url or context.url) != context.url:
        raise ConfigurationError(f"{app} sets its own URL, {broker.url}: drop --url")
    if context.namespace and namespace != context.namespace:
        raise ConfigurationError(f"{app} sets its own namespace, {namespace}: drop --namespace")


def _stop_at_eof() -> None:
    while os.read(0, 1 << 10):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
