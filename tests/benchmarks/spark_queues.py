"""What a stream over many queues asks of Redis: an idle look, and a trigger with work in each queue.

The methods of the source are called as Spark calls them, without a Spark. Reading the rows is not in it.

    python -m tests.benchmarks.spark_queues --queues 200
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any
from unittest import mock

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker
from rq_dlq._redis.blocking import link
from rq_dlq.spark import MESSAGE
from rq_dlq.spark.options import StreamOptions
from rq_dlq.spark.stream import StreamReader
from tests import servers
from tests.benchmarks.heading import heading

EACH = 20  # messages of a queue in a trigger
LOOKS = ("idle look", "busy trigger")


@contextmanager
def trips() -> Iterator[Callable[[], int]]:
    """Count the round trips of this process, waits left out."""
    made: list[int] = []
    talk = link.replies_to

    def counted(connection: Any, commands: Any) -> Any:
        if commands[0][0] != b"BLPOP":
            made.append(len(commands))
        return talk(connection, commands)

    with mock.patch.object(link, "replies_to", counted):
        yield lambda: len(made)


def spent(raw: Any) -> tuple[int, float]:
    """Commands, and milliseconds of Redis' thread, so far."""
    used = raw.info()
    seconds = used["used_cpu_user_main_thread"] + used["used_cpu_sys_main_thread"]
    return used["total_commands_processed"], 1000 * seconds


class Stream:
    """A stream over all queues of a server."""

    def __init__(self, url: str) -> None:
        options = {"queue": "orders.*", "url": url, "maxWait": "0", "lease": "1h"}
        self._reader: Any = StreamReader(StreamOptions.of(options), MESSAGE)
        self._limit = self._reader.getDefaultReadLimit()
        self._offset = self._reader.initialOffset()

    def trigger(self) -> int:
        """One look of Spark, and the plan of the batch if there is one; how many tasks it has."""
        start, self._offset = self._offset, self._reader.latestOffset(self._offset, self._limit)
        self._reader.reportLatestOffset()
        return len(self._reader.partitions(start, self._offset)) if self._offset != start else 0

    def stop(self) -> None:
        """As at the end of the query."""
        self._reader.stop()


def measure(url: str, raw: Any, queues: int, rounds: int) -> dict[str, list[tuple[int, int, float]]]:
    """Round trips, commands and milliseconds of each look and each trigger."""
    seen: dict[str, list[tuple[int, int, float]]] = {name: [] for name in LOOKS}
    with Broker(url) as broker, trips() as made, mock.patch.object(signal, "signal"):
        names = [f"orders.{number}" for number in range(queues)]
        for name in names:
            broker.queue(name).open()
        stream = Stream(url)

        def look(name: str) -> None:
            before, trips_before = spent(raw), made()
            if bool(stream.trigger()) != (name == "busy trigger"):
                raise RuntimeError(f"no {name}")
            commands, milliseconds = (now - then for now, then in zip(spent(raw), before, strict=True))
            seen[name].append((made() - trips_before, int(commands), milliseconds))

        for name in LOOKS:
            for _ in range(rounds + 1):
                if name == "busy trigger":
                    for each in names:
                        broker.queue(each).send_many(range(EACH))
                look(name)
        stream.stop()
    return {name: looks[1:] for name, looks in seen.items()}  # the first opens the queues


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    with servers.running() as path:
        raw: Any = redis.Redis(unix_socket_path=path)
        table = Table("", "round trips", "commands", "ms of Redis' thread", title=f"{chosen.queues} queues")
        for name, looks in measure(f"unix://{path}", raw, chosen.queues, chosen.rounds).items():
            each = [median(column) for column in zip(*looks, strict=True)]
            table.add_row(name, *(f"{figure:,.0f}" for figure in each[:2]), f"{each[2]:.1f}")
        console = Console()
        console.print(heading("tests.benchmarks.spark_queues", path), markup=False)
        console.print(table)


if __name__ == "__main__":
    main()
