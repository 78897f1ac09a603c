"""Batches: several claims under one name (`core.batches`), and how far a query has come with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rq_dlq import InvalidInput, SharedDeadLetterStrategy
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.batches.batches import CLAIM, ClaimedBatch
from rq_dlq.core.batches.renewal import Renewal
from rq_dlq.core.pages.calls import Page
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.settling import settle as settling_settle
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.values.message import MessageRow
from rq_dlq.values.state import first_delivery
from rq_dlq.values.wanted import ALL, RECORD, Wanted
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import AT_ONCE, after, bury, claim_all, counts, ids
from tests.behaviour.stepping import alone, drive, stop_after
from tests.conftest import Clock
from tests.tables import each_row_afresh

LEASE = 60_000
SEVERAL = 2 * CLAIM + 200  # messages, of three claims


async def claim(
    broker: Any, queue: Any, name: str = "b", limit: int = 10_000, **options: Any
) -> ClaimedBatch:
    steps = batches.claim_batch(queue._core, name, limit=limit, lease=LEASE, **options)
    claimed: ClaimedBatch = await broker._run(steps)
    return claimed


async def sent(broker: Any, queue: Any, count: int) -> tuple[list[str], ClaimedBatch]:
    """That many messages and the batch of them all."""
    names: list[str] = await queue.send_many(range(count))
    return names, await claim(broker, queue)


async def found(broker: Any, queue: Any, name: str = "b") -> ClaimedBatch:
    batch: ClaimedBatch = await broker._run(batches.find_batch(queue._core.keys, name))
    return batch


async def rows(broker: Any, queue: Any, token: str, first: int = 0, limit: int = 1_000) -> list[MessageRow]:
    """What a claim still holds, by the states of the messages; by its counter it is the same."""
    pages: list[Page] = [
        await broker._run(batches.read_claim(queue._core.keys, token, first, limit, wanted))
        for wanted in (ALL, RECORD)
    ]
    assert (pages[0].ids, pages[0].records) == (pages[1].ids, pages[1].records)
    return pages[0].rows()


async def read(broker: Any, queue: Any, batch: ClaimedBatch) -> list[str]:
    """The ids that a batch still holds."""
    return [row.id for token in batch.tokens for row in await rows(broker, queue, token)]


async def ack(broker: Any, queue: Any, batch: ClaimedBatch) -> int:
    acked: int = await broker._run(batches.ack_batch(queue._core.keys, batch.tokens))
    return acked


async def extend(broker: Any, queue: Any, batch: ClaimedBatch, lease: int = LEASE) -> list[str]:
    over: list[str] = await broker._run(batches.extend_batch(queue._core.keys, batch.tokens, lease))
    return over


async def release(broker: Any, queue: Any, batch: ClaimedBatch) -> int:
    released: int = await broker._run(batches.release_batch(queue._core, batch.tokens))
    return released


async def halve(broker: Any, queue: Any, batch: ClaimedBatch, rest: str = "rest") -> int:
    kept: int = await broker._run(batches.halve_batch(queue._core.keys, batch.tokens, rest))
    return kept


async def nack(broker: Any, queue: Any, token: str, names: Sequence[str]) -> None:
    held = [(name, token) for name in names]
    assert all(await broker._run(settling_settle.nack(queue._core, held, "boom")))


async def run(broker: Any, call: Any) -> Any:
    return await broker._run(alone(call))


# Claiming and reading


async def test_a_batch_is_as_many_claims_as_it_needs(broker: Any, raw: Any) -> None:
    """In order, delivered once (I3), one lease for each claim."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, SEVERAL)
    assert batch == ClaimedBatch("b", "a", (CLAIM, CLAIM, 200))
    assert await read(broker, queue, batch) == names
    assert {int(row.state.split()[3]) for row in await rows(broker, queue, batch.tokens[0])} == {1}
    assert await counts(queue) == {"leased": SEVERAL}
    assert raw.zcard(queue._core.keys["leases"]) == 3


