"""What both walks have in common: the outage of the shop, its mend, and what has to come of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rq_dlq import Broker, Queue
from tests.proofs.triage import shop
from tests.proofs.triage.walk import Walk, WentWrongError

APP = "tests.proofs.triage.shop:broker"
DEPENDENCY = "payments"
SECONDS = 4  # that a redrive takes at its rate


@dataclass(frozen=True)
class Outage:
    """An outage of the shop's payment service.

    Attributes:
        directory: where the shop keeps its files.
        letters: that the outage leaves.
        poisons: orders that fail always.
    """

    directory: Path
    broker: Broker
    letters: int
    poisons: int

    @property
    def orders(self) -> Queue[Any]:
        """The queue of the shop."""
        return self.broker.queue("orders")

    @property
    def canary(self) -> int:
        """How many letters a redrive brings back first."""
        return max(2, self.letters // 20)

    @property
    def rate(self) -> int:
        """How many letters a redrive brings back a second."""
        return max(1, self.letters // SECONDS)

    def happen(self, walk: Walk) -> list[str]:
        """Send the orders and let them die; the ids."""
        file = self.directory / "orders.jsonl"
        bodies = shop.bodies(self.letters, self.poisons)
        file.write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
        ids = walk("send", "orders", str(file), "--jsonl", "--ids", most=2).split()
        walk("worker", APP, "--burst", most=3)
        return ids

    def mend(self) -> None:
        """The service answers again."""
        (self.directory / shop.UP).touch()

    def come_again(self, walk: Walk) -> list[str]:
        """The service is down again, and as many orders come that say that they need it; their ids."""
        (self.directory / shop.UP).unlink()
        file = self.directory / "more.jsonl"
        file.write_text("".join(f"{json.dumps(body)}\n" for body in shop.bodies(self.letters, 0)))
        words = ("--jsonl", "--ids", "--dependency", DEPENDENCY)
        return walk("send", "orders", str(file), *words, most=2).split()

    def check_sums(self, ids: list[str]) -> None:
        """Check that nothing was lost or doubled."""
        charged = Counter((self.directory / shop.CHARGES).read_text().split())
        dead = {letter.id for letter in self.orders.dlq.browse(limit=None)}
        stats = self.orders.stats()
        expect("charges of one order at most", max(charged.values()), 1)
        expect("orders charged or dead", {*charged} | dead, {*ids})
        expect("charged, dead", (len(charged), len(dead)), (self.letters, self.poisons))
        expect("ready, scheduled, leased", (stats.ready, stats.scheduled, stats.leased), (0, 0, 0))

    def counted(self) -> tuple[int, int]:
        """How many orders were charged, and how many are dead."""
        return len((self.directory / shop.CHARGES).read_text().split()), self.orders.stats().dead

    def check_redrive(self, job: str, moved: int, died: int, *did: str, by: str) -> None:
        """Check what a redrive counted, and what the audit says of it."""
        counts = self.orders.dlq.job(job).counts
        audit = [record for record in reversed(self.broker.audit()) if record.job == job]
        expect("moved, gone", (counts.moved, counts.gone), (moved, 0))
        expect("acked, died", (counts.acked, counts.died), (moved - died, died))
        wanted = [(word, "its canary" if word == "paused" else by) for word in did]
        expect("the audit", [(record.did, record.by) for record in audit], wanted)


def expect(what: str, found: object, wanted: object) -> None:
    """Check a sum.

    Raises:
        WentWrongError: it is another.
    """
    if found != wanted:
        raise WentWrongError(f"{what}: {found!r} in place of {wanted!r}")
