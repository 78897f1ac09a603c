"""Runs scenarios on both sides at once."""

from __future__ import annotations

import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.progress import Progress

import rq_dlq
from tests.proofs.live_brokers import classic, jetstream, programs
from tests.proofs.live_brokers.driver import DriverError, Side
from tests.proofs.live_brokers.facts import ERROR, Facts
from tests.proofs.live_brokers.scenario import Scenario, Scenarios
from tests.proofs.live_brokers.table import Part, Row

TRIES = 5


@dataclass(frozen=True, slots=True)
class Broker:
    """What rq_dlq is compared with.

    Attributes:
        key: on the command line, and in the page.
        version: how it calls itself.
        start: starts it.
    """

    key: str
    version: Callable[[], str]
    start: Callable[[Path], AbstractContextManager[Side]]
    scenarios: Scenarios


def classic_version() -> str:
    """As its jar says."""
    with zipfile.ZipFile(programs.ACTIVEMQ / "bin" / "activemq.jar") as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    return "ActiveMQ Classic " + manifest.partition("Implementation-Version: ")[2].split()[0]


def nats_version() -> str:
    """As the server says."""
    said = subprocess.run(["nats-server", "--version"], capture_output=True, text=True, check=True)
    return f"JetStream {said.stdout.split()[-1].removeprefix('v')}"


BROKERS = (
    Broker("classic", classic_version, programs.classic, classic.ALL),
    Broker("jetstream", nats_version, programs.jetstream, jetstream.ALL),
)


def chosen(names: Sequence[str]) -> list[tuple[Broker, list[Scenario]]]:
    """The scenarios with these names, or of these brokers; none: all."""
    asked = [
        (
            broker,
            [one for name, one in broker.scenarios.items() if not names or {name, broker.key} & {*names}],
        )
        for broker in BROKERS
    ]
    return [(broker, scenarios) for broker, scenarios in asked if scenarios]


def run(broker: Broker, scenarios: Sequence[Scenario], progress: Progress) -> Part:
    """Run these scenarios; those whose results nothing explains once more, since the machine may be busy."""
    task = progress.add_task(broker.key, total=len(scenarios))
    rows: dict[str, Row] = {}
    for tries in range(1, TRIES + 1):
        if open_ones := [one for one in scenarios if one.name not in rows or not rows[one.name].explained]:
            progress.update(task, completed=len(scenarios) - len(open_ones))
            for row in run_anew(broker, open_ones):
                rows[row.scenario.name] = replace(row, tries=tries)
                progress.update(task, advance=1)
                progress.console.print(f"{row.scenario.name}: {row.verdict}, {row.seconds:.0f} s")
    return Part(broker.key, broker.version(), f"rq_dlq {rq_dlq.__version__}", list(rows.values()))


def run_anew(broker: Broker, scenarios: Sequence[Scenario]) -> Iterator[Row]:
    """Start both sides, and run these one after the other."""
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-live-", ignore_cleanup_errors=True) as directory,
        ThreadPoolExecutor(2) as both,  # which ends last: a thread returns when its driver is killed
        broker.start(Path(directory, "there")) as there,
        programs.here(Path(directory, "here")) as here,
    ):
        for scenario in scenarios:
            began = time.monotonic()
            seen, ours = both.map(observed, (scenario, scenario), (there, here))
            yield Row(scenario, seen, ours, time.monotonic() - began)


def observed(scenario: Scenario, side: Side) -> Facts:
    """What a side does; what it raises is an observation, too."""
    try:
        return scenario.run(side)
    except (DriverError, ValueError, IndexError) as error:
        return {ERROR: f"{type(error).__name__}: {error}"}
