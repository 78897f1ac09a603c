"""What is said of an outage: why a message waits, which dependency is down, in all that people look at."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import Breaker, InvalidInput, Message, PerKey
from rq_dlq.core.looking.trouble import troubles
from tests.conftest import Clock


async def shop(broker: Any, **how: Any) -> Any:
    """A queue whose payments are down, with three messages that wait."""
    queue = broker.queue("a", breaker=Breaker(distinct=2), **how)
    await queue.send_many([Message(n, id=f"p{n}", key="k", dependency="payments") for n in range(5)])
    for one in await queue.claim(2):
        await one.nack("down")
    assert await queue.claim(9) == []
    return queue


async def test_why_a_message_waits(broker: Any, clock: Clock) -> None:
    queue = await shop(broker)
    said = str(await queue.explain("p3"))
    assert "p3 is scheduled: it waits for payments: open since " in said
    assert " UTC, next probe at " in said
    assert ", 4 wait. Next: it is delivered after another message succeeds" in said
    await queue.send("x", id="new", dependency="payments")
    assert "new is scheduled: it waits for payments: open since" in str(await queue.explain("new"))
    await queue.send("x", id="other", key="k2")
    assert "other is ready" in str(await queue.explain("other"))
    clock.advance("1s")
    (one,) = [one for one in await queue.claim(9) if one.id[0] == "p"]
    await one.ack()
    assert "it waits for payments: it is up again, " in str(await queue.explain("p4"))


async def test_why_a_paused_one_waits(broker: Any) -> None:
    queue = broker.queue("a", per_key=PerKey(limit=1))
    await queue.send_many([Message(n, id=f"t{n}", key="tenant", dependency="d") for n in range(2)])
    await queue.key("tenant").pause(until="1h")
    assert await queue.claim(9) == []
    said = str(await queue.explain("t1"))
    assert "t1 is scheduled: its key tenant is paused until " in said
    await queue.key("tenant").resume()
    await queue.dependency("d").pause()
    assert "it waits for d: paused until it is resumed, " in str(await queue.explain("t0"))


async def test_an_outage_is_a_trouble(broker: Any, clock: Clock) -> None:
    """For top, the page and assistants; one by hand is none of their business, but a pause."""
    queue = await shop(broker)
    overview = await broker.overview()
    (known,) = overview.queues[0].dependencies
    assert (known.dependency, known.queue, known.open, known.waiting) == ("payments", "a", True, 4)
    (found,) = [one for one in troubles(overview.queues, overview.at) if one.kind == "outage"]
    assert found.level == "bad"
    assert found.what.startswith("payments: open since ")
    assert "`rq-dlq queue resume a --dependency payments`" in found.detail
    await queue.dependency("payments").pause()
    overview = await broker.overview()
    (found,) = [one for one in troubles(overview.queues, overview.at) if one.kind == "outage"]
    assert (found.level, found.what) == ("warn", "payments: paused until it is resumed, 4 wait")
    clock.advance("1s")


async def test_what_cannot_be_looked_at(broker: Any) -> None:
    await broker.queue("a").send("x")
    with pytest.raises(InvalidInput, match="look for dependencies of"):
        await broker.queue("DLQ.a").dependency("payments").stats()
    with pytest.raises(InvalidInput, match="1 to 200 bytes"):
        await broker.queue("a").dependency("").pause()
    with pytest.raises(InvalidInput, match="pause"):
        await broker.queue("DLQ.a").key("k").pause()
