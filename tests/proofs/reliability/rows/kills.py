"""T5: workers and senders are killed, workers freeze beyond their lease and wake up again."""

from __future__ import annotations

import time
from typing import Any

from tests.forked import ForkedProcesses
from tests.proofs.reliability.actors import Place
from tests.proofs.reliability.findings import audited, counters, remaining, unexplained, wrong
from tests.proofs.reliability.journal import sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.trial import Plan, Trial, heard, is_real


def judge(plan: Plan, place: Place, raw: Any, trial: Trial, took: float) -> Figures:
    """Compare what the processes wrote with what the queue counted, and with what is left of it."""
    done, left = trial.done, remaining(raw, place.names)
    told, totals = sums(place.journals, left), counters(raw, *place.names)
    held = sum(len(zombie.held) for zombie in done.frozen)
    refused = sum(
        len(heard(place.journals, zombie, "stale").intersection(zombie.held)) for zombie in done.frozen
    )
    lapsed = told.stale - refused  # in hands that were slow only
    most = sum(done.kills) + held + lapsed + told.resent
    back = totals.get("lapsed", 0) + totals.get("released", 0)  # what came back, charged or not
    found = wrong(
        {
            **told.faults,
            "left in the queue": len(left),
            "late acks accepted": held - refused,
            "duplicates beyond what was held": max(0, told.duplicated - most),
            "duplicates without a lapse": max(0, told.duplicated - told.resent - back),
            **unexplained(totals, told),
            "kills too few": max(0, plan.kills - len(done.kills)),
            "zombies too few": max(0, plan.zombies - len(done.frozen)),
            "contested acks too few": max(0, plan.zombies // 4 - done.contested),
        }
    ) + audited(raw, *place.names)
    counted = [
        f"{told.entered / took:,.0f} messages/s",
        f"{len(done.kills):,} workers killed, {done.senders_killed} senders",
        f"{len(done.frozen)} zombies, {sum(is_real(each.name) for each in done.frozen)} of them real workers",
        f"{refused:,} of {held:,} late acks refused, {done.contested:,} while another held the message",
        f"{told.resent:,} sent again",
        f"{most:,} duplicates possible",
    ]
    return Figures(
        trials=len(done.kills) + len(done.frozen) + done.senders_killed,
        **told.counts,
        early=told.early,
        met=not found,
        note="; ".join(found + counted),
    )


def run(run: Run) -> Figures:
    """Kill and freeze, at random."""
    plan = run.pick(
        short=Plan(10_000, kills=30, zombies=8, senders_killed=4, lease=500),
        whole=Plan(1_000_000, kills=1_000, zombies=50, senders_killed=100),
        soak=Plan(3_000_000, kills=3_000, zombies=150, senders_killed=300),
    )
    with run.site() as site, ForkedProcesses() as forked:
        place = Place(site.url, run.directory / "journals", plan.lease, names=site.names("work"))
        raw = site.client()
        trial = Trial(plan, place, raw, run.random, forked)
        began = time.monotonic()
        trial.run(run.done)
        took = time.monotonic() - began
        for name in list(forked.processes):
            forked.kill(name)
        return judge(plan, place, raw, trial, took)


ROWS = (
    Row(
        "T5",
        "SIGKILL of workers and senders, SIGSTOP beyond the lease; 2 workers, and 4 loops with batches of 8",
        "0 lost, 0 unexpected, 0 settled twice, 0 early, every late ack refused; "
        "duplicates <= what the killed, the frozen and the slow may have held + sent again",
        run,
        on_nodes="a queue on each, which senders, loops and workers use in turn",
    ),
)
