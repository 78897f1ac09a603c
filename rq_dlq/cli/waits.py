"""`rq-dlq policy preview` and `simulate`: how long a policy makes messages wait, before any message does."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _fields
from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import Command, Context, pass_context
from rq_dlq.policy import Entry, partial
from rq_dlq.policy.preview import MOST

if TYPE_CHECKING:
    from rq_dlq.policy import Preview, RedeliveryPolicy, Simulation

queue_argument = click.argument("name", metavar="[QUEUE]", required=False, shell_complete=queues)


@click.command("preview", cls=Command)
@queue_argument
@_fields.options(_fields.REDELIVERY)
@click.option(
    "--rows",
    type=click.IntRange(0, MOST),
    help="How many redeliveries to show; by default all, or 12 if there is no limit, or a huge one.",
)
@pass_context
def preview(context: Context, /, name: str | None, rows: int | None, **given: Any) -> None:
    """Show the wait before each redelivery, up to the last one.

    The policy is that of QUEUE, or else the default; options override its fields.
    """
    shown = _policy(context, name, given).preview(rows)
    context.output.either(str(shown), _plain(shown))


@click.command("simulate", cls=Command)
@queue_argument
@_fields.options(_fields.REDELIVERY)
@click.option(
    "--messages", type=click.IntRange(1), default=1_000, show_default=True, help="How many fail together."
)
@click.option("--outage", metavar="SPAN", default="5m", show_default=True, help="How long all fail.")
@click.option(
    "--rate", type=float, help="How many messages a second succeed after the outage; by default no limit."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same result.")
@pass_context
def simulate(context: Context, /, name: str | None, *, messages: int, outage: str, **given: Any) -> None:
    """Simulate an outage in which many messages fail at once.

    The policy is that of QUEUE, or else the default; options override its fields.
    """
    played = _policy(context, name, given).simulate(messages, outage, given["rate"], given["seed"])
    context.output.either(str(played), _plain(played))


def _policy(context: Context, name: str | None, given: dict[str, Any]) -> RedeliveryPolicy:
    """The policy of a queue, overridden by the options."""
    fields: dict[str, Any] = {}
    if name is not None:
        sources = context.broker.policies.explain(name).sources
        fields = {
            one.field.removeprefix("redelivery."): one.value
            for one in sources
            if one.field.startswith("redelivery.") and one.source != "default"
        }
    options = _fields.passed(_fields.REDELIVERY, given)
    if options:
        fields |= Entry.of(**options).part("redelivery")
    return partial.complete(fields)


def _plain(value: Preview | Simulation) -> dict[str, Any]:
    """A result with names, for programs."""
    return {field.name: _named(getattr(value, field.name)) for field in fields(value)}


def _named(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_named(item) for item in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]
