"""CPU that a process takes to its first message: from a checkout, and from a wheel of it.

Each run is a process of its own, in turns. It imports the library, makes a broker (which imports redis-py),
sends, claims and acks one message, and does the same again with a second broker.

    python -m tests.benchmarks.start --rounds 20 --beside ../the-other-checkout
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests import servers

HERE = Path(__file__).resolve().parents[2]
STEPS = ("import", "a broker", "its first send, claim and ack", "the same with a second broker")
PROGRAM = """
import json, sys
from time import process_time
def use(broker):
    queue = broker.queue("start")
    queue.send({"n": 1})
    (delivery,) = queue.claim()
    delivery.ack()
moments = [process_time()]
from rq_dlq import Broker
moments.append(process_time())
broker = Broker(sys.argv[1])
moments.append(process_time())
use(broker)
moments.append(process_time())
use(Broker(sys.argv[1]))
moments.append(process_time())
print(json.dumps([1000 * (end - begin) for begin, end in zip(moments, moments[1:])]))
"""


def unpacked(directory: Path) -> Path:
    """A wheel of this checkout, as it is once installed."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=HERE, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def measured(place: Path, url: str) -> list[float]:
    """Milliseconds of CPU for each step, of a process that finds the library at this place."""
    command = [sys.executable, "-c", PROGRAM, url]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, cwd="/")
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


def compare(places: Mapping[str, Path], url: str, rounds: int) -> Table:
    """The places in turns; the first time at each writes bytecode, and does not count."""
    runs = [{name: measured(place, url) for name, place in places.items()} for _ in range(rounds + 1)][1:]
    table = Table("", *places, title=f"Milliseconds of CPU, medians of {rounds} processes")
    for n, step in enumerate(STEPS):
        table.add_row(step, *(f"{median(run[name][n] for run in runs):.1f}" for name in places))
    return table


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    chosen = parser.parse_args(arguments)
    with TemporaryDirectory() as directory, servers.running() as path:
        places = {"checkout": HERE, "wheel": unpacked(Path(directory))}
        if chosen.beside:
            places[str(chosen.beside)] = chosen.beside.resolve()
        console = Console()
        console.print(f"$ python -m tests.benchmarks.start {' '.join(arguments or sys.argv[1:])}")
        console.print(compare(places, f"unix://{path}", chosen.rounds))


if __name__ == "__main__":
    main()
