"""What a script has to do is bounded: in messages, in bytes, and by what was due when it was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Message, PerKey
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.redrive.redrives import STEP
from rq_dlq.core.steps.senders import BRIEFLY
from rq_dlq.core.steps.step import CHUNK_BYTES, Pipeline
from rq_dlq.core.upkeep.maintain import maintain
from tests.behaviour.faults import acked, lose_replies, meanwhile
from tests.behaviour.helpers import AT_ONCE, bury, claim_all, counts, ids
from tests.behaviour.stepping import alone
from tests.behaviour.test_once import registers
from tests.conftest import Clock
from tests.tables import each_row_afresh

LARGE = "x" * (CHUNK_BYTES * 2 // 5)  # two of them fit
DUE = 128  # lua/claim.lua
STEPS = 10  # the same, of each step of maintenance
NOT_FRESH, FIRST_WITH_STATE = 4_096, 1_024  # bytes; lua/deliver.lua


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each call of a redrive offers."""
    sizes: list[int] = []
    offer: Callable[..., Any] = redrive_calls.offer_redrive

    def counted(*args: Any, offers: Any, **options: Any) -> Any:
        sizes.append(len(offers))
        return offer(*args, offers=offers, **options)

    monkeypatch.setattr(redrive_calls, "offer_redrive", counted)
    return sizes


@each_row_afresh("edit", [None, lambda body: body])
async def test_a_redrive_to_another_queue_moves_what_fits(edit: Any, broker: Any, offered: list[int]) -> None:
    queue, other = broker.queue("a"), broker.queue("b")
    await other.open()
    sent = [await queue.send(LARGE) for _ in range(5)]
    while held := await queue.claim(9):
        await queue.poison(held)
    offered.clear()
    assert (await queue.dlq.redrive(all=True, to="b", edit=edit)).counts.moved == 5
    assert max(offered) == 2
    assert [one.id for one in await claim_all(other)] == sent


async def test_small_ones_are_moved_together(broker: Any, offered: list[int]) -> None:
    queue = broker.queue("a")
    await broker.queue("b").open()
    await bury(queue, range(2 * STEP + 1))
    assert (await queue.dlq.redrive(all=True, to="b")).counts.moved == 2 * STEP + 1
    assert [size for size in offered if size] == [STEP, STEP, 1]


