"""T11: a partition between a server and its replica, durability "replicated"."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import rq_dlq
from rq_dlq import BrokerUnavailable, Delivery, Message
from rq_dlq._redis.proof import WRITES
from rq_dlq.errors import Unconfirmed
from tests.forked import ForkedProcesses
from tests.proofs.reliability import network
from tests.proofs.reliability.actors import note_acked
from tests.proofs.reliability.findings import audited, counters, wrong
from tests.proofs.reliability.journal import Journal, Sums, noted, sums
from tests.proofs.reliability.network import Hosts
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, online, wait_until

PORT = 6379
WITHIN = "100ms"
CHUNK = 10
UNCONFIRMED = 2  # chunks sent into each partition, so that there is something to be forgotten
HANDLED = 3  # batches that each side handles in each partition
CONTESTED = "contested"  # a queue whose messages are held on both sides
BATCH = 8  # messages that a consumer claims at once


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
            deliveries = queue.claim(BATCH, wait="1s")
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

    def open(self, forked: ForkedProcesses, journals: Path, round_: int) -> None:
        """Two senders and a consumer begin."""
        name = f"{round_}-{self.host}"
        self._clients = [f"send-{name}-1", f"send-{name}-2", f"consume-{name}"]
        for client in self._clients:
            act = consuming if client.startswith("consume") else sending
            forked.start(client, act, self.server.url, journals, client)

    def close(self, forked: ForkedProcesses) -> None:
        """They end."""
        for client in self._clients:
            if client in forked.processes:
                assert forked.alive(client)
                forked.kill(client)

    def stop_consuming(self, forked: ForkedProcesses) -> None:
        """The consumer ends, the senders go on."""
        forked.kill(self._clients[-1])

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


@dataclass
class Partitions:
    """Partitions, one after the other, of the same two servers.

    Attributes:
        seen: what was counted of the deliveries that somebody held on the side that was given up.
        unmarked: sends whose confirmation did not cover a write of their own.
    """

    journals: Path
    forked: ForkedProcesses
    seen: Counter[str] = field(default_factory=Counter[str])
    unmarked: int = 0

    def one(self, old: Site, new: Site, number: int) -> None:
        """The replica is cut off and promoted, both sides go on; then the old master follows the new one."""
        self._wait_for((old, "sent", 1))
        self._contest(old)
        Hosts.cut_off(new.host)
        new.lead()
        new.open(self.forked, self.journals, number)
        sides = (old, new)
        self._wait_for(
            *((side, "unconfirmed", UNCONFIRMED) for side in sides),
            *((side, "acked", HANDLED) for side in sides),
        )
        old.stop_consuming(self.forked)
        with rq_dlq.Broker(old.server.url) as broker:
            held = self._held(broker, f"holder-{number}")
            contested = broker.queue(CONTESTED).claim(BATCH)
        self._wait_for((old, "unconfirmed", UNCONFIRMED))  # seen by nobody before it is forgotten
        old.close(self.forked)
        Hosts.join(new.host)
        old.follow(new)
        wait_until(lambda: online(new.server))
        self._settle(new, held, contested)

    def _contest(self, old: Site) -> None:
        """Send what both sides have; a repeated send has to write, too, or WAIT confirms what was before."""
        with rq_dlq.Broker(old.server.url, durability="replicated", confirm_within="4s") as broker:
            queue, connections = broker.queue(CONTESTED), broker._connected()
            talk = connections._talk

            def watched(commands: list[tuple[Any, ...]]) -> list[Any]:
                names = [command[0] for command in commands]
                if b"WAIT" in names:
                    self.unmarked += names[names.index(b"WAIT") - 1] not in WRITES
                replies: list[Any] = talk(commands)
                return replies

            connections._talk = watched
            queue.send_many([Message(body=0, id=f"{CONTESTED}-{number}") for number in range(BATCH)])

    def _wait_for(self, *wanted: tuple[Site, str, int]) -> None:
        """Until the clients of each side noted its event so often again."""
        ends = [(side, event, side.noted(self.journals, event) + times) for side, event, times in wanted]
        wait_until(lambda: all(side.noted(self.journals, event) >= end for side, event, end in ends))

    def _held(self, broker: rq_dlq.Broker, name: str) -> list[Delivery[Any]]:
        """Messages that are held on the old side while it is given up."""
        queue, journal = broker.queue("work"), Journal(self.journals, name)
        held = queue.claim(BATCH, wait="10s")
        assert held
        journal.note("got", [delivery.id for delivery in held])
        journal.close()
        return held

    def _settle(self, new: Site, held: list[Delivery[Any]], contested: list[Delivery[Any]]) -> None:
        """Their holder comes back, to a server that never heard of its claim: each is refused.

        Some of them are free there or done, and the contested ones are held by another consumer.
        """
        with rq_dlq.Broker(new.server.url) as broker:
            others = broker.queue(CONTESTED).claim(BATCH)
            assert len(others) == len(contested) == BATCH
            told = [*broker.queue("work").ack(held), *broker.queue(CONTESTED).ack(contested)]
            self.seen["taken away"] += sum(not said for said in broker.queue(CONTESTED).ack(others))
        self.seen["held"] += len(told)
        self.seen["refused"] += sum(not said for said in told)


def look(old: Site, new: Site, told: Sums) -> list[str]:
    """What is wrong with the keys of the master and its replica, when nobody talks to them any more."""
    found: list[str] = []
    with old.server.client() as master, new.server.client() as replica:
        wait_until(lambda: online(old.server))
        sent = counters(master, "work").get("sent", 0)
        found += wrong({"confirmed that the queue did not count": max(0, told.acknowledged - sent)})
        for raw in (master, replica):
            found += [*audited(raw, "work"), *audited(raw, CONTESTED)]
    return found


def partition(run: Run) -> Figures:
    """Partitions, one after the other; what was confirmed must be there in the end."""
    rounds = run.pick(short=1, whole=20, soak=500)
    journals = run.directory / "journals"
    with Hosts(2), ForkedProcesses() as forked:
        old, new = Site(1, run.directory), Site(2, run.directory)
        partitions = Partitions(journals, forked)
        with old.server, new.server:
            new.follow(old)
            wait_until(lambda: online(old.server))
            old.open(forked, journals, 0)
            for number in range(1, rounds + 1):
                run.done(number, rounds, f"partition {number}")
                partitions.one(old, new, number)
                old, new = new, old
            old.close(forked)
            with old.server.client() as raw:
                wait_until(lambda: len(raw.client_list(_type="normal")) == 1)
                remaining = {name.decode() for name in raw.hkeys("rq:{work}:messages")}
            told = sums(journals, remaining)
            found = look(old, new, told)
    seen, unconfirmed = partitions.seen, set(noted(journals, "unconfirmed"))
    forgotten = unconfirmed.difference(noted(journals, "got"), remaining)
    found += wrong(
        {
            "lost": len(told.lost),
            "unexpected": len(told.unexpected),
            "stale acks accepted": seen["held"] - seen["refused"],
            "that a stale ack took from their holder": seen["taken away"],
            "confirmations without a write of their own": partitions.unmarked,
            "forgotten too few": max(0, rounds - len(forgotten)),
        }
    )
    counted = [
        f"{len(unconfirmed):,} reported as unconfirmed, of which {len(forgotten):,} were forgotten",
        f"{told.stale + seen['refused']:,} stale acks refused",
        f"{len(told.settled_twice):,} handled on both sides",
    ]
    return Figures(trials=rounds, **told.counts, met=not found, note="; ".join(found + counted))


ROWS = (
    Row(
        "T11",
        "partition of a server from its replica x 20, durability replicated, clients on both sides",
        "0 confirmed lost, every other reported as unconfirmed, 0 stale acks accepted",
        partition,
        missing=network.missing,
    ),
)
