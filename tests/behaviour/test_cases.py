"""What other systems do, end to end on the broker: the rows of `behaviour` and of `attempts`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rq_dlq import PolicyError, RedeliveryPolicy
from tests.behaviour.cases import CASES, NOT_RUN
from tests.behaviour.cases.restartable import Restartable
from tests.behaviour.helpers import counts, fail
from tests.cases import load
from tests.conftest import Clock
from tests.tables import each_row_afresh

BEHAVIOUR = {row["id"]: row for row in load("behaviour")}
NOT_WANTED = ("N", "optional")
RESTARTED = [case for case, function in CASES.items() if "server" in inspect.signature(function).parameters]


def policy_of(system: str, value: int | None) -> RedeliveryPolicy:
    """A system's own setting as a policy; None: it is left out."""
    if system == "artemis":
        return RedeliveryPolicy.artemis(**({} if value is None else {"max-delivery-attempts": value}))
    if system == "classic":
        return RedeliveryPolicy.activemq(**({} if value is None else {"maximumRedeliveries": value}))
    assert value is not None
    return RedeliveryPolicy(max_redeliveries=value - 1)  # JetStream counts deliveries


@each_row_afresh("row", load("attempts"))
async def test_attempts(row: dict[str, Any], broker: Any, clock: Clock) -> None:
    if row["rq"].startswith("D: ValueError"):
        with pytest.raises(PolicyError):
            policy_of(row["system"], row["value"])
        return
    queue = broker.queue("a", redelivery=policy_of(row["system"], row["value"]))
    await queue.send("x")
    assert len(await fail(queue, 30, clock)) == row["deliveries"]
    assert await counts(queue) == {"dead": 1}


@pytest.mark.parametrize("case", [case for case in CASES if case not in RESTARTED])
async def test_case(case: str, broker: Any, clock: Clock) -> None:
    here = {"broker": broker, "clock": clock}
    await CASES[case](**{name: here[name] for name in inspect.signature(CASES[case]).parameters})


@pytest_asyncio.fixture(params=["sync", "async"])
async def restartable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Restartable]:
    """A real server with all on disk, and a broker of either colour."""
    server = Restartable(tmp_path, request.param)
    await server.start()
    yield server
    await server.stop()


@pytest.mark.parametrize("case", RESTARTED)
async def test_case_with_a_restart(case: str, restartable: Restartable) -> None:
    await CASES[case](restartable)


def test_every_row_is_run_or_has_a_reason() -> None:
    assert CASES.keys() | NOT_RUN.keys() == BEHAVIOUR.keys()
    assert not CASES.keys() & NOT_RUN.keys()


@each_row_afresh("case", BEHAVIOUR)
def test_verdict(case: str) -> None:
    """What is not run is not wanted; what differs from its system says so in the words of its row."""
    verdict = BEHAVIOUR[case]["rq"]
    if case in NOT_RUN:
        assert verdict.startswith(NOT_WANTED)
    elif not verdict.startswith("S"):
        assert (inspect.getdoc(CASES[case]) or "").lower().startswith(verdict.lower())
