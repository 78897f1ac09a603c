"""The walk on the command line.

A canary fails and stops its redrive; the process of the next redrive is killed half-way, and
`rq-dlq maintain` goes on with it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tests.proofs.triage.outage import APP, DEPENDENCY, Outage, expect
from tests.proofs.triage.walk import Walk, WentWrongError
from tests.servers import wait_until


def walked(walk: Walk, outage: Outage) -> None:
    """The whole way.

    Raises:
        WentWrongError: it led elsewhere.
    """
    with walk.step("an outage: the dead letters grow"):
        ids = outage.happen(walk)
        walk("queue", "ls")
    with walk.step("which of them are of one kind?"):
        group = _find(walk, outage)
    with walk.step("what is it?"):
        walk("dlq", "show", "orders", group)
    with walk.step("what would come back?"):
        walk("dlq", "redrive", "orders", "--group", group, "--dry-run")
    with walk.beside("worker", APP):
        with walk.step("too early: the canary fails, and the redrive stops by itself"):
            _canary_fails(walk, outage, group)
        with walk.step("the service is mended: redrive, until this process is killed half-way"):
            outage.mend()
            job = _redrive_half(walk, outage, group)
        with walk.step("maintenance goes on with it, ten seconds after its last step"):
            _go_on(walk, outage, job)
    with walk.step("the sums"):
        walk("dlq", "groups", "orders")
        outage.check_sums(ids)
        outage.check_redrive(job, outage.letters, 0, "started", "done", by="anna")
    with walk.step("minutes after the last death it is over: calm in one branch, still new in another"):
        _over(walk, outage)
    with walk.step("orders that can be mended are edited, and charged"), walk.beside("worker", APP):
        mended = _edit(walk, outage)
    with walk.step("those that nobody can mend are purged; the audit says who did what"):
        _purge(walk, outage, mended)
    with walk.step("the next outage kills nobody: the queue has a breaker"), walk.beside("worker", APP):
        _wait(walk, outage)


def _over(walk: Walk, outage: Outage) -> None:
    """Two branches had these letters, too: in one the last died six minutes ago, in the other just now."""
    letters = [json.loads(line) for line in walk("dlq", "export", "orders", most=1).splitlines()]
    for branch, ago, trends in (("ulm", timedelta(minutes=6), set()), ("bonn", timedelta(0), {"new"})):
        died_at = (datetime.now(UTC) - ago).isoformat()
        file = outage.directory / f"{branch}.jsonl"
        file.write_text("".join(f"{json.dumps({**letter, 'died_at': died_at})}\n" for letter in letters))
        walk("dlq", "import", branch, str(file))
        found = {word for group in outage.broker.queue(branch).dlq.groups() for word in group.trends}
        expect(f"the trends in {branch}", found - {"growing"}, trends)
    shown = walk("top", "--once", "--every", "200ms")
    troubles = shown.partition("\nqueue ")[2].partition("\nqueue ")[0]
    rows = [line for line in troubles.splitlines() if line.startswith(("ulm", "bonn"))]
    undecided = [row.split()[0] for row in rows if "wait for a decision" in row]
    expect("the branches that wait for a decision", undecided, ["ulm"])
    expect(
        "the branches in trouble", [one for row in rows if (one := row.split()[0]) not in undecided], ["bonn"]
    )


def _edit(walk: Walk, outage: Outage) -> int:
    """Give what has no price one; how many that were."""
    which = ("--where", "body.price = 'free'", "--edit", json.dumps({"price": 9.5}))
    number = outage.orders.dlq.select("body.price = 'free'").count()
    walk("dlq", "redrive", "orders", *which, "--dry-run")
    walk("dlq", "redrive", "orders", *which, "--yes", "--by", "anna")
    wait_until(lambda: outage.counted() == (outage.letters + number, outage.poisons - number))
    return number


def _purge(walk: Walk, outage: Outage, mended: int) -> None:
    """Remove what nobody can mend, in many calls; it is one record."""
    walk("dlq", "purge", "orders", "--all", "--yes", "--by", "anna")
    walk("audit", "orders", "--limit", "3")
    newest = outage.broker.audit(1, queue="orders")[0]
    found = (newest.did, newest.by, newest.number)
    expect("the newest record", found, ("purged", "anna", outage.poisons - mended))


def _wait(walk: Walk, outage: Outage) -> None:
    """What needs the service waits, uncharged, and is charged for when it is mended."""
    breaker = ("--breaker", "distinct=5 probe=200ms longest_probe=1s")
    walk("policy", "set", "orders", "--max-redeliveries", "3", "--initial-delay", "200ms", *breaker, "--pin")
    charged, dead = outage.counted()
    ids, payments = outage.come_again(walk), outage.orders.dependency(DEPENDENCY)
    wait_until(lambda: payments.stats().open and outage.orders.stats().leased == 0)
    walk("queue", "ls", "--dependencies")
    waiting = payments.stats().waiting
    walk("msg", "explain", "orders", ids[-1])
    outage.mend()
    wait_until(lambda: outage.counted() == (charged + len(ids), dead))
    walk.console.print(f"  {waiting} of {len(ids)} orders waited; none died")
    expect("the dead", outage.orders.stats().dead, dead)


def _find(walk: Walk, outage: Outage) -> str:
    """The group that the outage left."""
    walk("dlq", "groups", "orders")
    largest = outage.orders.dlq.groups()[0]
    expect("letters in the largest group", largest.count, outage.letters)
    return largest.fingerprint


def _canary_fails(walk: Walk, outage: Outage, group: str) -> None:
    """Redrive while the service is still down: it stops by itself. Give it up."""
    canary = outage.canary
    walk("dlq", "redrive", "orders", "--group", group, "--canary", str(canary), "--yes", code=4)
    (job,) = outage.orders.dlq.jobs()
    found = (job.state, job.counts.moved, job.counts.died)
    expect("its state, moved, died", found, ("paused", canary, canary))
    walk("dlq", "jobs", "orders", job.id, "cancel")


def _redrive_half(walk: Walk, outage: Outage, group: str) -> str:
    """Redrive them, and kill that process half-way; the redrive."""
    terms = "--canary", str(outage.canary), "--rate", str(outage.rate), "--by", "anna"
    with walk.start("dlq", "redrive", "orders", "--group", group, *terms, "--yes", "-o", "jsonl") as process:
        assert process.stdout is not None
        events = (json.loads(line) for line in process.stdout)
        half = next((event for event in events if event["moved"] >= outage.letters // 2), None)
        process.kill()
    if half is None:
        raise WentWrongError("the redrive ended before half of it was done")
    walk.console.print(f"  killed (SIGKILL) after {half['moved']} of {outage.letters}")
    expect("its state", outage.orders.dlq.job(half["id"]).state, "running")
    return str(half["id"])


def _go_on(walk: Walk, outage: Outage, job: str) -> None:
    """Leave the rest to maintenance."""
    with walk.beside("maintain", "--roles", "redrives"):
        redrive = outage.orders.dlq.job(job)
        wait_until(lambda: redrive.refresh().counts.acked == outage.letters)
    walk("dlq", "jobs", "orders")
