"""Looking at whole indexes while consumers go on: what stays where it is is seen exactly once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rq_dlq import RedeliveryPolicy
from rq_dlq._keys import QueueKeys
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import Page, Position
from rq_dlq.core.pages.plain import plain_pages
from rq_dlq.core.pages.ranges import MOST_SHARES, Range, Stretch, divide, pages, shares_of
from rq_dlq.core.steps.step import Step, Steps
from rq_dlq.values.wanted import Wanted
from tests.behaviour.helpers import AT_ONCE, bring_to, bury, counts
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row_afresh

KEYS = QueueKeys("rq", "a")
ALL = Wanted()
INDEXES = {"ready": "ready", "scheduled": "scheduled", "dead": "dead", "expired": "expired"}


class Looker:
    """Runs steps and nothing but: in either colour."""

    def __init__(self, broker: Any, read: Any) -> None:
        self._broker = broker
        self.read = read

    async def run(self, steps: Steps[Any]) -> Any:
        return await self._broker._run(steps)

    async def pages(self, part: Range, limit: int, wanted: Wanted = ALL) -> list[Page]:
        return [await self.run(page) for page in self.read(part, limit=limit, wanted=wanted)]

    async def ids(self, part: Range, limit: int = 3) -> list[str]:
        found = await self.pages(part, limit)
        assert all(len(page.ids) <= limit for page in found)
        return [message_id.decode() for page in found for message_id in page.ids]

    async def all(self, index: Any, limit: int = 3) -> list[str]:
        return await self.ids(Range(KEYS, index, page_calls.START, page_calls.END), limit)


@pytest.fixture(params=[pages, plain_pages])
def look(request: pytest.FixtureRequest, broker: Any) -> Looker:
    return Looker(broker, request.param)


@each_row_afresh("state", INDEXES)
async def test_all_parts_of_a_message(state: str, broker: Any, look: Looker, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await bring_to(state, queue, clock)
    before = contents(raw)
    (page,) = await look.pages(Range(KEYS, state, page_calls.START, page_calls.END), 10)  # type: ignore[arg-type]
    assert page.ids == [b"m"]
    assert page.records == [raw.hget("rq:{a}:messages", "m")]
    assert page.states == [raw.hget("rq:{a}:states", "m")]
    assert page.histories == [raw.hget("rq:{a}:history", "m")]
    assert contents(raw) == before


@each_row_afresh("record", ["whole", "head", "no"])
async def test_only_what_is_wanted(record: Any, broker: Any, look: Looker, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("a body", id="m")
    whole = raw.hget("rq:{a}:messages", "m")
    part = Range(KEYS, "ready", page_calls.START, page_calls.END)
    (page,) = await look.pages(part, 10, Wanted(record, state=False, history=False))
    assert page.records == {"whole": [whole], "head": [whole[:14]], "no": []}[record]
    assert (page.states, page.histories) == ([], [])


@each_row_afresh("limit", [1, 2, 7, 1_000])
async def test_many_rows_of_one_millisecond(limit: int, broker: Any, look: Looker) -> None:
    """Their scores are equal, and Redis sorts them by the bytes of their members."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(23))
    assert await look.all("ready", limit) == sent


async def test_rows_sort_by_bytes_not_by_letters(broker: Any, look: Looker) -> None:
    """As they do among the dead, where the birth comes before the id, and any byte may come."""
    queue = broker.queue("a")
    sent = await bury(queue, range(300))
    assert await look.all("dead", 7) == sent


async def test_nothing_is_there(broker: Any, look: Looker) -> None:
    await broker.queue("a").stats()
    assert await look.all("ready") == []
    assert await look.run(divide([Stretch(KEYS, "ready")], 4)) == []


@each_row_afresh("gone", ["claimed", "died", "sent before", "sent after"])
async def test_a_row_that_stays_is_seen_once(gone: str, broker: Any, look: Looker, clock: Clock) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(range(20))
    seen: list[str] = []
    expected = list(sent)
    for number, page in enumerate(
        look.read(Range(KEYS, "ready", page_calls.START, page_calls.END), limit=3, wanted=ALL)
    ):
        seen += [message_id.decode() for message_id in (await look.run(page)).ids]
        clock.advance("1s")
        if gone in {"claimed", "died"} and number < 4:
            taken = await queue.claim(
                2
            )  # the first ones, which may be those that were seen just now, or not yet
            expected = [name for name in expected if name in seen or name not in {one.id for one in taken}]
            if gone == "died":
                await queue.poison(taken)
        elif gone == "sent before":
            await queue.send("urgent", priority=9)
        elif number < 3:
            expected.append(await queue.send("late"))
    assert seen == expected


