"""What a crash takes back, sends and acks: accidents under load, and what came of the messages.

$ python -m tests.proofs.reliability.crashes
$ python -m tests.proofs.reliability.crashes --accidents 10 --write       # into docs/production.md, too

Each accident has servers of its own, messages that wait, and senders and consumers who keep step. These go on
after it until all is acked.
"""

from __future__ import annotations

import random
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

import click
import pytest
import redis

import rq_dlq
from rq_dlq.client.durability import Durability
from rq_dlq.errors import Unconfirmed
from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import (
    CHUNK,
    Place,
    is_empty,
    note_acked,
    note_got,
    send_chunk,
    steadily,
)
from tests.proofs.reliability.disk import Disk
from tests.proofs.reliability.journal import noted, sums
from tests.proofs.reliability.program import server_version
from tests.servers import Server, wait_until
from tests.servers.sentinels import Watched

WAITING = 3_000  # messages that wait when it begins
SENDERS, CONSUMERS = 2, 2
PACE = 0.2  # seconds between two chunks of a sender
MANY, EACH = 25, 0.05  # messages of a claim, seconds between two: together as many as are sent
LEASE = 10_000
EARLIER = 1.0  # seconds that replication is held back before a failover
MOST = 3  # tries for each accident, at most
PAGE = Path(__file__).parents[3] / "docs" / "production.md"
BEGIN, END = "<!-- crashes -->", "<!-- end of crashes -->"
HEADS = ("accident", "sends confirmed", "of them lost", "messages handled", "of them twice",
         "of these after an `ack()` that had returned")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counts:
    """What came of messages.

    Attributes:
        sent: a sender was told that they are in the queue.
        lost: of these, those that nobody handled, and that are not there.
        handled: a consumer was done with them, and began to ack.
        twice: of these, those that were handled again.
        acked: of these, those whose first ack had returned.
    """

    sent: int = 0
    lost: int = 0
    handled: int = 0
    twice: int = 0
    acked: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Counts)))


def counted(journals: Path, remaining: Sequence[str] = ()) -> Counts:
    """The counts of an accident, by the journals of those who were there."""
    found = sums(journals, remaining)
    handled = Counter(noted(journals, "ack"))
    acked = Counter(noted(journals, "acked"))
    twice = [name for name, times in handled.items() if times > 1]
    return Counts(
        found.acknowledged, len(found.lost), len(handled), len(twice), sum(acked[name] > 1 for name in twice)
    )


class NotStruckError(Exception):
    """The sentinel promoted no replica: it takes none that was cut off for long, as on a busy machine."""


class Scene(Protocol):
    """What an accident happens to."""

    url: str

    def strike(self) -> None:
        """Have the accident, and bring the servers back."""


class Alone:
    """A server with an append-only file, that is killed.

    Args:
        fsync: how often it syncs.
        disk: the seed of a power cut; None: only its process is killed.
    """

    def __init__(self, directory: Path, fsync: str, disk: int | None) -> None:
        directory.mkdir(parents=True)
        self._disk = None if disk is None else Disk(directory, disk)
        options = ("--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0")
        environment = self._disk.environment if self._disk else None
        self.server = Server(directory, *options, environment=environment)
        self.url = self.server.url

    def strike(self) -> None:
        """Kill it, and start it on what is on its disk."""
        self.server.kill()
        if self._disk:
            self._disk.cut()
        self.server.start()


class Pair:
    """A master, its replica and a sentinel.

    Args:
        held: replication is cut a while before.
    """

    def __init__(self, watched: Watched, *, held: bool) -> None:
        self._watched, self._held = watched, held
        self.url = watched.url

    def strike(self) -> None:
        """Kill the master; once the replica is the master, the old one follows it."""
        watched = self._watched
        old, new = watched.servers
        if self._held:
            watched.hold_back(old, new)
            threading.Event().wait(EARLIER)
        old.kill()
        try:
            wait_until(lambda: watched.master() is new)
        except pytest.fail.Exception:
            raise NotStruckError from None
        old.start()
        wait_until(self._follows)
        wait_until(watched.well)

    def _follows(self) -> bool:
        """Whether the old master was told to follow the new one; a busy machine answers late."""
        old, new = self._watched.servers
        with suppress(redis.RedisError):
            self._watched.client(new).config_set("masterauth", "")
            self._watched.follow(old, new)
            return True
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Accident:
    """A kind of accident.

    Attributes:
        words: in the table.
        durability: of the senders.
        fsync, cut: of a server alone; see `Alone`.
        held: of a pair; see `Pair`. None: it is a server alone.
    """

    words: str
    durability: Durability = "memory"
    fsync: str = "everysec"
    cut: bool = False
    held: bool | None = None

    @contextmanager
    def scene(self, directory: Path, seed: int) -> Iterator[Scene]:
        """Servers that run."""
        if self.held is not None:
            options = ("--appendonly", "yes", "--appendfsync", self.fsync)
            with Watched(directory / "servers", *options) as watched:
                yield Pair(watched, held=self.held)
            return
        alone = Alone(directory / "servers", self.fsync, seed if self.cut else None)
        with alone.server:
            yield alone


