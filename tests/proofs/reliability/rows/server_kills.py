"""T7, T8: the server is killed, and the power is cut, while eight processes send.

Those that need appendfsync always meet a server whose configuration drifts: it is weakened before each kill,
and each restart forgets what was set at run time, until an operator sets it right.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rq_dlq
from rq_dlq.client.durability import Durability
from tests.forked import ForkedProcesses
from tests.proofs.reliability import shims
from tests.proofs.reliability.actors import CHUNK, Place, send_chunk, steadily
from tests.proofs.reliability.disk import Disk
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.journal import Sums, journals, lines, sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, wait_until

SENDERS = 8
LEASE = 30_000
LOSES = 2.0  # seconds of acknowledged messages that `everysec` may lose, as doctor says
PACE = 0.1  # seconds between two chunks of a sender: what is to be loaded at each start stays small
# What keeps a server's append-only file from being rewritten: then its length tells what was lost.
OPTIONS = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
DRIFTS = (("appendfsync", "everysec"), ("appendonly", "no"), ("appendfsync", "no"))  # a kill each, in turn
TAKEN = "taken in by a server that had drifted"
COUNTERS = "rq:{work}:counters"

Sizes = dict[str, int]  # of journals, bytes by their names


@dataclass
class Trials:
    """Kills of one server under load, and what came of them.

    Attributes:
        fsync: how often it syncs; if always, its senders need that, and it drifts.
        taken: messages that it took in while it kept less than its senders need.
    """

    run: Run
    fsync: str
    kills: int
    between: float  # seconds
    cut: bool
    bytes_lost: int = 0
    taken: int = 0
    found: list[str] = field(default_factory=list)
    windows: list[tuple[Sizes, Sizes]] = field(default_factory=list)  # LOSES before each kill; after it

    @property
    def journals(self) -> Path:
        """What the senders wrote."""
        return self.run.directory / self.fsync / "journals"

    def make(self) -> Sums:
        """Kill it, start it again, and count in the end."""
        directory = self.run.directory / self.fsync
        directory.mkdir()
        disk = Disk(directory, self.run.seed) if self.cut else None
        promised: Durability = "fsync" if self.fsync == "always" else "memory"
        forgotten = "everysec" if promised == "fsync" else self.fsync  # what a start finds
        environment = disk.environment if disk else None
        server = Server(directory, *OPTIONS, "--appendfsync", forgotten, environment=environment)
        place = Place(server.url, self.journals, LEASE, durability=promised)
        with server, ForkedProcesses() as forked:
            for number in range(SENDERS):
                forked.start(f"sender-{number}", send_steadily, place, f"s{number}")
            self._set_right(server)
            for kill in range(self.kills):
                self.run.done(kill, self.kills, f"{self.fsync}, {'cuts' if disk else 'kills'}: {kill}")
                early = self._wait_for_work(server, place)
                self._drift(server, *DRIFTS[kill % len(DRIFTS)])
                server.kill()
                self.bytes_lost += disk.cut() if disk else 0
                server.start()
                self._set_right(server)
                self.windows.append((early, _sizes(place.journals)))
            self._wait_for_work(server, place)
            for number in range(SENDERS):
                assert forked.alive(f"sender-{number}")
                forked.kill(f"sender-{number}")
            return self._count(server, place)

    def _wait_for_work(self, server: Server, place: Place) -> Sizes:
        """Until it has taken messages for a while; how long the journals were LOSES before its end."""
        seen: list[tuple[float, Sizes]] = []

        def enough() -> bool:
            seen.append((time.monotonic(), _sizes(place.journals)))
            return seen[-1][0] > until and _sent(raw) > before

        with server.client() as raw:
            before = _sent(raw)
            until = time.monotonic() + self.between
            wait_until(enough)
        end = seen[-1][0]
        earlier = [sizes for moment, sizes in seen if moment < end - LOSES] or [{}]
        return earlier[-1]

    def _drift(self, server: Server, name: str, value: str) -> None:
        """Weaken the server, and close all connections in the same moment: each sender has to look again."""
        if self.fsync == "always":
            with server.client() as raw, raw.pipeline() as at_once:
                at_once.config_set(name, value)
                at_once.client_kill_filter(_type="normal", skipme=True)
                at_once.hget(COUNTERS, "sent")
                *_, sent = at_once.execute()
                self._see_them_refused(raw, int(sent))

    def _set_right(self, server: Server) -> None:
        """Do what an operator does after a restart that forgot it, once each sender has noticed."""
        if self.fsync == "always":
            with server.client() as raw:
                self._see_them_refused(raw, _sent(raw))
                raw.config_set("appendfsync", "always")

    def _see_them_refused(self, raw: Any, sent: int) -> None:
        """Wait until each sender is refused; or, where none is, until they have sent for a while."""
        before = _sizes(self.journals)
        wait_until(lambda: self._refused(before) == SENDERS or _sent(raw) > sent + SENDERS * CHUNK)
        self.taken += _sent(raw) - sent

    def _refused(self, before: Sizes) -> int:
        """How many senders have been refused since their journals were so long."""
        return sum(
            any(said == "refused" for said, _ in lines(path, before.get(path.name, 0)))
            for path in journals(self.journals)
        )

    def _count(self, server: Server, place: Place) -> Sums:
        with server.client() as raw:
            wait_until(lambda: len(raw.client_list()) == 1)  # what the senders said last is done
            self.found += audited(raw, "work") if not self.cut else []
            remaining = drained(place)
            left = {key for key in raw.keys("rq:{work}:*") if raw.ttl(key) < 0}
            if left := left - {COUNTERS.encode(), b"rq:{work}:settings"}:
                self.found.append(f"left behind: {left}")
        return sums(place.journals, remaining)


def drained(place: Place) -> list[str]:
    """What a queue hands out until it is empty.

    At the end of a file that was cut a server may find half of what a script did (Redis 7.0 takes
    it, where the cut is inside a command): it is like a script that was stopped, and mended in the same way.
    """
    queue = place.queue()
    came: list[str] = []
    while claimed := queue.claim(1_000, wait="1s"):
        came += [delivery.id for delivery in claimed]
        queue.ack(claimed)
    queue.maintain()
    queue._broker.close()
    return came


def not_kept(run: Run) -> list[str]:
    """Where servers that do not sync before they answer are taken for ones that do."""
    taken = [fsync for fsync in ("everysec", "no") if not is_refused(run, fsync)]
    return [f"a sender that needs appendfsync always takes {fsync}" for fsync in taken]


def is_refused(run: Run, fsync: str) -> bool:
    """Whether such a sender refuses such a server, and writes nothing."""
    server = Server(run.directory / f"{fsync}, refused", *OPTIONS, "--appendfsync", fsync)
    with server, server.client() as raw, rq_dlq.Broker(server.url, durability="fsync") as broker:
        try:
            broker.queue("work").send(0)
        except rq_dlq.BrokerRefused as error:
            return "appendfsync" in str(error) and raw.dbsize() == 0
    return False


def send_steadily(place: Place, sender: str) -> None:
    """Send for ever, but no faster than PACE; a chunk that is refused is sent again, under the same ids."""
    queue, journal, chunk = place.queue(), place.journal(), 0
    for _ in steadily(PACE):
        try:
            send_chunk(queue, journal, sender, chunk)
            chunk += 1
        except rq_dlq.BrokerRefused:
            journal.note("refused", [])  # without its ids: an earlier try may have brought them in


def _sizes(journals: Path) -> Sizes:
    return {path.name: path.stat().st_size for path in journals.glob("*.journal")}


def _sent(raw: Any) -> int:
    return int(raw.hget(COUNTERS, "sent") or 0)


def kills(run: Run) -> Figures:
    """SIGKILL of a server that syncs before it answers."""
    times = run.pick(short=5, whole=50, soak=1_000)
    trials = Trials(run, "always", times, 0.3, cut=False)
    found = trials.make()
    enough = run.pick(short=1_000, whole=50_000)
    more = {"acknowledged too few": max(0, enough - found.acknowledged), TAKEN: trials.taken}
    faults = [*wrong(found.faults | more), *trials.found, *not_kept(run)]
    return _figures(times, found, faults, ["before it was drained all keys agreed with each other"])


def cuts(run: Run) -> Figures:
    """Power cuts, by how often the server syncs."""
    times = run.pick(short=3, whole=20, soak=200)
    sure = Trials(run, "always", times, 0.2, cut=True)
    found = sure.make()
    notes = [f"{sure.bytes_lost:,} bytes never reached the disk", _lost("always", found)]
    faults = [*wrong(found.faults | {TAKEN: sure.taken}), *sure.found, *not_kept(run)]
    for fsync, between in (("everysec", 2.6), ("no", 0.2)) if run.scale != "short" else ():
        trials = Trials(run, fsync, times, between, cut=True)
        risky = trials.make()
        late = fsync == "no" or lost_late(trials, risky)
        faults += [*wrong({f"unexpected, {fsync}": len(risky.unexpected)}), *trials.found]
        faults += [] if late else [f"{fsync}: lost what was acknowledged {LOSES} s before the cut"]
        notes.append(_lost(fsync, risky))
    done = times if run.scale == "short" else 3 * times
    return _figures(done, found, faults, notes)


def _lost(fsync: str, found: Sums) -> str:
    return f"{fsync}: {len(found.lost):,} of {found.acknowledged:,} acknowledged lost"


def lost_late(trials: Trials, found: Sums) -> bool:
    """Whether all that was lost had been acknowledged in the last two seconds before a cut."""
    lost = set(found.lost)
    for journal in trials.journals.glob("*.journal"):
        at = 0
        for line in journal.read_bytes().splitlines(keepends=True):
            event, *ids = line.decode().split()
            windows = (
                (early.get(journal.name, 0), late.get(journal.name, 0)) for early, late in trials.windows
            )
            if event == "sent" and lost.intersection(ids) and not any(a <= at <= b for a, b in windows):
                return False
            at += len(line)
    return True


def _figures(trials: int, found: Sums, faults: list[str], notes: list[str]) -> Figures:
    return Figures(
        trials=trials,
        **found.counts,
        early=found.early,
        met=not faults,
        note="; ".join(faults + notes),
    )


ROWS = (
    Row(
        "T7",
        "the server is killed x 50, 8 senders that need appendfsync always; its configuration drifts before "
        "each kill and is forgotten by each restart, until an operator sets it right",
        "0 lost, 0 torn, none taken in by a server that had drifted; 50,000 acknowledged",
        kills,
    ),
    Row(
        "T8",
        "power cuts x 20 each: appendfsync always, of which senders see it drift as in T7; everysec; no",
        "always: 0 lost, none taken in by a server that had drifted; the others: what doctor says",
        cuts,
        missing=shims.missing,
    ),
)
