"""Runs scenarios on both sides at once, beside several brokers at once: they wait most of the time."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from rich.progress import Progress

import rq_dlq
from tests.proofs.live_brokers import brokers, programs
from tests.proofs.live_brokers.brokers import Broker
from tests.proofs.live_brokers.builds import BuildError
from tests.proofs.live_brokers.driver import DriverError, Side
from tests.proofs.live_brokers.facts import ERROR, Facts
from tests.proofs.live_brokers.scenario import Scenario
from tests.proofs.live_brokers.table import Part, Row

TRIES = 5
Asked: TypeAlias = tuple[Broker, Sequence[Scenario]]


class StoppedError(Exception):
    """It was broken off."""


def chosen(names: Sequence[str]) -> list[Asked]:
    """The scenarios with these names, or of these brokers; none: all."""
    asked = [
        (
            broker,
            [one for name, one in broker.scenarios.items() if not names or {name, broker.key} & {*names}],
        )
        for broker in brokers.BROKERS
    ]
    return [(broker, scenarios) for broker, scenarios in asked if scenarios]


def run_all(asked: Sequence[Asked], progress: Progress) -> list[Part]:
    """The results beside each broker that could be brought here; what could not is said."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        running = [pool.submit(run, broker, scenarios, progress, stop) for broker, scenarios in asked]
        try:
            return [part for each in running if (part := each.result())]
        finally:
            stop.set()


def run(
    broker: Broker, scenarios: Sequence[Scenario], progress: Progress, stop: threading.Event
) -> Part | None:
    """Run these scenarios; those whose results nothing explains once more, since the machine may be busy."""
    task = progress.add_task(broker.key, total=len(scenarios))
    rows: dict[str, Row] = {}
    try:
        for tries in range(1, TRIES + 1):
            if open_ones := [
                one for one in scenarios if one.name not in rows or not rows[one.name].explained
            ]:
                progress.update(task, completed=len(scenarios) - len(open_ones))
                for row in run_anew(broker, open_ones, stop):
                    rows[row.scenario.name] = replace(row, tries=tries)
                    progress.update(task, advance=1)
                    progress.console.print(f"{row.scenario.name}: {row.verdict}, {row.seconds:.0f} s")
    except BuildError as error:
        progress.console.print(f"skipped: {broker.name}: {error}", markup=False)
        return None
    return Part(broker.key, broker.title(), f"rq_dlq {rq_dlq.__version__}", list(rows.values()))


def run_anew(broker: Broker, scenarios: Sequence[Scenario], stop: threading.Event) -> Iterator[Row]:
    """Start both sides, and run these one after the other."""
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-live-", ignore_cleanup_errors=True) as directory,
        ThreadPoolExecutor(2) as both,  # which ends last: a thread returns when its driver is killed
        broker.start(Path(directory, "there")) as there,
        programs.here(Path(directory, "here"), broker.policies) as here,
    ):
        for scenario in scenarios:
            began = time.monotonic()
            sides = [both.submit(observed, scenario, side) for side in (there, here)]
            while wait(sides, timeout=0.2).not_done:
                if stop.is_set():
                    raise StoppedError
            yield Row(scenario, sides[0].result(), sides[1].result(), time.monotonic() - began)


def observed(scenario: Scenario, side: Side) -> Facts:
    """What a side does; what it raises is an observation, too."""
    try:
        return scenario.run(side)
    except (DriverError, ValueError, IndexError) as error:
        return {ERROR: f"{type(error).__name__}: {error}"}