ACCIDENTS = {
    "kill": Accident(words="`kill -9` of Redis, `appendfsync everysec`"),
    "power": Accident(words="power cut, `appendfsync everysec`", cut=True),
    "fsync": Accident(
        words='power cut, `appendfsync always`, `durability="fsync"`',
        cut=True, fsync="always", durability="fsync",
    ),
    "failover": Accident(words="`kill -9` of the master, Sentinel fails over", held=False),
    "held": Accident(words="the same, replication was cut a second before", held=True),
    "replicated": Accident(
        words='the same, `durability="replicated"`', held=True, durability="replicated"
    ),
}  # fmt: skip


def send_for_ever(place: Place, sender: str) -> None:
    """Send steadily; what is refused or not confirmed is sent again, under the same ids."""
    queue, journal, chunk = place.queue(), place.journal(), 0
    for _ in steadily(PACE):
        try:
            send_chunk(queue, journal, sender, chunk)
            chunk += 1
        except rq_dlq.BrokerRefused:
            journal.note("refused", [])
        except Unconfirmed:
            journal.note("unconfirmed", [])


def consume_for_ever(place: Place) -> None:
    """Claim, handle and ack steadily."""
    queue, journal = place.queue(), place.journal()
    for _ in steadily(EACH):
        if deliveries := queue.claim(MANY, wait="1s"):
            note_got(place, journal, deliveries)
            journal.note("ack", [delivery.id for delivery in deliveries])
            note_acked(journal, queue.ack(deliveries))


def happen(accident: Accident, directory: Path, seed: int, seconds: float) -> Counts:
    """Have one accident after so many seconds of load, and as many seconds of load after it."""
    directory.mkdir(parents=True, exist_ok=True)
    with accident.scene(directory, seed) as scene, ForkedProcesses() as forked:
        place = Place(scene.url, directory / "journals", LEASE, durability=accident.durability)
        queue, journal = place.queue(), place.journal()
        for chunk in range(WAITING // CHUNK):
            send_chunk(queue, journal, "first", chunk)
        for number in range(SENDERS):
            forked.start(f"sender-{number}", send_for_ever, place, f"s{number}")
        for number in range(CONSUMERS):
            forked.start(f"consumer-{number}", consume_for_ever, place)
        _go_on(place.journals, seconds)
        scene.strike()
        _go_on(place.journals, seconds)
        for number in range(SENDERS):
            forked.kill(f"sender-{number}")
        wait_until(lambda: is_empty(queue), 120)
        wait_until(lambda: not _pending(place.journals))
        queue._broker.close()
    return counted(place.journals)


def _go_on(journals: Path, seconds: float) -> None:
    """Wait so long, and until messages are sent and acked."""
    until = time.monotonic() + seconds
    before = _told(journals)
    wait_until(
        lambda: (
            time.monotonic() > until
            and all(now > was for now, was in zip(_told(journals), before, strict=True))
        )
    )


def _told(journals: Path) -> tuple[int, int]:
    """How many sends and acks have returned."""
    return sum(1 for _ in noted(journals, "sent")), sum(1 for _ in noted(journals, "acked"))


def _pending(journals: Path) -> bool:
    """Whether a consumer has not heard what came of its last ack."""
    begun = Counter(noted(journals, "ack"))
    begun.subtract(noted(journals, "acked"))
    begun.subtract(noted(journals, "stale"))
    return any(begun.values())


def as_markdown(found: dict[str, Counts]) -> str:
    """The table."""
    rows = [[ACCIDENTS[name].words, *(f"{getattr(counts, one.name):,}" for one in fields(Counts))]
            for name, counts in found.items()]  # fmt: skip
    lines = [HEADS, ["---", *["---:"] * (len(HEADS) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(text: str, page: Path = PAGE) -> None:
    """Put it into the page."""
    before, rest = page.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*ACCIDENTS]))
@click.option("--accidents", default=4, show_default=True, help="Of each kind.")
@click.option("--seconds", default=3.0, show_default=True, help="Of load, before each and after it.")
@click.option("--seed", type=int, help="Of what a power cut leaves; unless given it is drawn.")
@click.option("--write", "writes", is_flag=True, help=f"Write the table into {PAGE.name}, too.")
def main(names: Sequence[str], accidents: int, seconds: float, seed: int | None, *, writes: bool) -> None:
    """Have accidents of these kinds, or of all, and print what came of the messages."""
    drawn = random.Random(secrets.randbelow(1 << 31) if seed is None else seed)
    found: dict[str, Counts] = {}
    with tempfile.TemporaryDirectory(prefix="rq-dlq-", ignore_cleanup_errors=True) as directory:
        for name in names or ACCIDENTS:
            found[name] = Counts()
            tries = (Path(directory) / f"{name}-{number}" for number in range(MOST * accidents))
            done = 0
            while done < accidents:
                try:
                    counts = happen(ACCIDENTS[name], next(tries), drawn.randrange(1 << 31), seconds)
                except NotStruckError:
                    click.echo(f"{name}: once more, since nothing was promoted", err=True)
                    continue
                found[name], done = found[name] + counts, done + 1
                click.echo(f"{name} {done}: {counts}", err=True)
    head = f"{server_version()}; {accidents} accidents of each kind under load:"
    text = f"{head}\n\n{as_markdown(found)}"
    click.echo(text)
    if writes:
        write(text)


if __name__ == "__main__":
    main()