async def test_an_undo_takes_back_as_few_at_a_time_as_came_back(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes a history."""
    queue, undone = broker.queue("a"), list[int]()
    await bury(queue, range(2 * STEP + 1))
    job = await queue.dlq.redrive(all=True)
    make = redrive_calls.Undone

    def noted(*cells: Any) -> Any:
        undone.append(cells[0])
        return make(*cells)

    monkeypatch.setattr(redrive_calls, "Undone", noted)
    await job.undo()
    assert undone == [STEP, STEP, 1]
    assert await counts(queue) == {"dead": 2 * STEP + 1}


@each_row_afresh("count, taken", [(1, 1), (100, 100), (250, DUE + STEPS), (1_000, DUE + STEPS)])
async def test_a_claim_of_what_fell_due(count: int, taken: int, broker: Any, clock: Clock) -> None:
    """It makes no more ready than it takes, and ten; fresh ones it takes as many as it asks for."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(900), delay="1m")
    clock.advance("1m")
    held = await queue.claim(count)
    assert [one.id for one in held] == sent[:taken]
    ready = min(count, DUE) + STEPS - taken
    assert await counts(queue) == {
        "leased": taken,
        **({"ready": ready} if ready else {}),
        "scheduled": 900 - ready - taken,
    }
    assert [one.id for one in await claim_all(queue)] == sent[taken:]
    await queue.send_many(range(count))
    assert len(await queue.claim(count)) == count


@each_row_afresh("options", [{}, {"result": True}, {"ttl": "1h"}, {"ttl": "1h", "result": True}])
async def test_a_claim_takes_all_that_come_for_the_first_time(options: dict[str, Any], broker: Any) -> None:
    """Those that were delivered before take it longer, and count for more."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    sent = await queue.send_many([Message(n, **options) for n in range(300)])
    held = await queue.claim(300)
    assert [one.id for one in held] == sent
    assert {(one.attempt, one.delivery_count, one.redelivered) for one in held} == {(1, 1, False)}
    await queue.release(held)
    again = await queue.claim(300)
    assert [one.id for one in again] == sent[: len(again)]
    assert len(again) <= CHUNK_BYTES // NOT_FRESH


@each_row_afresh("options", [{"result": True}, {"ttl": "1h"}, {"delay": "1s"}])
async def test_a_claim_takes_fewer_where_each_has_a_state(
    options: dict[str, Any], broker: Any, clock: Clock
) -> None:
    """A first delivery that is delayed, expires or is asked for takes longer than a plain one."""
    queue, asked = broker.queue("a"), 600
    sent = await queue.send_many(range(asked), **options)
    clock.advance("1s")
    await queue.maintain()
    held = await queue.claim(asked)
    assert CHUNK_BYTES // (2 * FIRST_WITH_STATE) <= len(held) <= CHUNK_BYTES // FIRST_WITH_STATE
    assert [one.id for one in [*held, *await claim_all(queue)]] == sent


async def test_a_call_that_gives_seats_moves_a_hundred_that_are_due(
    broker: Any, raw: Any, clock: Clock
) -> None:
    """All its steps together: it promotes some, and then others before it gives a seat."""
    queue = broker.queue("a", per_key=PerKey(fair=True))
    await queue.send_many([Message(n, key="a") for n in range(3)])
    await queue.send_many([Message(n, key=f"k{n}") for n in range(300)], delay="1m")
    clock.advance("1m")
    assert len(await queue.claim()) == 1
    assert raw.zcount("rq:{a}:scheduled", "-inf", clock.now) == 200


@each_row_afresh("what", ["fired", "promoted", "expired", "swept", "retired"])
async def test_maintain_ends_though_there_is_always_more(what: str, broker: Any, clock: Clock) -> None:
    """Each look finds as much as the one before: it does what was due when it began, each once."""
    queue, number = broker.queue("a", redelivery=AT_ONCE), 30
    if what == "retired":
        await broker.policies.set("#", dead_letter={"expiration": "1s"})

    async def falls_due() -> None:
        if what == "fired":
            return
        sent = await queue.send_many(
            range(number), **{"promoted": {"delay": "1s"}, "expired": {"ttl": "1s"}}.get(what, {})
        )
        if what == "swept":
            await queue.claim(len(sent), lease="1s")
        elif what == "retired":
            await queue.poison(await queue.claim(len(sent)))

    for n in range(number if what == "fired" else 0):
        await queue.schedule(f"s{n}", 0, every="1s")
    await falls_due()
    clock.advance("1s")
    steps, value, looks = maintain(queue._core), None, 0
    while True:
        try:
            step = steps.send(value)
        except StopIteration as stop:
            done = stop.value
            break
        value = await broker._run(alone(step))
        if isinstance(step, Pipeline) and looks < 200:
            looks += 1
            await falls_due()
            clock.advance("1s")
    assert looks < 200, (done, "it would go on for ever")
    assert done[what] >= number or (what == "swept" and (await queue.stats()).totals["lapsed"] >= number)


async def test_who_made_one_call_leaves_its_register_for_a_minute(
    broker: Any, raw: Any, sync_broker: rq_dlq.Broker
) -> None:
    """I12: only once its reply is known; until then, and after a second call, it is an hour."""
    lost, kept = await lose_replies(broker, "send"), list[int]()

    def look() -> None:
        kept.extend(raw.pttl(register) for register in registers(raw))
        acked(sync_broker.queue("a"))

    meanwhile(lost, look)
    queue = broker.queue("a")
    await queue.send("x")
    assert lost.runs == 2
    assert all(3_500_000 < span <= 3_600_000 for span in kept)
    assert len(kept) == 2
    (register,) = registers(raw)
    assert 0 < raw.pttl(register) <= BRIEFLY
    assert (await ids(queue), (await queue.stats()).totals["sent"]) == ([], 1)
    await queue.send("y")
    assert 3_500_000 < raw.pttl(register) <= 3_600_000


@each_row_afresh("verb", ["send_many", "purge", "session"])
async def test_other_calls_that_are_numbered(verb: str, broker: Any, raw: Any) -> None:
    queue = broker.queue(verb)
    if verb == "send_many":
        await queue.send_many(range(1_000))
    elif verb == "purge":
        await broker.queue("other").send_many(range(2))
        await queue.open()
        assert await broker.queue("other").select(all=True).move(verb) == 2
        await queue.select("priority = 4").purge()
    else:
        async with queue.session() as session:
            await session.send(queue, "x")
    made = registers(raw, verb)
    assert len(made) == {"send_many": 4, "purge": 1, "session": 1}[verb]
    assert all(0 < raw.pttl(register) <= BRIEFLY for register in made)
