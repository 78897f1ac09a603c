"""A table that compares simulated outages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rq_dlq.cli._show import Column
from rq_dlq.embedded import ensure
from rq_dlq.policy.outage import AFTER, WORK
from rq_dlq.testing.outage import play
from rq_dlq.values.durations import human

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.cli._show import Output, Row
    from rq_dlq.policy.outage import Outage, OutagePlan, Spread


def compare(output: Output, plans: Mapping[str, OutagePlan], draw: int) -> None:
    """Simulate an outage for each plan on the embedded server, and show the outcomes."""
    url = ensure().url
    played: dict[str, Outage] = {}
    for name, plan in plans.items():
        with output.stderr.status(f"an outage {name}"):
            played[name] = play(url, plan, draw)
    plan = next(iter(plans.values()))
    if output.format == "table":
        output.tell(f"{_said(plan)}\n")
        output.rows(rows_of(played, plan), columns_of([*played]), "")
    else:
        output.record(_facts(plan) | {name.partition(" ")[0]: asdict(one) for name, one in played.items()})


def columns_of(names: Sequence[str]) -> list[Column]:
    """The columns of a table of outages with these names."""
    return [Column("figure", title=" ", wrap=True), *map(Column, names)]


def rows_of(played: Mapping[str, Outage], plan: OutagePlan) -> list[Row]:
    """A row for each figure."""
    told = {name: _told(outage, plan) for name, outage in played.items()}
    figures = next(iter(told.values()))
    return [{"figure": figure} | {name: cells[figure] for name, cells in told.items()} for figure in figures]


def _turn(plan: OutagePlan) -> str:
    return "as they came" if plan.at_once else "for the repair"


def _told(one: Outage, plan: OutagePlan) -> dict[str, str]:
    """The figures of an outage, by their names."""
    drained = f"not within {_span(AFTER)}" if one.drained is None else f"{_span(one.drained)} after it"
    told = {
        "healthy messages that died": f"{one.healthy_dead:,}",
        "poison messages that died": f"{one.poisons_dead:,} of {one.poisons:,}",
        "failed attempts of healthy messages": f"{one.wasted:,}",
        f"healthy messages that waited {_turn(plan)}": f"{one.waiting:,}",
        "a minute after it": f"{one.late:,}",
        "the last of these was done": drained if one.waiting else "-",
    }
    if one.meanwhile:
        told |= {
            f"latency of an unrelated tenant, {name}": f"{_span(value)}{_before(one.calm, name)}"
            for name, value in asdict(one.meanwhile).items()
        }
    return told


def _before(calm: Spread | None, name: str) -> str:
    return f" ({_span(getattr(calm, name))} before)" if calm else ""


def _span(seconds: float) -> str:
    return human(round(seconds * 10) * 100)


def _said(plan: OutagePlan) -> str:
    if plan.at_once:
        return (
            f"{plan.messages:,} messages are sent in {_span(plan.outage)}, and nothing is down; "
            f"{plan.poisons:,} that always fail come at once; {plan.workers:,} workers"
        )
    hangs = "" if plan.hang == WORK else f", and calls hang for {_span(plan.hang)}"
    return (
        f"{plan.messages:,} messages are sent in {_span(plan.outage)}, in which the dependency of "
        f"{plan.share:.0%} of them is down{hangs}; {plan.poisons:,} more always fail; "
        f"{plan.workers:,} workers"
    )


def _facts(plan: OutagePlan) -> dict[str, Any]:
    names = ("outage", "messages", "share", "poisons", "at_once", "hang", "workers")
    return {name: getattr(plan, name) for name in names} | {"breaker": str(plan.breaker)}
