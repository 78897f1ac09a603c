"""T11: a partition between a server and its replica, durability "replicated"."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import rq_dlq
from rq_dlq import BrokerUnavailable, Message
from rq_dlq.errors import Unconfirmed
from tests.reliability import network
from tests.reliability.actors import note_acked
from tests.reliability.crowd import Crowd
from tests.reliability.journal import Journal, noted, sums
from tests.reliability.network import Hosts
from tests.reliability.row import Figures, Row, Run
from tests.servers import Server, online, wait_until

PORT = 6379
WITHIN = "100ms"
CHUNK = 10
UNCONFIRMED = 3  # chunks sent into each partition, so that there is something to be forgotten


def sending(url: str, journals: Path, sender: str) -> None:
    """Send for ever; note as sent only what was confirmed."""
    queue = rq_dlq.Broker(url, durability="replicated", confirm_within=WITHIN).queue("work")
    journal = Journal(journals, sender)
    for chunk in count():
        ids = [f"{sender}-{number}" for number in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
        journal.note("send", ids)
        try:
            queue.send_many([Message(body=0, id=name) for name in ids])
        except Unconfirmed as error:
            journal.note("unconfirmed", error.ids)
        except BrokerUnavailable:
            pass  # of unknown outcome
        else:
            journal.note("sent", ids)


def consuming(url: str, journals: Path, name: str) -> None:
    """Claim and ack for ever."""
    queue, journal = rq_dlq.Broker(url).queue("work"), Journal(journals, name)
    while True:
        try:
            deliveries = queue.claim(8, wait="1s")
            ids = [delivery.id for delivery in deliveries]
            journal.note("got", ids)
            journal.note("ack", ids)
            note_acked(journal, queue.ack(deliveries))
        except BrokerUnavailable:
            continue


class Site:
    """A server on a host of its own, and who talks to it."""

    def __init__(self, host: int, directory: Path) -> None:
        self.host = host
        options = ("--bind", "0.0.0.0", "--protected-mode", "no", "--repl-diskless-sync-delay", "0")  # noqa: S104
        self.server = Server(directory / f"server-{host}", *options, port=PORT, inside=Hosts.inside(host))
        self._clients: list[str] = []

    def open(self, crowd: Crowd, journals: Path, round_: int) -> None:
        """Two senders and a consumer begin."""
        name = f"{round_}-{self.host}"
        self._clients = [f"send-{name}-1", f"send-{name}-2", f"consume-{name}"]
        for client in self._clients:
            act = consuming if client.startswith("consume") else sending
            crowd.start(client, act, self.server.url, journals, client)

    def close(self, crowd: Crowd) -> None:
        """They end."""
        for client in self._clients:
            if client in crowd.processes:
                assert crowd.alive(client)
                crowd.kill(client)

    def stop_consuming(self, crowd: Crowd) -> None:
        """The consumer ends, the senders go on."""
        crowd.kill(self._clients[-1])

    def noted(self, journals: Path, event: str) -> int:
        """How often its clients noted this."""
        files = (journals / f"{client}.journal" for client in self._clients)
        return sum(path.read_text().count(f"{event} ") for path in files if path.exists())

    def follow(self, master: Site) -> None:
        """Become the replica of another."""
        with self.server.client() as raw:
            raw.replicaof(Hosts.address(master.host), PORT)

    def lead(self) -> None:
        """Become the master."""
        with self.server.client() as raw:
            raw.replicaof("NO", "ONE")


def one_round(old: Site, new: Site, crowd: Crowd, journals: Path, number: int) -> None:
    """The replica is cut off and promoted, both sides go on; then the old master follows the new one."""
    confirmed = old.noted(journals, "sent")
    wait_until(lambda: old.noted(journals, "sent") > confirmed, 20)
    Hosts.cut_off(new.host)
    told = old.noted(journals, "unconfirmed")
    wait_until(lambda: old.noted(journals, "unconfirmed") >= told + UNCONFIRMED, 20)
    old.stop_consuming(crowd)  # what comes now is seen by nobody before it is forgotten
    told = old.noted(journals, "unconfirmed")
    wait_until(lambda: old.noted(journals, "unconfirmed") >= told + UNCONFIRMED, 20)
    new.lead()
    new.open(crowd, journals, number)
    wait_until(lambda: new.noted(journals, "unconfirmed") >= UNCONFIRMED, 20)
    old.close(crowd)
    Hosts.join(new.host)
    old.follow(new)
    wait_until(lambda: online(new.server), 20)


def partition(run: Run) -> Figures:
    """Partitions, one after the other; what was confirmed must be there in the end."""
    rounds = run.pick(short=1, whole=20, soak=500)
    journals = run.directory / "journals"
    with Hosts(2), Crowd() as crowd:
        old, new = Site(1, run.directory), Site(2, run.directory)
        with old.server, new.server:
            new.follow(old)
            wait_until(lambda: online(old.server), 20)
            old.open(crowd, journals, 0)
            for number in range(1, rounds + 1):
                run.done(number, rounds, f"partition {number}")
                one_round(old, new, crowd, journals, number)
                old, new = new, old
            old.close(crowd)
            with old.server.client() as raw:
                remaining = {name.decode() for name in raw.hkeys("rq:{work}:messages")}
    found = sums(journals, remaining)
    unconfirmed = set(noted(journals, "unconfirmed"))
    forgotten = unconfirmed.difference(noted(journals, "got"), remaining)
    return Figures(
        trials=rounds,
        **found.counts,
        met=not found.lost and not found.unexpected and bool(forgotten),
        note=f"{len(unconfirmed):,} said to be unconfirmed, of which {len(forgotten):,} were forgotten",
    )


ROWS = (
    Row(
        "T11",
        "partition of a server from its replica x 20, durability replicated, clients on both sides",
        "0 confirmed lost, every other said to be unconfirmed",
        partition,
        missing=network.missing,
    ),
)
