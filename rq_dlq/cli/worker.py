"""`rq-dlq worker` runs the handlers of an app; `rq-dlq worker ls` lists the workers."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _reports
from rq_dlq.cli._app import agree, load
from rq_dlq.cli._context import CliCommand, Context, pass_context, typed
from rq_dlq.cli._health import health_options, metrics_of
from rq_dlq.cli._logs import log_times
from rq_dlq.cli._options import import_timeout_option, log_format_option
from rq_dlq.cli._processes import FAR, FULL, WORKS, Supervisor, environment, tell, worker_command
from rq_dlq.cli._unread import ending_unread
from rq_dlq.cli._watch import watching
from rq_dlq.core.processes.processes import maintainers
from rq_dlq.telemetry import json_logs
from rq_dlq.telemetry.health import announced
from rq_dlq.worker import Worker
from rq_dlq.worker.stopping import TICK

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rq_dlq import asyncio
    from rq_dlq.client.broker import Broker
    from rq_dlq.doctor.vitals import Vitals
    from rq_dlq.telemetry.health import Address, Pages
    from rq_dlq.worker.stopping import Stop

logger = logging.getLogger("rq_dlq.worker")
MOST_PROCESSES = 256
APP = "the Python module and the name of the broker in it, such as shop:broker"
WITHIN = 5.0  # seconds until the process ends after a second signal; longer than a worker needs
SEVERAL = (
    "--health and --heartbeat-file are for one process: leave out --processes and --watch, and let your "
    "supervisor start several workers"
)


def _queues(given: Sequence[str], names: Collection[str]) -> dict[str, int | None]:
    """The queues chosen by -q, each with its concurrency.

    Args:
        names: the names of queues with a handler, which may contain a colon: Spark's shards are `orders:0`.
    """
    queues: dict[str, int | None] = {}
    for text in given:
        name, colon, number = text.rpartition(":")
        if text in names or not (colon and number.isdecimal()):
            queues[text] = None
        elif int(number):
            queues[name] = int(number)
        else:
            message = f"{text!r}: the number must be 1 or more; to run none, leave out the queue"
            raise click.BadParameter(message, param_hint="-q")
    return queues


@click.command("ls", cls=CliCommand)
@pass_context
def ls(context: Context) -> None:
    """List the worker processes, with their queues, start times, held messages and counts."""
    broker, output = context.broker, context.output
    rows = [_reports.worker_row(worker, table=output.format == "table") for worker in broker.workers()]
    start = typed(click.get_current_context(), "rq-dlq worker MODULE:BROKER")
    none = f"no worker has reported lately: `{start}` starts one"
    output.rows(rows, _reports.WORKERS, none)
    if output.format == "table":
        output.say(_reports.maintained_by(broker._run(maintainers(broker.settings.namespace))))


class _WorkerCommand(CliCommand):
    """Runs an app, or lists the workers if the first argument is `ls`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the arguments, of this command or of `ls`."""
        if args[:1] == ["ls"]:
            return ls.make_context(f"{info_name} ls", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The words after the command."""
        return [typed(ctx, f" {piece}").strip() for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it does."""
        whole = self.help or ""
        parts = whole.split("\n\n")
        if typed(ctx, whole) != whole:  # there is no MODULE:BROKER
            parts = [part for part in parts if not part.strip().startswith("MODULE:BROKER")]
        self.help = typed(ctx, "\n\n".join(parts))
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = whole

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Errors say what to pass; those of click would not."""
        try:
            super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is None or error.param.name != "app":
                raise
            ctx.fail(f"Missing argument 'MODULE:BROKER', {APP}.")
        if ctx.args and not ctx.resilient_parsing:
            ctx.fail(
                f"{ctx.args[0]!r} is an extra word: pass only MODULE:BROKER, {APP}. To choose queues, add -q "
                f"NAME for each, as in `rq-dlq worker shop:broker -q {ctx.args[0]}`."
            )
        return ctx.args


@click.command(cls=_WorkerCommand, context_settings={"allow_extra_args": True})
@click.argument("app", metavar="MODULE:BROKER")
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[:N]",
    help="Only this queue, with N concurrent calls; may be repeated. By default all queues with a handler.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_PROCESSES),
    default=1,
    show_default=True,
    help="The number of processes, each with all queues; a process that dies is restarted.",
)
@click.option(
    "--burst",
    is_flag=True,
    help="Stop when no message is ready and no call runs; the log has the counts and the messages left.",
)
@click.option(
    "--watch",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Restart when a Python file in this directory changes (needs the `watch` extra).",
)
@click.option(
    "--max-messages",
    type=click.IntRange(1),
    metavar="N",
    help="Replace the process by a new one after about N messages; without --processes it ends, with code 0.",
)
@click.option(
    "--max-memory",
    metavar="SIZE",
    help="The same, when it takes about this much memory (RSS), such as 500MB.",
)
@import_timeout_option
@health_options
@log_format_option
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when stdin ends: the parent is gone.")
@pass_context
def worker(
    context: Context,
    app: str,
    queues: tuple[str, ...],
    *,
    processes: int,
    watch: str | None,
    import_timeout: float,
    burst: bool,
    max_messages: int | None,
    max_memory: str | None,
    health: Address | None,
    heartbeat_file: Path | None,
    until_eof: bool,
) -> None:
    """Run the handlers of an app.

    MODULE:BROKER is the Python module and the name of the broker in it, such as `examples.flights:broker`.

    `rq-dlq worker ls` lists the worker processes.

    On SIGTERM or Ctrl-C the running handlers finish; a second signal cancels them. A failed message is one
    line of the log; a death is logged with its traceback, and with -v every failure is.
    """
    several = processes > 1 or watch is not None
    if several and (health or heartbeat_file):
        raise click.UsageError(SEVERAL)
    broker = _broker_of(context, app, import_timeout)
    chosen = _queues(queues, [handler.queue.name for handler in broker._handlers])
    run = Worker(
        broker,
        until="empty" if burst else "stopped",
        queues=chosen or None,
        max_messages=max_messages,
        max_memory=int(max_memory) if max_memory and max_memory.isdecimal() else max_memory,
    )  # it checks them
    with run._broker as blocking:
        blocking.queues()  # fails now if there is no server; later the worker would wait
    if several:
        options = [f"--queue={text}" for text in queues]
        options += [f"--import-timeout={import_timeout}", f"--log-format={context.log_format}"]
        options += [f"--max-messages={max_messages}"] * (max_messages is not None)
        options += [f"--max-memory={max_memory}"] * (max_memory is not None)
        options += ["--burst"] * burst + ["-v"] * context.verbose
        sys.exit(_supervise(worker_command(app, *options), processes, watch, burst=burst))
    pages = metrics_of(broker) if health else None
    _run(run, health, heartbeat_file, pages, until_eof=until_eof)