async def test_the_same_name_is_the_same_batch(broker: Any) -> None:
    """I12: whoever knows the name is given the same messages, and nothing new."""
    queue = broker.queue("a")
    names = await queue.send_many(range(SEVERAL + 100))
    batch = await claim(broker, queue, limit=SEVERAL)
    assert await claim(broker, queue, limit=SEVERAL) == batch
    assert await found(broker, queue) == batch
    assert await read(broker, queue, batch) == names[:SEVERAL]
    assert await counts(queue) == {"ready": 100, "leased": SEVERAL}
    other = await claim(broker, queue, "other")
    assert await read(broker, queue, other) == names[SEVERAL:]


async def test_a_lost_reply_claims_nothing_new(broker: Any) -> None:
    """I12, where the reply is only how many."""
    queue = broker.queue("a")
    await queue.send_many(range(SEVERAL + 100))
    lost = await lose_replies(broker, "claim")
    batch = await claim(broker, queue, limit=SEVERAL)
    assert (lost.runs, batch.sizes) == (4, (CLAIM, CLAIM, 200))
    assert await counts(queue) == {"ready": 100, "leased": SEVERAL}


async def test_a_batch_ends_where_nothing_more_is_ready(broker: Any) -> None:
    """Else it would go on for as long as a producer does, in claims of a message each."""
    queue = broker.queue("a")
    await queue.send_many(range(3))

    async def produce(script: str) -> None:
        if script == "claim":
            await queue.send("another")

    batch = await drive(broker, batches.claim_batch(queue._core, "b", limit=100, lease=LEASE), produce)
    assert batch.sizes == (3,)


async def test_a_batch_of_large_dead_letters_has_all_of_them(broker: Any) -> None:
    """Each claim stops at half a megabyte."""
    queue = broker.queue("a")
    await queue.send_many(["x" * 200_000] * 10)
    assert await queue.select(all=True).dead_letter() == 10
    assert (await claim(broker, queue.dlq)).sizes == (3, 3, 3, 1)
    assert await counts(queue) == {"leased": 10}


