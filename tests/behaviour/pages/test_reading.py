"""Reading many messages while others change them: what is there all the while is seen exactly once."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import Message, SharedDeadLetterStrategy
from rq_dlq.core.changing import changing
from rq_dlq.core.choosing import reading
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.choosing.counting import groups
from rq_dlq.core.pages import ranges
from rq_dlq.core.steps.step import CHUNK
from tests.behaviour.helpers import after, bury, counts
from tests.behaviour.stepping import drive
from tests.conftest import Clock
from tests.tables import each_row_afresh

LETTERS = 4 * CHUNK
ORDERS = ["oldest", "newest"]
HEAVY = 5_000  # bytes of a body


async def dead_of_two_kinds(queue: Any, order: str) -> tuple[list[str], list[str]]:
    """Letters that stay, and those that others take away: every other one of the half that is read first."""
    sent = await queue.send_many(Message(body=n, id=f"m{n:04}") for n in range(LETTERS))
    claimed = {delivery.id: delivery for delivery in await queue.claim(LETTERS)}
    half = sent[: LETTERS // 2] if order == "oldest" else sent[LETTERS // 2 :]
    goes = half[::2]
    stays = [message_id for message_id in sent if message_id not in set(goes)]
    await queue.poison([claimed[message_id] for message_id in stays], "it stays")
    await queue.poison([claimed[message_id] for message_id in goes], "it goes")
    return stays, goes


class Others:
    """An operator who takes letters away after the first page, and a consumer that fails after each."""

    def __init__(self, queue: Any, goes: list[str], clock: Clock) -> None:
        self.queue, self.goes, self.clock = queue, goes, clock
        self.pages = 0

    async def __call__(self, script: str) -> None:
        if script != "scan":
            return
        self.pages += 1
        if self.pages == 1:
            middle = len(self.goes) // 2
            assert (await self.queue.dlq.redrive(ids=self.goes[:middle])).counts.moved == middle
            assert await self.queue.dlq.purge(ids=self.goes[middle:]) == len(self.goes) - middle
        self.clock.advance("1ms")
        await bury(self.queue, ["new"], "it goes")
        if self.pages == 2:
            await self.queue.poison(await self.queue.claim(100), "it goes")  # what was redriven dies again


async def group_of(queue: Any, message_id: str) -> str:
    (letter,) = await queue.dlq.browse(ids=[message_id])
    return str(letter.fingerprint)


@pytest.mark.parametrize("order", ORDERS)
async def test_browse_while_others_take_letters_away(order: Any, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    stays, goes = await dead_of_two_kinds(queue, order)
    steps = reading.chosen(queue.dlq._core, Choice(order=order))
    found = [letter.id for letter in await drive(broker, steps, Others(queue, goes, clock))]
    assert len(set(found)) == len(found)
    there = [message_id for message_id in found if message_id in set(stays)]
    assert there == (stays if order == "oldest" else stays[::-1])


@pytest.mark.parametrize("order", ORDERS)
async def test_groups_while_others_take_letters_away(order: Any, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    stays, goes = await dead_of_two_kinds(queue, order)
    steps = groups(queue.dlq._core, Choice(order=order, reason="poison"))  # read, not from the index
    found = await drive(broker, steps, Others(queue, goes, clock))
    assert {group.error: group.count for group in found}["it stays"] == len(stays)


@each_row_afresh("verb", ["redrive", "purge"])
@each_row_afresh("order", ORDERS)
async def test_verbs_while_others_take_letters_away(verb: str, order: Any, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    stays, goes = await dead_of_two_kinds(queue, order)
    wanted = Choice(group=await group_of(queue, stays[0]), order=order)
    steps = getattr(changing, verb)(queue.dlq._core, wanted)
    assert await drive(broker, steps, Others(queue, goes, clock)) == len(stays)
    assert await queue.select(places=["dead"], ids=stays).count() == 0
    assert await queue.select(places=["ready"], ids=stays).count() == (len(stays) if verb == "redrive" else 0)


async def test_a_view_while_others_take_letters_away(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    stays: dict[str, list[str]] = {}
    goes: dict[str, list[str]] = {}
    for name in ("a", "b"):
        stays[name], goes[name] = await dead_of_two_kinds(broker.queue(name), "oldest")
        clock.advance("1s")
    others = Others(broker.queue("a"), goes["a"], clock)
    steps = reading.chosen(broker.queue("LOST")._core, Choice())
    seen = Counter((letter.original_queue, letter.id) for letter in await drive(broker, steps, others))
    assert set(seen.values()) == {1}
    assert {(name, message_id) for name, ids in stays.items() for message_id in ids} <= set(seen)


async def test_what_is_leased_while_others_settle(
    broker: Any, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Claims that end, and those whose leases are extended, shift the ranks of the others."""
    monkeypatch.setattr(ranges, "TOKENS", 3)
    queue = broker.queue("a", redelivery=after(0))
    await queue.send_many(range(40))
    held = []
    for _ in range(20):
        held.append(await queue.claim(2))
        clock.advance("1ms")
    pages = 0

    async def settle(script: str) -> None:
        nonlocal pages
        if script == "scan":
            pages += 1
            if pages == 1:
                for first in held[:5]:
                    await queue.ack(first)
            if pages == 2:
                await queue.extend(held[7])
                await queue.nack(held[18])
                await queue.claim(2)

    steps = reading.chosen(queue._core, Choice(places=["leased"]))
    seen = Counter([message.id for message in await drive(broker, steps, settle)])
    assert set(seen.values()) == {1}
    assert {one.id for claim in held[5:18] for one in claim} <= set(seen)
    assert pages > 3