def _broker_of(context: Context, app: str, import_timeout: float) -> Broker | asyncio.Broker:
    """Import the broker of an app, with the settings of this command; the log is as it wants it."""
    log_times(context.verbose, context.log_format)
    os.environ.update(environment(context))  # read by the app, which is imported next
    broker = load(app, import_timeout)
    agree(context, broker, app)
    if context.log_format == "json":
        json_logs.instrument(broker)
    return broker


def _supervise(command: Sequence[str], processes: int, watch: str | None, *, burst: bool) -> int:
    """Run several processes until all have ended; the exit code."""
    with watching(watch) as changes:
        supervisor = Supervisor(command, processes, burst=burst, changes=changes)
        with ending_unread(supervisor.end, supervisor.vitals), announced(supervisor.vitals):
            return supervisor.run()


def _run(
    run: Worker, health: Address | None, heartbeat_file: Path | None, pages: Pages | None, *, until_eof: bool
) -> None:
    """Run the handlers in this process until it is stopped."""
    threading.Thread(target=_end_in_time, args=(run.stop,), daemon=True).start()
    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
        run.recycling.then = partial(tell, FULL)
        run.recycling.far = partial(tell, FAR)
        threading.Thread(target=_tell_that_it_works, args=(run.vitals,), daemon=True).start()
    gc.freeze()  # imported objects stay; scanning them for garbage would stop all calls for a while
    with (
        ending_unread(run.stop.finishing.set, run.vitals),
        announced(run.vitals, address=health, heartbeat_file=heartbeat_file, pages=pages),
    ):
        run.run()


def _end_in_time(stop: Stop) -> None:
    """End the process soon after a second signal, even if code is still running.

    Otherwise it would wait for an unresponsive Redis, and at exit Python would wait for the threads of
    executors.
    """
    stop.cancelling.wait()
    time.sleep(WITHIN)
    logger.warning("the process ends %g s after the second signal, with code still running", WITHIN)
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(1)


def _stop_at_eof() -> None:
    with suppress(OSError):  # the parent ended before it read all that it was told
        while os.read(0, 1 << 10):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _tell_that_it_works(vitals: Vitals) -> None:
    while vitals.stage == "starting":
        time.sleep(TICK)
    tell(WORKS)
