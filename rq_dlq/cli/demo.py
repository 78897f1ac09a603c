"""`rq-dlq demo`: runs the example `examples/demo`."""

from __future__ import annotations

import os
import secrets
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli._context import FAILED, CliCommand, Context, pass_context
from rq_dlq.cli._options import Number
from rq_dlq.cli._scratch import interrupt_on_signals, remove, server_of
from rq_dlq.errors import ConfigurationError

if TYPE_CHECKING:
    from types import ModuleType

SENDING = 12.0  # seconds


@click.command(cls=CliCommand)
@click.option("--rows", type=click.IntRange(20), help="Use only this many of the 1,959 flights.")
@click.option(
    "--seconds",
    type=Number(6, 600),
    default=SENDING,
    show_default=True,
    help="How long to send flights.",
)
@pass_context
def demo(context: Context, rows: int | None, seconds: float) -> None:
    """Settle real flights while a payment service fails and a worker is killed.

    It runs on the embedded server, or the one at --url (not at $RQ_DLQ_URL), in its own namespace, which it
    removes afterwards.
    """
    interrupt_on_signals()
    os.environ["RQ_DLQ_URL"] = server_of(context)  # for the example and its workers
    os.environ["RQ_DLQ_NAMESPACE"] = f"rq-dlq-demo-{secrets.token_hex(4)}"
    flights, example = example_of("flights"), example_of("demo")
    with flights.broker as broker:
        try:
            figures = example.run(rows, seconds, context.output.stdout, context.output.stderr)
        finally:
            remove(broker)
    checks = example.sums.checks(figures)
    if context.output.format == "table":
        example.sums.show(context.output.stdout, figures)
    else:
        context.output.record(_record(figures) | {"sums": {check.name: check.holds for check in checks}})
    context.output.say(_by_hand(flights))
    if not all(check.holds for check in checks):
        click.get_current_context().exit(FAILED)


def example_of(name: str) -> ModuleType:
    """Import an example: from inside an installed package, or from beside the package in a checkout.

    Raises:
        ConfigurationError: it is in neither place.
    """
    package = Path(sys.modules["rq_dlq"].__file__ or "").resolve().parent
    for folder, module in ((package, "rq_dlq.examples"), (package.parent, "examples")):
        if (folder / "examples" / "flights.csv").exists():
            sys.path.insert(0, str(package.parent))
            return import_module(f"{module}.{name}")
    raise ConfigurationError("the examples are not installed: reinstall rq-dlq")


def _record(figures: Any) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 - `rq-dlq --help` need not wait for it

    from rq_dlq.cli._show import group_row  # noqa: PLC0415

    facts: dict[str, Any] = msgspec.to_builtins(figures, builtin_types=())
    return facts | {"groups": [group_row(group) for group in figures.groups], "lost": figures.lost}


def _by_hand(flights: ModuleType) -> str:
    """The commands to do the same manually."""
    file = Path(flights.__file__ or "").with_name("flights.csv")
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return (
        "\nThe same with commands:\n"
        f"  rq-dlq send flights {shown} --csv\n"
        f"  rq-dlq worker {flights.__name__}:broker --burst\n"
        "  rq-dlq dlq groups flights"
    )
