"""An index that was deleted or restored in part: its messages come back, and until then everybody says so."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.core.upkeep.rounds import work_off
from rq_dlq.core.upkeep.upkeep import step
from rq_dlq.core.upkeep.watched import CHECK_AGAIN, MaintainedQueue
from tests.audit import audit
from tests.behaviour.helpers import AT_ONCE, STATES, counts, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

KEYS = QueueKeys("rq", "a")
INDEXES = ["ready", "scheduled", "dead", "expired", "leases", "claims"]
OF = {"ready": "ready", "scheduled": "scheduled", "dead": "dead", "expired": "expired"}


async def fill(queue: Any, clock: Clock) -> None:
    """A message in each state, by its name."""
    await queue.send("x", id="expired", ttl="1s")
    clock.advance("1s")
    await queue.send("x", id="dead")
    await (await one(queue)).poison("told so")
    await queue.send("x", id="leased")
    await one(queue)
    await queue.send("x", id="scheduled", delay="1h")
    await queue.send("x", id="ready")
    assert await counts(queue) == dict.fromkeys(STATES, 1)


@each_row_afresh("index", INDEXES)
async def test_a_lost_index_comes_back(broker: Any, clock: Clock, raw: Any, index: str) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await fill(queue, clock)
    before = {state: await queue.explain(state) for state in STATES}
    raw.delete(KEYS[index])
    lost = OF.get(index, "leased")
    stats = await queue.stats()
    assert (stats.orphaned, getattr(stats, lost)) == (1, 0)
    if index != "claims":  # the lease ends first
        said = await queue.explain(lost)
        assert (said.place, said.message.id) == ("orphaned", lost)
        assert "queue.maintain()" in said.next

    assert (await queue.maintain())["reindexed"] > 0
    audit(raw, "a")
    assert await counts(queue) == dict.fromkeys(STATES, 1)
    assert (await queue.stats()).totals["reindexed"] == 1
    for state in STATES:
        assert (await queue.explain(state)).place == before[state].place
    assert (await queue.maintain())["reindexed"] == 0


async def test_every_index_at_once(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await fill(queue, clock)
    await queue.send("late", id="mortal", ttl="1h", priority=9)
    await queue.send("x" * 3_000, id="long", ttl="1h", priority=9)
    for name in (*INDEXES, "groups", "expiring"):
        raw.delete(KEYS[name])
    assert (await queue.stats()).orphaned == 7
    await queue.maintain()
    audit(raw, "a")
    assert raw.zrange(KEYS["expiring"], 0, -1) == [b"long", b"mortal"]
    assert (await one(queue)).id == "mortal"
    assert (await one(queue)).id == "long"
    assert (await one(queue)).id == "ready"


async def test_a_holder_whose_lease_was_lost_may_be_alive(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(range(3))
    held = await queue.claim(3, lease="1s")
    raw.delete(KEYS["leases"], KEYS["claims"])
    await queue.maintain()
    assert await held[0].ack()
    clock.advance("29999ms")
    assert await queue.claim() == []
    clock.advance("1ms")
    back = await queue.claim(3)
    assert [(delivery.id, delivery.charged) for delivery in back] == [(d.id, 0) for d in held[1:]]
    assert all(delivery.redelivered for delivery in back)


async def test_a_part_of_an_index_was_restored(broker: Any, clock: Clock, raw: Any) -> None:
    del clock
    queue = broker.queue("a")
    await queue.send_many(range(60))
    rows = raw.zrange(KEYS["ready"], 0, -1)
    raw.zrem(KEYS["ready"], *rows[::2])
    held = await queue.claim(10)
    assert (await queue.stats()).orphaned == 30
    await queue.maintain()
    assert await counts(queue) == {"ready": 50, "leased": 10}
    assert [d.body for d in [*held, *await queue.claim(50)]] == [
        *range(1, 21, 2),
        *range(0, 21, 2),
        *range(21, 60),
    ]


async def test_each_step_is_bounded(broker: Any, clock: Clock, raw: Any) -> None:
    """By its limit, where the records are long; and by half a megabyte."""
    del clock
    queue = broker.queue("a")
    await queue.send_many(["x" * 3_000] * 50)
    await queue.send_many(["x" * 300_000] * 4)
    raw.delete(KEYS["ready"])
    steps = 0
    while (looked := await broker._run(step("reindexed", KEYS, b"", 10))) > 0:
        steps += 1
        assert looked <= 20
        assert await queue.stats()
    assert steps >= 3
    assert (await counts(queue))["ready"] == 54
    assert not raw.exists(KEYS["reindexed"])


async def test_maintenance_looks_for_it_once_a_minute(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    maintained = MaintainedQueue(KEYS)

    async def go_round() -> Counter[str]:
        reads = await broker._run(reading(maintained))
        names, _ = maintained.due([clock.now, *reads[1:]])
        done: Counter[str] = Counter()
        await broker._run(work_off(deque((maintained, name) for name in names), done))
        return done

    await queue.send_many(range(100))
    raw.delete(KEYS["ready"])
    done = await go_round()
    clock.advance(f"{CHECK_AGAIN}ms")
    assert (done + await go_round())["reindexed"] >= 100
    assert await counts(queue) == {"ready": 100}
    raw.delete(KEYS["ready"])
    assert "reindexed" not in await go_round()
    clock.advance(f"{CHECK_AGAIN}ms")
    assert (await go_round())["reindexed"] >= 100
    clock.set(clock.now - 3_600_000)
    assert "reindexed" not in await go_round()
    clock.advance(f"{CHECK_AGAIN}ms")
    assert "reindexed" in await go_round()


def reading(maintained: MaintainedQueue) -> Steps[list[Any]]:
    """The reads of a round."""
    found: list[Any] = yield Pipeline(maintained.looks)
    return found


async def test_what_only_a_later_version_can_place_is_left(broker: Any, clock: Clock, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m", delay="1h")
    state = raw.hget(KEYS["states"], "m")
    raw.hset(KEYS["states"], "m", b">=9.9 " + state)
    raw.delete(KEYS["scheduled"])
    assert (await queue.maintain())["reindexed"] == 1
    assert raw.get(KEYS["reindexed"]) == b"done"
    assert 500_000 < raw.pttl(KEYS["reindexed"]) <= 600_000
    assert (await queue.maintain())["reindexed"] == 0
    clock.advance("10m")
    raw.hset(KEYS["states"], "m", state)
    raw.delete(KEYS["reindexed"])
    assert (await queue.maintain())["reindexed"] == 1


async def test_whose_lease_is_lost_is_listed_once(broker: Any, raw: Any) -> None:
    """Whatever signs its id has."""
    queue = broker.queue("a")
    await queue.send("x", id="m-1")
    await one(queue)
    before = raw.hgetall(KEYS["claims"])
    raw.delete(KEYS["leases"])
    await queue.maintain()
    assert raw.hgetall(KEYS["claims"]) == before
    assert (await queue.stats()).leased == 1