# A limit


@pytest.mark.parametrize("order", ORDERS)
async def test_a_limit_ends_the_reading(order: Any, broker: Any) -> None:
    """Twenty of those that a third meets are found in the first page."""
    queue = broker.queue("a")
    sent = await bury(queue, [Message(body=n, headers={"tenant": "abc"[n % 3]}) for n in range(LETTERS)])
    verbs: Counter[str] = Counter()

    async def note(script: str) -> None:
        verbs[script] += 1

    steps = reading.chosen(queue.dlq._core, Choice(where="tenant = 'a'", limit=20, order=order))
    found = [letter.id for letter in await drive(broker, steps, note)]
    expected = sent[::3]
    assert found == (expected[:20] if order == "oldest" else expected[::-1][:20])
    assert verbs["scan"] == 1


async def test_the_newest_first(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    sent = []
    for number in range(5):
        sent += await bury(queue, [number])
        clock.advance("1s")
    assert [letter.body for letter in await queue.dlq.browse(limit=2, order="newest")] == [4, 3]
    assert (await queue.dlq.redrive(limit=2, order="newest")).counts.moved == 2
    assert [letter.body for letter in await queue.dlq.browse()] == [0, 1, 2]
    assert (await queue.dlq.redrive(limit=1)).counts.moved == 1
    assert await queue.select(order="newest", limit=1, places=["ready"]).purge() == 1
    assert sorted([message.body for message in await queue.peek()]) == [0, 3]


@pytest.mark.parametrize("order", ORDERS)
async def test_the_first_of_several_queues(order: Any, broker: Any, clock: Clock) -> None:
    """A limit on a view takes the first that died, in whichever queue."""
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    died = []
    for number in range(6):
        died += await bury(broker.queue("ab"[number % 2]), [number])
        clock.advance("1s")
    lost = broker.queue("LOST")
    expected = died if order == "oldest" else died[::-1]
    chosen = lost.select(limit=3, order=order)
    assert [letter.id for letter in await chosen.browse()] == expected[:3]
    assert await chosen.redrive() == 3
    assert [letter.id for letter in await lost.dlq.browse(order=order)] == expected[3:]


# Conditions of one kind


async def test_conditions_are_joined(broker: Any, clock: Clock) -> None:
    """And each narrows what the others choose, for every verb."""
    queue = broker.queue("a")
    old = await bury(queue, [0, 1], ValueError("old"))
    clock.advance("1h")
    new = await bury(queue, [2, 3], ValueError("new"))
    groups = {group.error: group.fingerprint for group in await queue.dlq.groups()}
    assert len(groups) == 2
    (group,) = await queue.dlq.groups(older_than="30m", where="body > 0")
    assert (group.count, group.sample_id) == (1, old[1])
    assert await queue.dlq.groups(older_than="30m", group=groups["ValueError: new"]) == []
    assert await queue.dlq.select(older_than="1h", ids=[old[0], new[0]]).count() == 1
    assert await queue.dlq.select(reason="poison", group=group.fingerprint).count() == 2
    assert await queue.dlq.select(reason="exhausted", group=group.fingerprint).count() == 0
    assert await queue.dlq.purge(where="body > 0", group=groups["ValueError: new"]) == 2
    assert (await queue.dlq.redrive(older_than="1h", where="body = 1")).counts.moved == 1
    assert [letter.id for letter in await queue.dlq.browse()] == old[:1]


@pytest.mark.parametrize("milliseconds", [-1, 0, 1])
async def test_the_moments_at_the_ends(milliseconds: int, broker: Any, clock: Clock) -> None:
    """`since` and `older_than` include the moment that they name, with ids and without."""
    queue = broker.queue("a")
    sent = await bury(queue, ["x"])
    (died,) = [letter.died_at for letter in await queue.dlq.browse()]
    clock.set(clock.now + 60_000 + milliseconds)
    for ids in (None, sent):
        count = await queue.dlq.select(ids=ids, older_than="1m").count()
        assert count == (milliseconds >= 0)
        since = died.fromtimestamp(died.timestamp() + milliseconds / 1000, died.tzinfo)
        assert await queue.dlq.select(ids=ids, since=since).count() == (milliseconds <= 0)


@each_row_afresh("order", ["first", "", None, 5])
async def test_an_order_that_is_none(order: Any, broker: Any) -> None:
    queue = broker.queue("a")
    with pytest.raises(rq_dlq.InvalidInput, match="pass 'oldest' or 'newest'"):
        queue.select(order=order)


# What is fetched


async def heavy(queue: Any, number: int) -> None:
    """Dead letters with large bodies, of two kinds."""
    await queue.send_many([{"n": n, "pad": "x" * HEAVY} for n in range(number)])
    while claimed := await queue.claim(number):
        await queue.poison(claimed[::2], ValueError("even"))
        await queue.poison(claimed[1::2], ValueError("odd"))


BODILESS: dict[str, Callable[[Any], Any]] = {
    "groups": lambda dlq: dlq.groups(),
    "groups since": lambda dlq: dlq.groups(older_than="1h"),
    "count": lambda dlq: dlq.select().count(),
    "count by state": lambda dlq: dlq.select("delivery_count > 0 and age >= 0 and priority = 4").count(),
    "count by story": lambda dlq: dlq.select("error = 'ValueError' or message like 'e%'").count(),
    "purge": lambda dlq: dlq.purge(where="error = 'ValueError'"),
    "move": lambda dlq: dlq.select("fingerprint <> 'x'").move("b"),
    "redrive": lambda dlq: dlq.redrive(reason="poison"),
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "browse": lambda dlq: dlq.browse(limit=None),
    "count by body": lambda dlq: dlq.select("body.n >= 0").count(),
}


async def test_no_body_travels_that_nobody_asked_for(broker: Any) -> None:
    """Whole records come for whoever looks at messages, or has a condition on what senders wrote."""
    queue = broker.queue("a")
    await broker.queue("b").send("x")
    for verb, ask in (WHOLE | BODILESS).items():
        if not (await queue.stats()).dead:  # a verb took them
            await heavy(queue, 2 * CHUNK)
        fetched = Fetched(broker)
        await ask(queue.dlq)
        assert fetched.pages, verb
        if verb in BODILESS:
            assert fetched.bytes < 2 * CHUNK * HEAVY / 4, verb
        else:
            assert fetched.bytes > 2 * CHUNK * HEAVY, verb
    assert await counts(queue) == {"ready": 2 * CHUNK}


class Fetched:
    """Counts what the server sends."""

    def __init__(self, broker: Any) -> None:
        bare = getattr(broker, "inner", broker)
        self.bytes = self.pages = 0
        connections = getattr(bare, "_connections", None) or bare._connected()
        run = connections._talk

        def counted(replies: Any) -> Any:
            self.bytes += size_of(replies)
            self.pages += 1
            return replies

        async def awaiting(commands: Any) -> Any:
            return counted(await run(commands))

        is_async = isinstance(bare, rq_dlq.asyncio.Broker)
        connections._talk = awaiting if is_async else lambda commands: counted(run(commands))


def size_of(reply: Any) -> int:
    """The bytes of a reply."""
    if isinstance(reply, list | tuple):
        return sum(map(size_of, reply))
    return len(reply) if isinstance(reply, bytes) else 8


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_one_page_is_held_at_a_time(sync_broker: rq_dlq.Broker) -> None:
    """2,000 letters of 10 kB: far less than they weigh, also where the records are read."""
    queue, heavy = sync_broker.queue("a"), 2 * HEAVY
    for _ in range(2):
        queue.send_many([{"pad": "x" * heavy} for _ in range(1_000)], headers={"tenant": "a"})
    for verb in ("groups", "count", "count_by", "redrive", "purge"):
        while claimed := queue.claim(1_000):  # the letters are new, or were redriven
            queue.poison(claimed, ValueError("no"))
        assert queue.stats().dead == 2_000
        chosen = queue.dlq.select("tenant = 'a'" if verb in {"count", "purge"} else None, reason="poison")
        arguments = ("tenant",) if verb == "count_by" else ()
        queue.dlq.browse(limit=1)
        tracemalloc.start()
        try:
            getattr(chosen, verb)(*arguments)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        limit = 2_000 * heavy / 3 if verb in {"count", "count_by", "purge"} else 2_000 * heavy / 8
        assert peak < limit, verb
