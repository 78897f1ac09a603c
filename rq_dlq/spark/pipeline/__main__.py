"""`python -m rq_dlq.spark.pipeline`, also for spark-submit."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape

from rq_dlq.errors import BrokerRefused, BrokerUnavailable, ConfigurationError, InvalidInput, RqDlqError
from rq_dlq.spark.brokers import resolve
from rq_dlq.spark.option_values import moment
from rq_dlq.spark.pipeline.rules import read_rules
from rq_dlq.spark.pipeline.run import run
from rq_dlq.spark.pipeline.settings import FORMATS, PipelineSettings
from rq_dlq.spark.pipeline.show import show
from rq_dlq.spark.pipeline.source import names_of
from rq_dlq.values import failure

FAILED, USAGE, UNREACHABLE = 1, 2, 3
PIPE_WIDTH = 200


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--queue", required=True, metavar="NAMES", help="Names or patterns with *, comma-separated.")
@click.option("--out", required=True, metavar="DIR", help="A directory, or the URL of one, of all output.")
@click.option(
    "--url",
    help="redis://…, rediss://… or unix://…; else $RQ_DLQ_URL, else the embedded server. Spark logs the "
    "command line of spark-submit: put a password into $RQ_DLQ_URL.",
)
@click.option("--namespace", default="rq", show_default=True, help="The prefix of all keys.")
@click.option(
    "--format", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Of the archive."
)
@click.option("--since", metavar="TIME", help="Report only events since this time (ISO or epoch ms).")
@click.option(
    "--rules",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML: the dead letters to redrive.",
)
@click.option("--apply", is_flag=True, help="Redrive them; without this it is a dry run.")
@click.option("--trim", is_flag=True, help="Drop archived events of the outcome history from Redis.")
@click.option("--master", help="Spark's master; by default local[*], or that of spark-submit.")
def main(**options: Any) -> None:
    """Archive the outcome history and the dead letters of queues, report on them, redrive by rules.

    It archives nothing twice, so run it as often as you like. Exit codes: 0 ok, 1 failed, 2 usage or
    configuration, 3 broker unreachable or refusing.
    """
    try:
        _main(**options)
    except RqDlqError as error:
        unreachable = isinstance(error, BrokerUnavailable | BrokerRefused)
        wrong = isinstance(error, InvalidInput | ConfigurationError)
        failure = click.ClickException("; ".join([str(error), *getattr(error, "__notes__", ())]))
        code = UNREACHABLE if unreachable else USAGE if wrong else FAILED
        failure.exit_code = code  # type: ignore[misc]  # click reads it from here
        raise failure from None


def _main(*, rules: Path | None, since: str | None, master: str | None, **options: Any) -> None:
    _check_java()
    if options["apply"] and rules is None:
        raise InvalidInput("--apply needs rules: pass --rules FILE")
    settings = PipelineSettings(
        **options,
        rules=() if rules is None else read_rules(_text(rules), rules.name),
        since=None if since is None else failure.moment(moment("since", since)),
    )
    names_of(resolve(settings.url), settings)  # fails before Spark starts
    talk, data = Console(stderr=True), Console()
    if not data.is_terminal:
        data.width = PIPE_WIDTH

    def tell(step: str, result: str) -> None:
        talk.print(f"[green]✓[/] {escape(step)}: [dim]{escape(result)}", highlight=False)

    spark = _session(master, settings)
    tell("start Spark", f"Spark {spark.version} at {spark.conf.get('spark.master')}")
    try:
        summary = run(spark, settings, tell)
    finally:
        spark.stop()
    show(data, summary, settings)


def _check_java() -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        message = "Spark needs Java, which is missing: install a Java runtime (17 or newer), or set JAVA_HOME"
        raise ConfigurationError(message)


def _session(master: str | None, settings: PipelineSettings) -> SparkSession:
    """A session that logs only errors. Under spark-submit the master is already set."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"rq_dlq pipeline {settings.queue}")
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
    quiet: dict[str, Any] = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    return builder.config(map=quiet).getOrCreate()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as UTF-8 text: {error}") from None


if __name__ == "__main__":
    main(prog_name="python -m rq_dlq.spark.pipeline")