async def test_the_row_of_the_cursor_is_gone(broker: Any, look: Looker) -> None:
    """Every place in a run of equal scores, with the row there and without it."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(9))
    cursors = [await look.run(one(page_calls.position(KEYS, "ready", place))) for place in range(len(sent))]
    for place, cursor in enumerate(cursors):
        assert await look.ids(Range(KEYS, "ready", cursor, page_calls.END)) == sent[place + 1 :]
        assert await look.ids(Range(KEYS, "ready", page_calls.START, cursor)) == sent[: place + 1]
    for place, cursor in enumerate(cursors):
        await queue.claim(1)
        assert await look.ids(Range(KEYS, "ready", cursor, page_calls.END)) == sent[place + 1 :]
        assert await look.ids(Range(KEYS, "ready", page_calls.START, cursor)) == []


def one(step: Step) -> Steps[Any]:
    return (yield step)


async def test_a_live_consumer(broker: Any, look: Looker, clock: Clock) -> None:
    """Claimed, acked, failed, sent, at random, between any two pages of several ranges."""
    draw = random.Random(7)
    queue = broker.queue("a", redelivery=RedeliveryPolicy(delays=["1h"], max_redeliveries=0))
    await queue.send_many(range(150))
    shares = await look.run(divide([Stretch(KEYS, "ready")], 4))
    there = set(await look.all("ready", 100))
    moved: set[str] = set()
    seen: list[str] = []
    for share in shares:
        for part in share:
            for page in look.read(part, limit=5, wanted=ALL):
                seen += [message_id.decode() for message_id in (await look.run(page)).ids]
                clock.advance(draw.choice([0, 0.001, 0.5]))
                for delivery in await queue.claim(draw.randrange(1, 4)):
                    moved.add(delivery.id)
                    await draw.choice([delivery.ack, delivery.nack, delivery.release])()
                await queue.send_many(range(draw.randrange(4)), priority=draw.choice([0, 4, 9]))
    assert len(set(seen)) == len(seen)
    assert there - moved <= set(seen)
    assert set(seen) <= there | moved, "what was sent after it was divided"


@each_row_afresh("wanted", [1, 2, 3, 7, 40])
async def test_shares_are_of_about_one_size(wanted: int, broker: Any, look: Looker, clock: Clock) -> None:
    queue, other = broker.queue("a"), broker.queue("b")
    sent = await queue.send_many(range(17))
    sent += await queue.send_many(range(6), delay="1m")
    sent += await other.send_many(range(8))
    clock.advance("1s")
    stretches = [Stretch(KEYS, "ready"), Stretch(KEYS, "scheduled"), Stretch(QueueKeys("rq", "b"), "ready")]
    shares = await look.run(divide(stretches, wanted))
    read = [[name for part in share for name in await look.ids(part)] for share in shares]
    assert [name for share in read for name in share] == sent
    size = -(-len(sent) // wanted)
    assert [len(share) for share in read[:-1]] == [size] * (len(read) - 1)
    assert len(read) == -(-len(sent) // size) <= wanted


@each_row_afresh(
    "messages, wanted, cores, shares",
    [
        (0, 0, 2, 1),
        (250_000, 0, 0, 2),
        (10**9, 0, 0, MOST_SHARES),
        (10**9, 0, 2, 2),
        (10**9, 5, 2, 5),
        (1, 0, 8, 1),
    ],
)
def test_no_more_shares_than_cores(messages: int, wanted: int, cores: int, shares: int) -> None:
    assert shares_of(messages, wanted, cores) == shares


async def test_since_and_until(broker: Any, look: Looker, clock: Clock) -> None:
    queue = broker.queue("a")
    began = clock.now
    sent = []
    for _ in range(6):
        sent += await bury(queue, ["x", "y"])
        clock.advance("1s")
    for low, high in [(None, None), (2, None), (None, 4), (1, 5), (3, 3), (5, 2), (0, 99)]:
        since = None if low is None else began + low * 1_000
        until = None if high is None else began + high * 1_000
        shares = await look.run(divide([Stretch(KEYS, "dead", since, until)], 3))
        read = [name for share in shares for part in share for name in await look.ids(part)]
        assert read == sent[2 * (low or 0) : None if high is None else max(0, 2 * high)]


async def test_rows_of_messages_that_are_elsewhere(broker: Any, look: Looker, raw: Any) -> None:
    """Left behind by a script that was cut off."""
    queue = broker.queue("a")
    await queue.send_many(["there", "claimed"])
    there, claimed = await look.all("ready")
    rows = raw.zrange("rq:{a}:ready", 0, -1, withscores=True)
    await queue.ack(await queue.claim(1))
    await queue.claim(1)
    left = await bury(queue, ["dead"])
    dead = raw.zrange("rq:{a}:dead", 0, -1, withscores=True)
    raw.zadd("rq:{a}:ready", dict(rows + dead))
    raw.zadd("rq:{a}:expired", dict(dead))
    assert there != claimed
    assert await look.all("ready") == []
    assert await look.all("expired") == []
    assert await look.all("dead") == left
    raw.zrem("rq:{a}:ready", *dict(rows + dead))
    raw.delete("rq:{a}:expired")
    waiting = await queue.send("waiting")
    await queue.release(await queue.claim(1))
    raw.zadd("rq:{a}:dead", dict(raw.zrange("rq:{a}:ready", 0, -1, withscores=True)))
    assert await look.all("ready") == [waiting]
    assert await look.all("dead") == left
    raw.zrem("rq:{a}:dead", *raw.zrange("rq:{a}:ready", 0, -1))
    assert await counts(queue) == {"ready": 1, "leased": 1, "dead": 1}


async def test_a_state_of_nonsense_hides_nothing(broker: Any, look: Looker, raw: Any) -> None:
    queue = broker.queue("a")
    (message_id,) = await bury(queue, ["x"])
    raw.hset("rq:{a}:states", message_id, "limbo nonsense")
    assert await look.all("dead") == [message_id]
    raw.flushall()


async def test_the_position_of_a_rank(broker: Any, look: Looker) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3))
    last = await look.run(one(page_calls.position(KEYS, "ready", -1)))
    assert last == await look.run(one(page_calls.position(KEYS, "ready", 2)))
    assert isinstance(last, Position)
    assert await look.run(one(page_calls.position(KEYS, "ready", 3))) is None