async def test_a_claim_takes_fewer_that_were_delivered_before(broker: Any) -> None:
    """I9: one takes Redis as long as several fresh ones. The batch has all of them."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, SEVERAL)
    await release(broker, queue, batch)
    again = await claim(broker, queue, "again")
    assert max(again.sizes) < 400
    assert await read(broker, queue, again) == names
    assert again.bytes == batch.bytes


async def test_a_batch_of_nothing(broker: Any) -> None:
    queue = broker.queue("a")
    batch = await claim(broker, queue, wait=1)
    assert batch == await found(broker, queue) == ClaimedBatch("b", "a")
    assert await read(broker, queue, batch) == await extend(broker, queue, batch) == []
    assert await ack(broker, queue, batch) == await release(broker, queue, batch) == 0
    assert await halve(broker, queue, batch) == 0


async def test_a_place_is_the_same_message_while_a_sweep_goes_on(broker: Any, clock: Clock) -> None:
    """So tasks that share a claim neither leave one out nor read one twice."""
    queue = broker.queue("a", redelivery=after("1h"))
    names, batch = await sent(broker, queue, CLAIM)
    (token,) = batch.tokens
    before = await rows(broker, queue, token, 300, 10)
    assert [row.id for row in before] == names[300:310]
    clock.advance("1m")
    swept = upkeep_calls.sweep(queue._core.keys, limit=50, seed=0.5, default_policy=queue._core.policy)
    assert await run(broker, swept) == 50
    assert await rows(broker, queue, token, 300, 10) == before
    assert [row.id for row in await rows(broker, queue, token, 40, 20)] == names[50:60]
    assert await read(broker, queue, batch) == names[50:]
    assert (await found(broker, queue)).sizes == (CLAIM,)


async def test_pages_are_the_whole_batch(broker: Any) -> None:
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, SEVERAL)
    places = [
        (token, first)
        for token, size in zip(batch.tokens, batch.sizes, strict=True)
        for first in range(0, size, 70)
    ]
    pages = [await rows(broker, queue, token, first, 70) for token, first in places]
    assert [row.id for page in pages for row in page] == names


async def test_what_is_settled_by_itself_is_no_part_of_it(broker: Any) -> None:
    """Neither read nor acked; the places of the others stay, and a repeated claim knows them all."""
    queue = broker.queue("a", redelivery=after("1h"))
    names, batch = await sent(broker, queue, 10)
    await nack(broker, queue, batch.tokens[0], names[:3])
    assert await read(broker, queue, batch) == names[3:]
    assert [row.id for row in await rows(broker, queue, batch.tokens[0], 8, 9)] == names[8:]
    assert await claim(broker, queue) == await found(broker, queue) == batch
    assert await ack(broker, queue, batch) == 7
    assert await counts(queue) == {"scheduled": 3}
    assert (await queue.stats()).totals["acked"] == 7


@each_row_afresh("wanted", [ALL, RECORD])
@each_row_afresh("trip", [1, 2])
async def test_what_ends_while_a_claim_is_read_is_no_part_of_it(
    broker: Any, wanted: Wanted, trip: int
) -> None:
    """Reading takes no script; a message that is sent again under its id belongs to nobody's claim."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, 3)
    (token,) = batch.tokens
    records = [row.record for row in await rows(broker, queue, token)]
    verbs: list[str] = []

    async def settle(script: str) -> None:
        verbs.append(script)
        if len(verbs) == trip:
            await run(broker, settling_calls.ack(queue._core.keys, [(names[0], token), (names[1], token)]))
            await queue.send("another", id=names[0])

    page = await drive(broker, batches.read_claim(queue._core.keys, token, 0, 9, wanted), settle)
    first = 2 if trip == 1 else 0  # all is read by the second
    assert page.ids == [name.encode() for name in names[first:]]
    assert page.records == records[first:]
    assert not any(verbs)


async def test_of_first_deliveries_no_history_is_read_and_without_it_no_state(broker: Any) -> None:
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, 3)
    (token,) = batch.tokens
    assert {row.state for row in await rows(broker, queue, token)} == {first_delivery(token)}
    trips: list[str] = []

    async def note(script: str) -> None:
        trips.append(script)

    page = await drive(broker, batches.read_claim(queue._core.keys, token, 0, 9), note)
    assert (len(page.ids), page.histories, len(trips)) == (len(names), [None] * 3, 2)
    page = await drive(broker, batches.read_claim(queue._core.keys, token, 0, 9, RECORD), note)
    assert (len(page.ids), page.states, page.histories, len(trips)) == (len(names), [], [], 4)


