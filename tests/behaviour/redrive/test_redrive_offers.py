"""The steps of a redrive that edits or moves: what each of them replies, and whom it wakes."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import RedriveCounts
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.redrive.calls import Offer, Offered
from tests.behaviour.helpers import bury, counts
from tests.behaviour.redrive.test_redrive_changes import two
from tests.behaviour.stepping import alone


async def offers_of(queue: Any, ids: list[str]) -> list[Offer]:
    """These letters as they are."""
    letters = {letter.id: letter for letter in await queue.dlq.browse(ids=ids, limit=None)}
    return [Offer(id, f"{letters[id].due}/{letters[id].redriven}") for id in ids]


async def offer(
    queue: Any, job: Any, position: int, offers: list[Offer], to: tuple[Any, str] | None = None
) -> Offered:
    """One step; to another queue and its opening."""
    target, opening = to or (queue, "")
    call = redrive_calls.offer_redrive(
        queue._core.keys,
        target._core.keys,
        job.id,
        position=position,
        grace=10_000,
        opening=opening,
        offers=offers,
    )
    offered = await queue._broker._run(alone(call))
    assert isinstance(offered, Offered)
    return offered


async def begun(queue: Any, **terms: Any) -> Any:
    """A redrive that edits, of which nothing was offered yet."""
    return await queue.dlq.redrive(all=True, edit=lambda body: body, canary=1_000, **terms)


async def test_it_says_when_the_last_is_done(broker: Any) -> None:
    queue = broker.queue("a")
    offers = await offers_of(queue, await bury(queue, range(3)))
    job = await begun(queue)
    assert await offer(queue, job, 0, offers[:2]) == Offered(2, 0, 2, [], deleted=False)
    assert await offer(queue, job, 2, offers[2:]) == Offered(1, None, 3, [], deleted=False)
    assert (await job.refresh()).state == "done"


async def test_an_offer_that_is_not_its_turn_does_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    offers = await offers_of(queue, await bury(queue, range(3)))
    job = await begun(queue)
    await offer(queue, job, 0, offers[:1])
    assert await offer(queue, job, 0, offers[:1]) == Offered(0, 0, 1, [], deleted=False)
    assert (await job.refresh()).counts == RedriveCounts(eligible=3, moved=1)


async def test_an_offer_to_a_redrive_that_does_not_run_does_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    offers = await offers_of(queue, await bury(queue, range(3)))
    job = await begun(queue)
    await job.pause()
    assert await offer(queue, job, 0, offers) == Offered(0, None, 0, [], deleted=False)
    assert await counts(queue) == {"dead": 3}


async def test_an_offer_that_the_rate_does_not_allow_does_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    offers = await offers_of(queue, await bury(queue, range(3)))
    job = await begun(queue, rate=2)
    assert await offer(queue, job, 0, offers[:1]) == Offered(1, 500, 1, [], deleted=False)
    assert await offer(queue, job, 1, offers[1:]) == Offered(0, 500, 1, [], deleted=False)
    assert await counts(queue) == {"ready": 1, "dead": 2}


async def test_a_list_that_is_lost_ends_it(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3))
    job = await begun(queue)
    raw.delete(queue._core.keys.redrive(job.id))
    await job.wait()
    assert (job.state, job.counts) == ("done", RedriveCounts(eligible=3))
    assert await counts(queue) == {"dead": 3}


async def test_an_offer_to_a_queue_that_was_deleted_does_nothing(broker: Any) -> None:
    queue, other = await two(broker)
    offers = await offers_of(queue, await bury(queue, range(3)))
    job = await queue.dlq.redrive(all=True, to=other, rate=1)
    opening = await broker._run(alone(queue_calls.opening(other._core.keys)))
    await other.delete(force=True)
    await broker.queue("b").open()  # another one of its name
    offered = await offer(queue, job, 0, offers, (other, opening))
    assert (offered.moved, offered.position, offered.deleted) == (0, 0, True)
    assert await counts(queue) == {"dead": 3}


@pytest.mark.parametrize("to", [None, "b"])
async def test_what_comes_back_wakes_one_who_waits_there(to: str | None, broker: Any, raw: Any) -> None:
    queue, other = await two(broker)
    terms = {"to": to, "rate": 1} if to else {"edit": lambda body: body, "rate": 1}
    offers = await offers_of(queue, await bury(queue, ["x"]))
    job = await queue.dlq.redrive(all=True, **terms)
    there, elsewhere = (other, queue) if to else (queue, other)
    opening = await broker._run(alone(queue_calls.opening(other._core.keys))) if to else ""
    wakes = [one._core.keys["wake"] for one in (there, elsewhere)]
    raw.delete(*wakes)
    assert (await offer(queue, job, 0, offers, (there, opening))).moved == 1
    assert [raw.exists(wake) for wake in wakes] == [1, 0]


async def test_where_nothing_comes_back_nobody_is_woken(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    offers = [Offer(id) for id in await bury(queue, ["x"])]
    job = await begun(queue)
    raw.delete(queue._core.keys["wake"])
    assert (await offer(queue, job, 0, offers)).moved == 0
    assert not raw.exists(queue._core.keys["wake"])
