"""T2: the real Lua against the model, whatever is done to them."""

from __future__ import annotations

import redis

from tests import servers
from tests.model.machine import check
from tests.proofs.reliability.row import Figures, Row, Run

SHARE = 100  # examples of one task


def compare(examples: int, steps: int, draw: int, shortest: bool) -> str:
    """On a server of its own; a way to a difference, or the shortest one; empty if there is none."""
    with servers.running() as path, redis.Redis(unix_socket_path=path, socket_timeout=60) as client:
        try:
            check(client, examples, steps, draw, shortest=shortest)
        except Exception as error:  # noqa: BLE001 - a difference is an assertion's, or the client's
            return "\n".join((repr(error), *getattr(error, "__notes__", ())))
    return ""


def run(run: Run) -> Figures:
    """Two tasks at a time, a process each."""
    examples, steps = run.pick(short=(60, 40), whole=(2_000, 50), soak=(50_000, 100))
    shares = [min(SHARE, examples - at) for at in range(0, examples, SHARE)]
    tasks = [(share, steps, run.random.getrandbits(32), run.scale != "short") for share in shares]
    failures = [said for said in run.in_processes(compare, tasks) if said]
    for failure in failures:
        run.progress.console.print(failure, markup=False)
    note = f"{examples:,} examples of {steps} steps, {len(failures)} failures"
    note += "".join(f": {failure.partition(chr(10))[0]}" for failure in failures)
    return Figures(trials=examples, met=not failures, note=note)


ROWS = (
    Row(
        "T2",
        "a model in plain Python beside the real Lua, every verb, keys in order and with a limit, "
        "lost replies, a clock that steps back",
        "2,000 examples of 50 steps, 0 failures",
        run,
        missing=lambda: "" if servers.binary() else "no redis-server here",
    ),
)
