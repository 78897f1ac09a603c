"""T1: every order in which anyone can do anything to a few messages."""

from __future__ import annotations

from dataclasses import dataclass, replace

import redis

from tests import servers
from tests.model.interleavings.scopes import LARGE, SCOPES, Scope
from tests.model.interleavings.search import Search, Violation
from tests.model.interleavings.walk import retold
from tests.proofs.reliability.row import Figures, Row, Run

GOAL = 300_000  # transitions


@dataclass(frozen=True)
class Found:
    """What a search has come to; violation: the way to it, empty if there is none."""

    scope: Scope
    worlds: int
    transitions: int
    violation: str


def explore(scope: Scope) -> Found:
    """Visit every world of a scope, on a server of its own."""
    with servers.running() as path, redis.Redis(unix_socket_path=path, socket_timeout=60) as client:
        search, violation = Search(client, scope), ""
        try:
            search.run()
        except Violation as found:
            violation = retold(search, found.way)
    return Found(scope, len(search.worlds), search.transitions, violation)


def _visited(found: list[Found]) -> str:
    return f"{sum(search.transitions for search in found):,}"


def run(run: Run) -> Figures:
    """Two searches at a time, a process each; nothing is drawn."""
    scopes = run.pick(
        short=[replace(scope, messages=1 if scope in LARGE else 2) for scope in SCOPES],
        whole=SCOPES,
        soak=[replace(scope, messages=3) for scope in SCOPES],
    )
    found = run.in_processes(explore, [(scope,) for scope in scopes], _visited)
    found.sort(key=lambda search: -search.transitions)
    transitions = sum(search.transitions for search in found)
    violations = [f"{search.scope.name}: {search.violation}" for search in found if search.violation]
    for violation in violations:
        run.progress.console.print(violation, markup=False)
    told = [f"{one.scope.name} ({one.scope.messages}) {one.transitions:,}" for one in found]
    note = f"{sum(search.worlds for search in found):,} worlds, {len(violations)} violations; " + ", ".join(
        told
    )
    enough = transitions >= run.pick(short=0, whole=GOAL)
    return Figures(trials=transitions, met=enough and not violations, note=note)


ROWS = (
    Row(
        "T1",
        "every order of the calls of 16 scopes on 2 or 3 messages, any number of workers; lost replies",
        f"exhaustive, ≥ {GOAL:,} transitions, 0 violations",
        run,
        missing=lambda: "" if servers.binary() else "no redis-server here",
    ),
)