async def test_what_ends_while_a_history_is_read_is_no_part_of_the_claim(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    names = await queue.send_many(range(3))
    await (await queue.claim(1))[0].nack("broken")
    (token,) = (await claim(broker, queue)).tokens
    stories = {row.id: row.history for row in await rows(broker, queue, token)}
    assert [name for name in names if b"broken" in stories[name]] == names[:1]
    steps = 0

    async def settle(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == 2:  # its place and its state are read
            await run(broker, settling_calls.ack(queue._core.keys, [(names[0], token)]))

    page = await drive(broker, batches.read_claim(queue._core.keys, token, 0, 9), settle)
    assert sorted(page.ids) == sorted(name.encode() for name in names[1:])
    assert page.histories == [None, None]


async def test_a_claim_that_is_over_hides_no_other(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("1h"))
    names, batch = await sent(broker, queue, SEVERAL)
    await nack(broker, queue, batch.tokens[0], names[:CLAIM])
    left = await found(broker, queue)
    assert left.sizes == (0, CLAIM, 200)
    assert await read(broker, queue, left) == names[CLAIM:]
    assert await extend(broker, queue, left) == [batch.tokens[0]]
    assert await halve(broker, queue, left) == 350
    assert await read(broker, queue, left) == names[CLAIM : CLAIM + 350]
    assert await read(broker, queue, await found(broker, queue, "rest")) == names[CLAIM + 350 :]


# Leases


async def test_an_extended_batch_is_kept(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    names, batch = await sent(broker, queue, SEVERAL)
    lost = await lose_replies(broker, "extend_claim")
    for _ in range(3):
        clock.advance("59s")
        assert await extend(broker, queue, batch) == []
        assert await queue.claim() == []
    assert lost.runs == 4
    assert await read(broker, queue, batch) == names


async def test_a_swept_batch_is_over(broker: Any, clock: Clock) -> None:
    """I2: whatever its tokens are used for, it changes nothing."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    names, batch = await sent(broker, queue, SEVERAL)
    clock.advance("1m")
    await queue.maintain()
    assert await extend(broker, queue, batch) == batch.tokens
    assert await read(broker, queue, batch) == []
    assert await ack(broker, queue, batch) == await release(broker, queue, batch) == 0
    assert await halve(broker, queue, batch) == 0
    assert (await found(broker, queue)).sizes == ()
    assert await counts(queue) == {"ready": SEVERAL}
    again = await claim(broker, queue, "again")
    assert await ack(broker, queue, batch) == 0
    assert await read(broker, queue, again) == names


async def test_what_nobody_has_swept_is_still_held(broker: Any, clock: Clock) -> None:
    """As of any delivery: a query that is back late, but first, goes on with its batch."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    names, batch = await sent(broker, queue, 10)
    clock.advance("1h")
    assert await extend(broker, queue, batch) == []
    await queue.maintain()
    assert await read(broker, queue, batch) == names
    clock.advance("1h")
    assert await ack(broker, queue, batch) == 10


async def test_leases_are_renewed_while_more_is_claimed(broker: Any, clock: Clock) -> None:
    """Nobody else knows of the claims of a batch before the last one is made."""
    queue, other = broker.queue("a", redelivery=AT_ONCE), broker.queue("other", redelivery=AT_ONCE)
    renewal = Renewal(LEASE)

    async def pass_time(script: str) -> None:
        if script == "claim":
            clock.advance("25s")

    async def claim_slowly(queue: Any) -> ClaimedBatch:
        steps = batches.claim_batch(queue._core, "b", limit=SEVERAL, lease=LEASE, renewal=renewal)
        claimed: ClaimedBatch = await drive(broker, steps, pass_time)
        return claimed

    names = {family: await family.send_many(range(SEVERAL)) for family in (queue, other)}
    claimed = {family: await claim_slowly(family) for family in (queue, other)}
    for family, batch in claimed.items():
        await family.maintain()
        assert await read(broker, family, batch) == names[family]


# Settling


async def test_ack_once(broker: Any) -> None:
    """I12, I13."""
    queue = broker.queue("a")
    _, batch = await sent(broker, queue, SEVERAL)
    lost = await lose_replies(broker, "ack_claim")
    await ack(broker, queue, batch)
    assert lost.runs == 2
    assert await ack(broker, queue, batch) == 0
    assert (await queue.stats()).totals["acked"] == SEVERAL
    assert await counts(queue) == {}


async def test_acked_says_how_many(broker: Any) -> None:
    queue = broker.queue("a")
    _, batch = await sent(broker, queue, SEVERAL)
    assert await ack(broker, queue, batch) == SEVERAL


async def test_a_released_batch_returns_to_its_old_place(broker: Any) -> None:
    """I8; not charged. What was settled by itself is left alone."""
    queue = broker.queue("a", redelivery=after("1h"))
    names, batch = await sent(broker, queue, SEVERAL)
    await nack(broker, queue, batch.tokens[1], names[CLAIM : CLAIM + 2])
    assert await release(broker, queue, batch) == SEVERAL - 2
    assert await release(broker, queue, batch) == 0
    del names[CLAIM : CLAIM + 2]
    deliveries = await claim_all(queue)
    assert [delivery.id for delivery in deliveries] == names[:1_000]
    assert {(delivery.released, delivery.charged) for delivery in deliveries} == {(1, 0)}


# Halving


@each_row_afresh("size", [1, 2, 3, CLAIM, SEVERAL])
async def test_a_half_is_put_aside(size: int, broker: Any, raw: Any) -> None:
    """The first half stays; nothing is delivered, and both are found by their names."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, size)
    states = raw.hgetall(queue._core.keys["states"])
    half = size // 2
    assert await halve(broker, queue, batch) == half
    first, second = await found(broker, queue), await found(broker, queue, "rest")
    assert await read(broker, queue, first) == await read(broker, queue, batch) == names[:half]
    assert await read(broker, queue, second) == names[half:]
    assert second.messages == size - half
    told = {text.split(b" ", 2)[2] for text in states.values()}
    assert {text.split(b" ", 2)[2] for text in raw.hgetall(queue._core.keys["states"]).values()} == told
    assert await ack(broker, queue, second) + await ack(broker, queue, first) == size


async def test_halves_of_halves(broker: Any) -> None:
    """Down to nothing; all are put aside, each once."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, 7)
    assert [await halve(broker, queue, batch, f"rest{n}") for n in range(4)] == [3, 1, 0, 0]
    assert await read(broker, queue, batch) == []
    aside = [await read(broker, queue, await found(broker, queue, f"rest{n}")) for n in range(4)]
    assert aside == [names[3:], names[1:3], names[:1], []]


async def test_a_token_that_is_in_use_is_given_nothing_more(broker: Any) -> None:
    """What it holds would be lost to it."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, 8)
    for _ in range(2):
        await halve(broker, queue, batch)
        assert await read(broker, queue, batch) == names[:4]
        assert await read(broker, queue, await found(broker, queue, "rest")) == names[4:]


async def test_what_is_put_aside_lapses_with_the_rest(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    names, batch = await sent(broker, queue, 4)
    clock.advance("30s")
    await halve(broker, queue, batch)
    clock.advance("29s")
    assert await ids(queue) == []
    clock.advance("1s")
    assert await ids(queue) == names


async def test_a_half_counts_only_what_is_held(broker: Any) -> None:
    queue = broker.queue("a", redelivery=after("1h"))
    names, batch = await sent(broker, queue, 10)
    await nack(broker, queue, batch.tokens[0], names[1:5])
    assert await halve(broker, queue, batch) == 3
    assert await read(broker, queue, batch) == [names[0], *names[5:7]]
    assert await read(broker, queue, await found(broker, queue, "rest")) == names[7:]


async def test_divided_once(broker: Any) -> None:
    """I12."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, 10)
    lost = await lose_replies(broker, "divide_claim")
    assert await halve(broker, queue, batch) == 5
    assert lost.runs == 2
    assert await read(broker, queue, batch) == names[:5]
    assert await read(broker, queue, await found(broker, queue, "rest")) == names[5:]


async def test_a_halving_that_was_cut_off_loses_nothing(broker: Any) -> None:
    """Done again, under another name, it puts more aside: each message is in one of all."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, SEVERAL)
    keys = queue._core.keys
    await stop_after(broker, batches.halve_batch(keys, batch.tokens, "rest"), "divide_claim")
    assert await halve(broker, queue, batch, "more") == 400
    assert await read(broker, queue, batch) == names[:400]
    aside = [await read(broker, queue, await found(broker, queue, name)) for name in ("rest", "more")]
    assert sorted(aside[0] + aside[1]) == names[400:]


async def test_another_name(broker: Any) -> None:
    """Cut off or not, it can be done again."""
    queue = broker.queue("a")
    names, batch = await sent(broker, queue, SEVERAL)
    keys = queue._core.keys
    await stop_after(broker, batches.rename_batch(keys, batch, "new"), "divide_claim")
    for _ in range(2):
        await broker._run(batches.rename_batch(keys, await found(broker, queue), "new"))
        assert await read(broker, queue, await found(broker, queue, "new")) == names
        assert (await found(broker, queue)).sizes == ()


# Queues of every kind


async def test_a_batch_of_dead_letters(broker: Any) -> None:
    queue, dead = broker.queue("a"), broker.queue("DLQ.a")
    names = await bury(queue, range(5))
    batch = await claim(broker, dead)
    assert await read(broker, dead, batch) == names
    assert await release(broker, dead, batch) == 5
    assert await counts(queue) == {"dead": 5}
    batch = await claim(broker, dead, "again")
    assert await ack(broker, dead, batch) == 5
    assert (await queue.stats()).totals["acked"] == 5


async def test_a_view_has_no_batches(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("graves"))
    await bury(broker.queue("a"), range(5))
    with pytest.raises(InvalidInput, match=r"'graves'.*Claim from those"):
        await claim(broker, broker.queue("graves"))
    assert await counts(broker.queue("a")) == {"dead": 5}


async def test_a_batch_takes_no_more_than_may_be_in_flight(broker: Any) -> None:
    queue = broker.queue("a")
    await broker.policies.set("a", max_in_flight=700)
    names = await queue.send_many(range(1_000))
    batch = await claim(broker, queue)
    assert batch.sizes == (CLAIM, 200)
    assert (await claim(broker, queue, "other")).sizes == ()
    assert await halve(broker, queue, batch) == 350
    assert await ack(broker, queue, batch) == 350
    other = await claim(broker, queue, "other")
    assert await read(broker, queue, other) == names[700:]


async def test_a_paused_queue_gives_no_batch(broker: Any) -> None:
    """What is held goes on."""
    queue = broker.queue("a")
    names = await queue.send_many(range(6))
    batch = await claim(broker, queue, limit=4)
    await queue.pause()
    assert (await claim(broker, queue, "other", wait=1)).sizes == ()
    assert await claim(broker, queue, limit=4) == batch
    assert await read(broker, queue, batch) == names[:4]
    assert await extend(broker, queue, batch) == []
    assert await ack(broker, queue, batch) == 4


async def test_a_time_to_live_ends_where_it_waits(broker: Any, clock: Clock) -> None:
    """I7: not in a batch; what is given back too late expires."""
    queue = broker.queue("a")
    over = await queue.send("over", ttl="1s")
    held = await queue.send("held", ttl="10s")
    stays = await queue.send("stays")
    clock.advance("1s")
    batch = await claim(broker, queue)
    assert await read(broker, queue, batch) == [held, stays]
    clock.advance("10s")
    assert await extend(broker, queue, batch) == []
    assert await read(broker, queue, batch) == [held, stays]
    await halve(broker, queue, batch)
    assert await release(broker, queue, batch) == 1
    await queue.maintain()
    assert [message.id for message in await queue.expired.browse()] == [over, held]
    assert await read(broker, queue, await found(broker, queue, "rest")) == [stays]


# How far a query has come


async def begin(broker: Any, queue: Any, batch: int, who: str) -> Any:
    begun = await run(broker, batch_calls.begin_batch(queue._core.keys, "query", batch=batch, run=who))
    return begun.done, begun.failures, begun.half


async def test_a_batch_fails_once_for_each_other_run(broker: Any) -> None:
    """A run that begins it again, or twice since a reply was lost, has not failed (I12)."""
    queue = broker.queue("a")
    assert await begin(broker, queue, 1, "x") == (0, 0, False)
    lost = await lose_replies(broker, "begin_batch")
    assert await begin(broker, queue, 1, "y") == (0, 1, False)
    assert lost.runs == 2
    assert await begin(broker, queue, 1, "y") == (0, 1, False)
    assert await begin(broker, queue, 1, "z") == (0, 2, False)
    assert await begin(broker, queue, 2, "z") == (0, 0, False)


async def test_a_query_counts_its_failures_until_a_batch_with_rows_succeeds(broker: Any) -> None:
    queue = broker.queue("a")
    keys = queue._core.keys
    row = [await run(broker, batch_calls.begin_batch(keys, "query", batch=1, run=who)) for who in "xyzz"]
    assert [begun.in_a_row for begun in row] == [0, 1, 2, 2]
    await run(broker, batch_calls.note_suspected(keys, "query", 10))
    await run(broker, batch_calls.note_held(keys, "query", 0))
    assert await run(broker, batch_calls.note_done(keys, "query", 1)) == (1, 10), "it had no rows"
    assert (await run(broker, batch_calls.begin_batch(keys, "query", batch=2, run="z"))).in_a_row == 2
    await run(broker, batch_calls.note_held(keys, "query", 4))
    lost = await lose_replies(broker, "note_batch")
    assert await run(broker, batch_calls.note_done(keys, "query", 2)) == (2, 6)
    assert lost.runs == 2, "and counted once"
    assert (await run(broker, batch_calls.begin_batch(keys, "query", batch=3, run="z"))).in_a_row == 0
    await run(broker, batch_calls.note_held(keys, "query", 40))
    assert await run(broker, batch_calls.note_done(keys, "query", 3)) == (3, 0)


async def test_a_batch_that_said_nothing_of_its_rows_ends_no_series_of_failures(broker: Any) -> None:
    keys = broker.queue("a")._core.keys
    for who in "xy":
        await run(broker, batch_calls.begin_batch(keys, "query", batch=1, run=who))
    assert await run(broker, batch_calls.note_done(keys, "query", 1)) == (1, 0)
    assert (await run(broker, batch_calls.begin_batch(keys, "query", batch=2, run="y"))).in_a_row == 1


async def test_what_is_done_never_goes_back(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    keys = queue._core.keys
    assert await run(broker, batch_calls.progress(keys, "query")) == (None, 0, 0, 0, 0, "")
    assert [(await run(broker, batch_calls.note_done(keys, "query", n))).batch for n in (1, 3, 2, 3)] == [
        1,
        3,
        3,
        3,
    ]
    assert (await run(broker, batch_calls.progress(keys, "query"))).done == 3
    assert (await run(broker, batch_calls.progress(keys, "other"))).done is None
    assert await begin(broker, queue, 4, "x") == (3, 0, False)
    assert 0 < raw.pttl(keys.stream("query")) <= 30 * 24 * 3_600_000


async def test_a_half_knows_that_it_is_one(broker: Any) -> None:
    queue = broker.queue("a")
    assert await run(broker, batch_calls.note_half(queue._core.keys, "query", 2)) == (2, 0)
    assert await begin(broker, queue, 1, "x") == (0, 0, False)
    assert await begin(broker, queue, 2, "x") == (0, 0, True)
    assert await begin(broker, queue, 3, "x") == (0, 0, False)


async def test_each_verb_leaves_other_queries_alone(broker: Any) -> None:
    queue = broker.queue("a")
    keys = queue._core.keys
    for query, n in (("one", 5), ("two", 7)):
        await run(broker, batch_calls.note_done(keys, query, n))
    known = [await run(broker, batch_calls.progress(keys, query)) for query in ("one", "two")]
    assert [each.done for each in known] == [5, 7]


async def test_a_batch_says_how_many_bytes_it_holds(broker: Any) -> None:
    queue = broker.queue("a", redelivery=AT_ONCE)
    await queue.send_many(["x" * 100, "y"])
    await queue.nack(await queue.claim(2), "busy")
    batch = await claim(broker, queue)
    held = await rows(broker, queue, batch.tokens[0])
    assert all(row.history for row in held)
    assert batch.bytes == sum(len(row.record) + len(row.history) for row in held)
