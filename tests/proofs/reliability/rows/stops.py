"""T4: a stop at every Redis call of every script."""

from __future__ import annotations

import redis

from tests import servers
from tests.conftest import MOVED_CLOCK
from tests.model.steps import STEPS
from tests.model.stops import CHECKS
from tests.proofs.reliability.row import Figures, Row, Run

SHARE = 10  # steps of one task
SHORT = ("claim with all maintenance", "sweep in parts", "divide_claim")
"""Of the others a part of the points: tests/model/test_stops."""


def try_steps(names: list[str]) -> tuple[int, list[str]]:
    """On a server of its own: how many points there were, and what was wrong, a line a check."""
    points, wrong = 0, list[str]()
    with servers.running() as path, redis.Redis(unix_socket_path=path, socket_timeout=60) as client:
        for name in names:
            found = []
            for check in CHECKS:
                try:
                    found.append(check(client, name))
                except AssertionError as error:
                    wrong.append(f"{check.__name__}: {error}")
            points += max(found, default=0)
    return points, wrong


def run(run: Run) -> Figures:
    """Two tasks at a time, a process each; nothing is drawn."""
    names = list(run.pick(short=SHORT, whole=tuple(STEPS)))
    shares = [names[at :: len(names) // SHARE + 1] for at in range(len(names) // SHARE + 1)]
    results = run.in_processes(try_steps, [(share,) for share in shares])
    points, wrong = sum(found for found, _ in results), [line for _, lines in results for line in lines]
    for line in wrong:
        run.progress.console.print(line, markup=False)
    note = (
        f"{len(names)} branches of {len(MOVED_CLOCK.names())} scripts"
        if names == list(STEPS)
        else f"{len(names)} branches"
    )
    note += f", each point swept, repeated, and by an error of Redis itself; {len(wrong)} checks failed"
    return Figures(trials=points, met=not wrong, note=note + "".join(f"; {line}" for line in wrong[:3]))


ROWS = (
    Row(
        "T4",
        "a stop at every redis.call of every branch of every script",
        "100 % of the points: nothing lost after one sweep, a repetition succeeds",
        run,
        missing=lambda: "" if servers.binary() else "no redis-server here",
    ),
)
