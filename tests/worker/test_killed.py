"""Workers that are killed with many messages in their hands: who dies of it, and who is charged."""

from __future__ import annotations

from typing import Any

import pytest

import rq_dlq
from tests.worker.killed import CHARGED, drained, queue_of


@pytest.mark.parametrize(("colour", "concurrency"), [("def", 1), ("async def", 100)])
def test_only_the_killers_die(
    colour: str, concurrency: int, broker: rq_dlq.Broker, raw: Any, server: str
) -> None:
    """Two among hundreds, with a hundred at a time in a worker's hands and a budget of one redelivery."""
    queue, killers, messages = queue_of(broker, most=1), 2, 400
    each = messages // killers
    queue.send_many("kill" if n % each == each - 1 else n for n in range(messages))
    deaths = drained(queue, f"unix://{server}", 3, colour, concurrency, 0, 1)
    letters = queue.dlq.browse(limit=messages)
    assert [(letter.body, letter.reason, letter.lapsed) for letter in letters] == [
        ("kill", "exhausted", 3)
    ] * killers
    totals = queue.stats().totals
    assert totals["acked"] == messages - killers
    # Some of the innocent were in the hands of those who died: how many, the pace of the machine decides.
    assert totals["lapsed"] > 3 * killers
    assert deaths <= 3 * killers
    # A suspect is charged for another one that kills the process in its first delivery, which is never alone.
    assert len(set(raw.lrange(CHARGED, 0, -1))) <= (0 if concurrency == 1 else killers)


@pytest.mark.slow  # the short scale of T22 has this, with more kinds of killers
def test_what_runs_beside_a_killer_does_not_die(broker: rq_dlq.Broker, raw: Any, server: str) -> None:
    """Two processes of eight threads, and slow handlers, so that a killer takes seven others along."""
    queue, killers, messages = queue_of(broker, most=2), 8, 400
    each = messages // killers
    queue.send_many("kill" if n % each == each - 1 else n for n in range(messages))
    deaths = drained(queue, f"unix://{server}", 2, "def", 8, 0.2, 2)
    letters = queue.dlq.browse(limit=messages)
    innocent = [letter.body for letter in letters if letter.body != "kill"]
    assert [letter.reason for letter in letters] == ["exhausted"] * (killers + len(innocent))
    # A killer in its first delivery is beside others: it charges at most one suspect of its process, once.
    # Three charges are a death. If all that a dead worker held were charged, sixteen and more would die.
    assert len(innocent) <= killers // 3, innocent
    assert deaths <= 4 * killers
    assert len(set(raw.lrange(CHARGED, 0, -1))) <= killers
