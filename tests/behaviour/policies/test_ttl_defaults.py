"""The time to live that the expiry policy gives, and the queues that expired messages have."""

from __future__ import annotations

from typing import Any

from rq_dlq import ExpiryPolicy
from tests.behaviour.helpers import after, bodies, bury, counts, one
from tests.cases import load
from tests.conftest import Clock
from tests.tables import each_row_afresh

ROWS = [row for row in load("expiry_clamp") if row["rq"] == "S"]


async def ttl_of(queue: Any, clock: Clock, **options: Any) -> int | None:
    """The time to live that a message gets, in milliseconds."""
    message_id = await queue.send("x", **options)
    (message,) = await queue.select(ids=[message_id], places=["ready", "scheduled"]).browse()
    expires = message.expires_at
    return None if expires is None else round(expires.timestamp() * 1000) - clock.now


@each_row_afresh("row", ROWS)
async def test_at_send(row: dict[str, Any], broker: Any, clock: Clock) -> None:
    """The rows of Artemis: the default is for who has no ttl, else the bounds hold."""
    names = {"expiry_delay": "expiry_delay", "min": "min_expiry_delay", "max": "max_expiry_delay"}
    said: dict[str, Any] = {names[name]: row[name] / 1000 for name in names if row.get(name, -1) != -1}
    if "no_expiry" in row:
        said["no_expiry"] = row["no_expiry"]
    await broker.policies.set("#", expiry=said, max_in_flight=None)
    options = {} if row["ttl"] is None else {"ttl": row["ttl"] / 1000}
    queue = broker.queue("a")
    assert await ttl_of(queue, clock, **options) == row["expect"]
    await queue.send_many(["y"], **options)
    clock.advance((row["expect"] or 10**9) / 1000)
    assert await queue.claim(5) == [] if row["expect"] else len(await queue.claim(5)) == 2


async def test_the_default_expires_messages(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", expiry=ExpiryPolicy(expiry_delay="10s"))
    await queue.send("x")
    await queue.send("y", delay="5s")
    clock.advance("9.999s")
    assert await bodies(queue, 1) == ["x"]
    clock.advance("1ms")
    await queue.maintain()
    assert await counts(queue) == {"leased": 1, "expired": 1}


async def test_in_a_session(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", expiry={"max_expiry_delay": "10s"})
    async with queue.session() as session:
        await session.send(queue, "x")
        await session.send(queue, "y", ttl="1h")
        await session.send(queue, "z", ttl="5s")
    ttls = [message.expires_at.timestamp() - clock.now / 1000 for message in await queue.peek()]
    assert [round(ttl) for ttl in ttls] == [10, 10, 5]


async def test_a_change_is_for_what_is_sent_from_then_on(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    assert await ttl_of(queue, clock) is None
    await broker.policies.set("a", expiry={"expiry_delay": "10s"})
    assert await ttl_of(queue, clock) == 10_000
    await broker.policies.set("a", expiry={"no_expiry": True})
    assert await ttl_of(queue, clock, ttl="1s") is None
    await broker.policies.remove("a")
    assert await ttl_of(queue, clock, ttl="1s") == 1_000
    clock.advance("10s")
    await queue.maintain()
    assert await counts(queue) == {"ready": 2, "expired": 2}


async def test_never_applied_to_dead_letters(broker: Any, clock: Clock) -> None:
    """Nor to what expired; FIELD-NOTES: Artemis applies it again in the expiry queue."""
    await broker.policies.set("#", expiry={"expiry_delay": "10s"})
    queue = broker.queue("a")
    await bury(queue, ["dead"])
    await queue.send("late")
    clock.advance("10s")
    for _ in range(2):
        await queue.maintain()
        clock.advance("30d")
    assert await counts(queue) == {"dead": 1, "expired": 1}
    assert (await queue.stats()).totals["expired"] == 1


async def test_never_applied_again(broker: Any, clock: Clock) -> None:
    """A redrive, a redelivery and a move are no send."""
    await broker.policies.set("#", expiry={"expiry_delay": "10s", "min_expiry_delay": "10s"})
    queue, other = broker.queue("a", redelivery=after(0)), broker.queue("b")
    await other.send("there is such a queue")
    await other.purge(all=True)
    await bury(queue, ["redriven", "moved"])
    await queue.send("redelivered")
    clock.advance("8s")
    await (await one(queue)).nack()
    redriven, _ = await queue.dlq.browse()
    assert (await queue.dlq.redrive(ids=[redriven.id])).counts.moved == 1
    assert await queue.dlq.select(all=True).move("b") == 1
    clock.advance("2s")
    await queue.maintain()
    assert await counts(queue) == {"ready": 1, "expired": 1}  # the redelivered one, at its first time
    clock.advance("30d")
    assert (await bodies(queue), await bodies(other)) == (["redriven"], ["moved"])


async def test_a_moved_message_keeps_its_own_time(broker: Any, clock: Clock) -> None:
    queue, other = (
        broker.queue("a"),
        broker.queue("b", expiry={"expiry_delay": "1h", "min_expiry_delay": "1h"}),
    )
    await other.send("there is such a queue")
    await other.purge(all=True)
    await queue.send("short", ttl="10s")
    await queue.send("endless")
    assert await queue.select(all=True).move("b") == 2
    clock.advance("10s")
    assert await bodies(other) == ["endless"]
    assert await counts(other) == {"leased": 1, "expired": 1}


# The queues of what expired


@each_row_afresh(
    "expiry, name",
    [
        ({}, "EXP.a.b"),
        ({"prefix": "OLD."}, "OLD.a.b"),
        ({"suffix": ".old"}, "EXP.a.b.old"),
        ({"prefix": "", "suffix": ".old"}, "a.b.old"),
        ({"name": "LATE"}, "LATE"),
    ],
)
async def test_names(expiry: dict[str, Any], name: str, broker: Any, clock: Clock) -> None:
    await broker.policies.set("a.*", expiry={"retention": None, **expiry})
    queue = broker.queue("a.b")
    await queue.send_many(["x", "y"], ttl="1s")
    clock.advance("1s")
    await queue.maintain()
    assert (await queue.settings()).expired_name == name
    assert await counts(broker.queue(name)) == {"expired": 2}
    assert await bodies(broker.queue(name), 1) == ["x"]
    assert await bodies(broker.queue("EXP.a.b"), 1) == ["y"]


async def test_one_expiry_queue_for_many(broker: Any, clock: Clock) -> None:
    await broker.policies.set("#", expiry={"name": "LATE", "expiry_delay": "1s"})
    for name in ("a", "b", "c"):
        await broker.queue(name).send(name)
    clock.advance("1s")
    for name in ("a", "b", "c"):
        await broker.queue(name).maintain()
    late = broker.queue("LATE")
    claimed = await late.claim(2)
    assert len(claimed) == 2
    await claimed[0].ack()
    assert (await claimed[1].nack()).outcome == "kept"
    assert await late.select(all=True).redrive() == 2
    assert await counts(late) == {}
