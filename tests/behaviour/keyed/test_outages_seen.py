"""What is said of an outage: why a message waits, which dependency is down, in all that people look at."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from rq_dlq import Breaker, InvalidInput, Message, PerKey
from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed import behind
from rq_dlq.core.looking.trouble import troubles
from rq_dlq.values.dependency import DependencyStats
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
    assert re.search(r"p3 is scheduled: it waits for payments: down since (..-.. )?..:.. UTC, 4 wait", said)
    assert ", next probe in 1s. Next: it is delivered as a test, or as others succeed" in said
    await queue.send("x", id="new", dependency="payments")
    assert "new is scheduled: it waits for payments: down since" in str(await queue.explain("new"))
    await queue.send("x", id="other", key="k2")
    assert "other is ready" in str(await queue.explain("other"))
    clock.advance("1s")
    await queue.send_many([Message(n, id=f"q{n}", dependency="payments") for n in range(60)])
    held = [one for _ in range(3) for one in await queue.claim(20) if one.id[0] != "o"]
    await held[0].ack()
    said = " ".join([str(await queue.explain(f"q{n}")) for n in range(60)])
    assert re.search(r"it waits for payments: back at (..-.. )?..:.. UTC, \d+ come back", said)


async def test_why_a_paused_one_waits(broker: Any) -> None:
    queue = broker.queue("a", per_key=PerKey(limit=1))
    await queue.send_many([Message(n, id=f"t{n}", key="tenant", dependency="d") for n in range(2)])
    await queue.key("tenant").pause(until="1h")
    assert await queue.claim(9) == []
    said = str(await queue.explain("t1"))
    assert "t1 is scheduled: its key tenant is paused until " in said
    await queue.key("tenant").resume()
    await queue.dependency("d").pause()
    said = str(await queue.explain("t0"))
    assert "it waits for d: paused until it is resumed, " in said
    assert "Next: it is delivered after the pause" in said


async def test_an_outage_is_a_trouble(broker: Any, clock: Clock) -> None:
    """For top, the page and assistants; one by hand is none of their business, but a pause."""
    queue = await shop(broker)
    overview = await broker.overview()
    (known,) = overview.queues[0].dependencies
    assert (known.dependency, known.queue, known.open, known.waiting) == ("payments", "a", True, 4)
    (found,) = [one for one in troubles(overview.queues, overview.at) if one.kind == "outage"]
    assert found.level == "bad"
    assert re.match(r"payments down since (..-.. )?..:.. UTC, 4 wait", found.what)
    assert found.detail.startswith("nothing to do: it probes by itself")
    assert "resume" not in found.detail, "who obeys it has the failures charged"
    await queue.dependency("payments").pause()
    overview = await broker.overview()
    (found,) = [one for one in troubles(overview.queues, overview.at) if one.kind == "outage"]
    assert found.level == "warn"
    assert found.what.startswith("payments paused until it is resumed, 4 wait")
    assert "`rq-dlq queue resume a --dependency payments`" in found.detail
    clock.advance("1s")


async def test_who_waits_behind_it_by_key_is_in_the_number(broker: Any) -> None:
    """A parked message keeps the place of its ordered key, so the later ones of the key wait for it, too."""
    queue = broker.queue("a", breaker=Breaker(distinct=2), per_key=PerKey(order=True))
    await queue.send_many([Message(n, id=f"p{n}", key=f"k{n}", dependency="payments") for n in range(4)])
    await queue.send_many([Message(n, id=f"f{n}", key=f"k{n % 3}") for n in range(6)])
    await queue.send_many([Message(n, id=f"o{n}", key="other") for n in range(5)])
    for one in [one for one in await queue.claim(9) if one.id[0] == "p"][:2]:
        await one.nack("down", delay=0)
    await queue.claim(9)
    found = await queue.dependency("payments").stats()
    assert (found.waiting, found.behind) == (2, 4), "two are with consumers, and the others behind them"
    (seen,) = (await broker.overview()).queues
    assert [(one.waiting, one.behind) for one in seen.dependencies] == [(2, 4)]
    assert (await broker.dependency("payments").stats())[0].behind == 4
    (wrong,) = [one for one in troubles([seen], (await broker.overview()).at) if one.kind == "outage"]
    assert ", 6 wait (4 of them for their keys)" in wrong.what
    assert wrong.size == 6
    said = str(await queue.explain("f0"))
    assert "f0 is scheduled: it waits for its key k0: 1 in front; p0 waits for payments: down since " in said


async def test_of_very_many_their_share_counts(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "LOOKED_AT", 2)
    queue = broker.queue("a", breaker=Breaker(distinct=2), per_key=PerKey(order=True))
    await queue.dependency("payments").pause()
    await queue.send_many([Message(n, key=f"k{n}", dependency="payments") for n in range(6)])
    await queue.send_many([Message(n, key=f"k{n % 6}") for n in range(12)])
    assert await queue.claim(9) == []
    assert (await queue.dependency("payments").stats()).behind == 12


def test_counts_that_were_not_read_at_once() -> None:
    """A message that was parked between the two reads makes no negative number."""
    steps = behind.with_behind(QueueKeys("rq", "a"), [DependencyStats("d", "a", waiting=4)], 3)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert [one.behind for one in ended.value.value] == [0]


async def test_without_order_none_waits_behind(broker: Any) -> None:
    queue = await shop(broker, per_key=PerKey(limit=2))
    assert (await queue.dependency("payments").stats()).behind == 0


async def test_what_cannot_be_looked_at(broker: Any) -> None:
    await broker.queue("a").send("x")
    with pytest.raises(InvalidInput, match="look for dependencies of"):
        await broker.queue("DLQ.a").dependency("payments").stats()
    with pytest.raises(InvalidInput, match="1 to 200 bytes"):
        await broker.queue("a").dependency("").pause()
    with pytest.raises(InvalidInput, match="pause"):
        await broker.queue("DLQ.a").key("k").pause()


async def test_its_end_is_told_in_the_log_and_the_audit(broker: Any, clock: Clock, caplog: Any) -> None:
    """With how many come back; and its beginning."""
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = await shop(broker)
    await queue.send_many([Message(n, dependency="payments") for n in range(80)])
    for _ in range(9):
        await queue.claim(20)
    clock.advance("1s")
    held = await queue.claim(9)
    assert caplog.messages[-1].startswith("a: payments counts as down: its messages wait, uncharged")
    await queue.ack(held[:1])
    found = await queue.dependency("payments").stats()
    assert found.condition == "coming back"
    assert re.fullmatch(r"a: payments back at ..:.. UTC, \d+ come back", caplog.messages[-1])
    overview = await broker.overview()
    (told,) = [one for one in troubles(overview.queues, overview.at) if one.kind == "outage"]
    assert (told.level, told.detail) == ("calm", "nothing to do: they follow as earlier ones succeed")
    assert re.fullmatch(r"payments back at ..:.. UTC, \d+ come back", told.what)
    closed, opened = (await broker.audit())[:2]
    assert (opened.did, opened.by, closed.did, closed.by) == ("opened", "breaker", "closed", "breaker")
    assert closed.number >= found.waiting > 0
    assert closed.which.endswith("(dependency payments)")


async def test_a_pause_of_a_misspelt_dependency_says_so(broker: Any, caplog: Any) -> None:
    """By the first messages; a dependency that looks different may be one of later messages."""
    queue = broker.queue("a", breaker=Breaker())
    assert await queue.dependency("paymets").pause()
    await queue.send_many(range(3))
    assert await queue.dependency("payment").pause()
    await queue.send_many(range(3), dependency="payments", priority=9)
    assert await queue.dependency("payment s").pause()
    assert await queue.dependency("payments").pause()
    assert await queue.dependency("smtp").pause()
    assert not await queue.dependency("smtp").pause()
    assert [one for one in caplog.messages if "first messages" in one] == [
        "a: none of its first messages needs payment; they name no dependency",
        "a: none of its first messages needs payment s; they need payments",
    ]


async def test_its_end_without_a_follower(broker: Any, clock: Clock, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "rq_dlq")
    queue = broker.queue("a", breaker=Breaker(distinct=2))
    await queue.send_many(range(2), dependency="payments")
    for one in await queue.claim(2):
        await one.nack("down", delay=0)
    await queue.claim(9)
    clock.advance("1s")
    await queue.ack(await queue.claim(9))
    assert re.fullmatch(r"a: payments (is back|back at ..:.. UTC, 0 come back)", caplog.messages[-1])
