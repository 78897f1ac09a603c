"""`rq-dlq policy preview` and `simulate`: the waits of a policy."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

import click

from rq_dlq.cli import _fields
from rq_dlq.cli._completion import queues
from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.cli._options import Number
from rq_dlq.policy import Breaker, Entry, partial
from rq_dlq.policy.fields import FIELDS
from rq_dlq.policy.outage import OutagePlan
from rq_dlq.policy.preview import MOST
from rq_dlq.values.durations import milliseconds

if TYPE_CHECKING:
    from rq_dlq.policy import Preview, QueueSettings, RedeliveryPolicy, Simulation

BREAKER: Final = FIELDS["breaker"]
OF_BREAKERS: Final = ("share", "poisons", "at_once", "hang", "workers")


def span(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """A duration as seconds."""
    return None if value is None else milliseconds(value, name="hang", minimum=1) / 1000


queue_argument = click.argument("name", metavar="[QUEUE]", required=False, shell_complete=queues)


@click.command("preview", cls=CliCommand)
@queue_argument
@_fields.options(_fields.REDELIVERY)
@click.option(
    "--rows",
    type=click.IntRange(0, MOST),
    help="How many redeliveries to show; by default all, or 12 if there is no limit or a huge one.",
)
@pass_context
def preview(context: Context, /, name: str | None, rows: int | None, **given: Any) -> None:
    """Show the wait before each redelivery, up to the last one.

    The policy is that of QUEUE, or else the default; options override its fields.
    """
    shown = _policy(_settings(context, name), given).preview(rows)
    context.output.either(str(shown), _plain(shown))


@click.command("simulate", cls=CliCommand)
@queue_argument
@_fields.options((*_fields.REDELIVERY, BREAKER))
@click.option(
    "--messages", type=click.IntRange(1), default=1_000, show_default=True,
    help="How many messages fail together; with a breaker: how many are sent in the outage.",
)  # fmt: skip
@click.option("--outage", metavar="SPAN", default="5m", show_default=True, help="The length of the outage.")
@click.option(
    "--rate", type=float, help="How many messages a second succeed after the outage; by default no limit."
)
@click.option(
    "--share", type=Number(0, 1, min_open=True),
    help="With a breaker: the fraction of messages with the failed dependency; "
    f"by default {OutagePlan.share:g}.",
)  # fmt: skip
@click.option(
    "--poisons", type=click.IntRange(0, 1_000),
    help=f"With a breaker: additional messages that always fail; by default {OutagePlan.poisons}.",
)  # fmt: skip
@click.option(
    "--at-once", is_flag=True, default=None,
    help="With a breaker: these come at once, and nothing is down; the rest goes on for --outage.",
)  # fmt: skip
@click.option(
    "--hang", metavar="SPAN", callback=span,
    help="With a breaker: how long calls hang in the outage until they fail; "
    f"by default {OutagePlan.hang:g}s.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 1_000),
    help=f"With a breaker: messages processed concurrently, 0.2 s each; by default {OutagePlan.workers}.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same result.")
@pass_context
def simulate(context: Context, /, name: str | None, *, messages: int, outage: str, **given: Any) -> None:
    """Simulate an outage in which many messages fail.

    The policy is that of QUEUE, or else the default; options override its fields. With a breaker (`--breaker
    on`, or the breaker of QUEUE) the outage is simulated in virtual time on the embedded server, with and
    without the breaker.
    """
    settings = _settings(context, name)
    policy, breaker = _policy(settings, given), _breaker(settings, given)
    asked = {option: given[option] for option in OF_BREAKERS if given[option] is not None}
    if breaker is None:
        if asked:
            raise click.UsageError(
                f"--{next(iter(asked)).replace('_', '-')} is for an outage with a breaker: add --breaker on"
            )
        played = policy.simulate(messages, outage, given["rate"], given["seed"])
        context.output.either(str(played), _plain(played))
        return
    if given["rate"] is not None:
        raise click.UsageError("--rate is for an outage without a breaker: pass --workers, or --breaker none")
    from rq_dlq.cli._outages import compare  # noqa: PLC0415 - only a breaker needs these modules

    seconds = milliseconds(outage, name="outage") / 1000
    plan = OutagePlan(breaker=breaker, policy=policy, outage=seconds, messages=messages, **asked)
    compare(context.output, {"with the breaker": plan, "without": replace(plan, breaker=None)}, given["seed"])


def _settings(context: Context, name: str | None) -> QueueSettings | None:
    return None if name is None else context.broker.policies.explain(name)


def _policy(settings: QueueSettings | None, given: dict[str, Any]) -> RedeliveryPolicy:
    """The policy of a queue, overridden by the options."""
    fields: dict[str, Any] = {}
    if settings is not None:
        fields = {
            one.field.removeprefix("redelivery."): one.value
            for one in settings.sources
            if one.field.startswith("redelivery.") and one.source != "default"
        }
    options = _fields.passed(_fields.REDELIVERY, given)
    if options:
        fields |= Entry.of(**options).part("redelivery")
    return partial.complete(fields)


def _breaker(settings: QueueSettings | None, given: dict[str, Any]) -> Breaker | None:
    """The breaker of a queue, overridden by the options."""
    options = _fields.passed((BREAKER,), given)
    if not options:
        return None if settings is None else settings.breaker
    return None if options["breaker"] is None else Breaker.of(options["breaker"])


def _plain(value: Preview | Simulation) -> dict[str, Any]:
    """A result as a mapping, for programs."""
    return {field.name: _named(getattr(value, field.name)) for field in fields(value)}


def _named(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    return [_named(item) for item in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]
