"""An outage fills a dead-letter queue; find its letters among others, mend, and redrive them.

make triage-demo, or

python -m tests.triage --letters 400 --poisons 50

The whole way is walked on the command line, against a Redis of its own. A canary fails and stops its
redrive; the process of the next redrive is killed half-way, and `rq-dlq maintain` goes on with it. At the end
each order has to be charged once, and what is beyond help still dead.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rq_dlq import Broker, Queue
from tests.servers import running, wait_until
from tests.triage import shop
from tests.triage.walk import Walk, WentWrongError

APP = "tests.triage.shop:broker"
SECONDS = 4  # that the redrive takes at its rate


def outage(walk: Walk, directory: Path, letters: int, poisons: int) -> list[str]:
    """Send the orders and let them die; the ids."""
    file = directory / "orders.jsonl"
    file.write_text("".join(f"{json.dumps(body)}\n" for body in shop.bodies(letters, poisons)))
    ids = walk("send", "orders", str(file), "--jsonl", "--ids", most=2).split()
    walk("worker", APP, "--burst", most=3)
    walk("queue", "ls")
    return ids


def find(walk: Walk, orders: Queue[Any], letters: int) -> str:
    """The group that the outage left."""
    walk("dlq", "groups", "orders")
    largest = orders.dlq.groups()[0]
    expect("letters in the largest group", largest.count, letters)
    return largest.fingerprint


def canary_fails(walk: Walk, orders: Queue[Any], group: str, canary: int) -> None:
    """Redrive while the service is still down: it stops by itself. Give it up."""
    walk("dlq", "redrive", "orders", "--group", group, "--canary", str(canary), "--yes", code=4)
    (job,) = orders.dlq.jobs()
    expect(
        "its state, moved, died", (job.state, job.counts.moved, job.counts.died), ("paused", canary, canary)
    )
    walk("dlq", "jobs", "orders", job.id, "cancel")


def redrive_half(walk: Walk, orders: Queue[Any], group: str, letters: int, canary: int) -> str:
    """Redrive them, and kill that process half-way; the redrive."""
    rate = max(1, letters // SECONDS)
    options = "--canary", str(canary), "--rate", str(rate), "--by", "anna", "--yes", "-o", "jsonl"
    with walk.start("dlq", "redrive", "orders", "--group", group, *options) as process:
        assert process.stdout is not None
        events = (json.loads(line) for line in process.stdout)
        half = next((event for event in events if event["moved"] >= letters // 2), None)
        process.kill()
    if half is None:
        raise WentWrongError("the redrive ended before half of it was done")
    walk.console.print(f"  killed (SIGKILL) after {half['moved']} of {letters}")
    expect("its state", orders.dlq.job(half["job"]).state, "running")
    return str(half["job"])


def go_on(walk: Walk, orders: Queue[Any], job: str, letters: int) -> None:
    """Leave the rest to maintenance."""
    with walk.beside("maintain", "--roles", "redrives"):
        redrive = orders.dlq.job(job)
        wait_until(lambda: redrive.refresh().counts.acked == letters)
    walk("dlq", "jobs", "orders")


def sums(broker: Broker, directory: Path, ids: list[str], poisons: int, job: str) -> None:
    """Check that nothing was lost or doubled."""
    orders = broker.queue("orders")
    charged = Counter((directory / shop.CHARGES).read_text().split())
    dead = {letter.id for letter in orders.dlq.browse(limit=None)}
    stats, counts = orders.stats(), orders.dlq.job(job).counts
    did = [(record.did, record.by) for record in reversed(broker.audit()) if record.job == job]
    letters = len(ids) - poisons
    expect("charges of one order at most", max(charged.values()), 1)
    expect("orders charged or dead", {*charged} | dead, {*ids})
    expect("charged, dead", (len(charged), len(dead)), (letters, poisons))
    expect("ready, scheduled, leased", (stats.ready, stats.scheduled, stats.leased), (0, 0, 0))
    expect("moved, gone", (counts.moved, counts.gone), (letters, 0))
    expect("acked, died", (counts.acked, counts.died), (letters, 0))
    expect("the audit", did, [("started", "anna"), ("done", "anna")])


def expect(what: str, found: object, wanted: object) -> None:
    """Check a sum.

    Raises:
        WentWrongError: it is another.
    """
    if found != wanted:
        raise WentWrongError(f"{what}: {found!r} in place of {wanted!r}")


def walked(walk: Walk, broker: Broker, directory: Path, letters: int, poisons: int) -> None:
    """The whole way.

    Raises:
        WentWrongError: it led elsewhere.
    """
    orders, canary = broker.queue("orders"), max(2, letters // 20)
    with walk.step("an outage: the dead letters grow"):
        ids = outage(walk, directory, letters, poisons)
    with walk.step("which of them are of one kind?"):
        group = find(walk, orders, letters)
    with walk.step("what is it?"):
        walk("dlq", "show", "orders", group)
    with walk.step("what would come back?"):
        walk("dlq", "redrive", "orders", "--group", group, "--dry-run")
    with walk.beside("worker", APP):
        with walk.step("too early: the canary fails, and the redrive stops by itself"):
            canary_fails(walk, orders, group, canary)
        with walk.step("the service is mended: redrive, until this process is killed half-way"):
            (directory / shop.UP).touch()
            job = redrive_half(walk, orders, group, letters, canary)
        with walk.step("maintenance goes on with it, ten seconds after its last step"):
            go_on(walk, orders, job, letters)
    with walk.step("the sums"):
        walk("dlq", "groups", "orders")
        sums(broker, directory, ids, poisons, job)
        walk.console.print(f"  {len(ids)} orders: {letters} charged, each once; {poisons} dead; none lost")


def main(words: list[str] | None = None) -> int:
    """Walk it; 1: something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.triage", description=__doc__.partition("\n")[0])
    parser.add_argument("--letters", type=int, default=400, help="that the outage leaves")
    parser.add_argument("--poisons", type=int, default=50, help="that fail always")
    asked = parser.parse_args(words)
    with running() as socket, tempfile.TemporaryDirectory(prefix="rq-dlq-triage-") as directory:
        url = f"unix://{socket}"
        walk = Walk({"RQ_DLQ_URL": url, "TRIAGE_DIRECTORY": directory})
        try:
            with Broker(url) as broker:
                walked(walk, broker, Path(directory), asked.letters, asked.poisons)
        except WentWrongError as error:
            walk.console.print(f"went wrong: {error}", style="red", markup=False)
            return 1
        walk.console.print()
        walk.summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
