"""`rq-dlq policy preview` and `simulate`: what a policy makes messages wait, before anything waits."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from rq_dlq.cli import _fields
from rq_dlq.cli._context import Command, Context, pass_context
from rq_dlq.policy import Entry, partial

if TYPE_CHECKING:
    from rq_dlq.policy import Preview, RedeliveryPolicy, Simulation

queue_argument = click.argument("name", metavar="[QUEUE]", required=False)


@click.command("preview", cls=Command)
@queue_argument
@_fields.options(_fields.REDELIVERY)
@click.option("--rows", type=click.IntRange(0), help="How many redeliveries; unless said all, or 12.")
@pass_context
def preview(context: Context, /, name: str | None, rows: int | None, **given: Any) -> None:
    """Show the wait before each redelivery, and the time to the dead-letter queue.

    Of QUEUE's policy, with what the options say in place of what holds; without QUEUE of the default policy.
    """
    shown = _policy(context, name, given).preview(rows)
    if context.output.format == "table":
        context.output.stdout.print(str(shown), highlight=False)
    else:
        context.output.record(_plain(shown))


@click.command("simulate", cls=Command)
@queue_argument
@_fields.options(_fields.REDELIVERY)
@click.option(
    "--messages", type=click.IntRange(1), default=1_000, show_default=True, help="That fail together."
)
@click.option("--outage", metavar="SPAN", default="5m", show_default=True, help="Until when all fail.")
@click.option("--rate", type=float, help="How many a second can be done then; unless said any number.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same gives the same.")
@pass_context
def simulate(context: Context, /, name: str | None, *, messages: int, outage: str, **given: Any) -> None:
    """Play through what becomes of messages that all fail at once, of something that is down.

    By QUEUE's policy, with what the options say in place of what holds; without QUEUE by the default policy.
    """
    played = _policy(context, name, given).simulate(messages, outage, given["rate"], given["seed"])
    if context.output.format == "table":
        context.output.stdout.print(str(played), highlight=False, soft_wrap=True)
    else:
        context.output.record(_plain(played))


def _policy(context: Context, name: str | None, given: dict[str, Any]) -> RedeliveryPolicy:
    """The policy that holds for a queue, but for what the options say."""
    said: dict[str, Any] = {}
    if name is not None:
        sources = context.broker.policies.explain(name).sources
        said = {
            one.field.removeprefix("redelivery."): one.value
            for one in sources
            if one.field.startswith("redelivery.") and one.source != "default"
        }
    options = _fields.said(_fields.REDELIVERY, given)
    if options:
        said |= Entry.of(**options).redelivery
    return partial.complete(said)


def _plain(value: Preview | Simulation) -> dict[str, Any]:
    """A result as programs read it, with names."""
    return {field.name: _named(getattr(value, field.name)) for field in fields(value)}


def _named(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_named(item) for item in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]
