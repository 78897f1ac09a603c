"""What the processes of a row note of their clients."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from redis import exceptions

from rq_dlq._keys import QueueKeys
from rq_dlq._redis import AsyncConnections, Connections
from rq_dlq._scripts import Joined
from rq_dlq.core.settling.calls import ack
from rq_dlq.core.steps.riding import both_of
from rq_dlq.core.steps.step import Pipeline
from tests.proofs.reliability.actors import note_repeated_acks
from tests.proofs.reliability.journal import Journal, noted

NOWHERE = "unix:///nowhere/redis.sock"
ACK = ack(QueueKeys("rq", "work"), [("a", "token"), ("b", "token"), ("c", "another")])
BOTH = both_of(ACK, replace(ACK, verb="claim", args={}, items=()))


def one(step: Any) -> Generator[Any, Any, Any]:
    return (yield step)


class CutOff(Connections):
    """Whose first try of a step gets no reply."""

    def _once(self, step: Any, *, repeated: bool) -> Any:
        del step
        if not repeated:
            raise exceptions.ConnectionError
        return "done"


class AsyncCutOff(AsyncConnections):
    """The same, awaiting."""

    async def _once(self, step: Any, *, repeated: bool) -> Any:
        return CutOff._once(self, step, repeated=repeated)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [ACK, Pipeline([ACK]), BOTH], ids=["alone", "with others", "with a claim"])
@pytest.mark.parametrize("colour", ["blocking", "awaiting"])
def test_a_repeated_ack_is_noted_and_made(colour: str, step: Any, tmp_path: Path) -> None:
    class Blocking(CutOff):
        pass

    class Awaiting(AsyncCutOff):
        pass

    async def awaited() -> Any:
        return await Awaiting(NOWHERE, Joined()).run(one(step))

    journal = Journal(tmp_path, "consumer")
    note_repeated_acks(journal, Blocking, Awaiting)
    result = Blocking(NOWHERE, Joined()).run(one(step)) if colour == "blocking" else asyncio.run(awaited())
    assert result == "done"
    journal.close()
    assert sorted(noted(tmp_path, "indeterminate")) == ["a", "b", "c"]
