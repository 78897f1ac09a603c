"""Groups of dead letters: counted by an index, whatever becomes of the letters, and healed."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Poison, Redeliver, SharedDeadLetterStrategy
from rq_dlq.core.changing import changing
from rq_dlq.core.choosing import reading
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.choosing.counting import groups
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.pages.calls import END, START, scan
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import calls_of
from rq_dlq.values.wanted import STATE
from tests.audit import audit
from tests.behaviour.helpers import after, bury, one
from tests.behaviour.stepping import alone, drive
from tests.conftest import MOVED_CLOCK, Clock
from tests.tables import each_row_afresh

KEY = "rq:{a}:groups"
DOWN, SOLD = ValueError("the shop is down"), ValueError("sold out")
"""Of one class and place."""


async def by_error(queue: Any, **options: Any) -> dict[str, Any]:
    """The groups by their errors, without the class."""
    return {group.error.partition(": ")[2]: group for group in await queue.dlq.groups(**options)}


async def scripts_of(broker: Any, steps: Any) -> tuple[Any, list[Call[Any]]]:
    """What the steps return, and the scripts that they run."""
    calls: list[Call[Any]] = []

    def noting() -> Any:
        value = None
        while True:
            try:
                step = steps.send(value)
            except StopIteration as stop:
                return stop.value
            calls.extend(call for call in calls_of(step) if isinstance(call, Call))
            value = yield step

    async def nothing(script: str) -> None:
        del script

    return await drive(broker, noting(), nothing), calls


def forget_the_groups(raw: Any) -> None:
    """As an earlier version leaves the dead letters of a queue."""
    raw.delete(KEY)
    for name, state in raw.hgetall("rq:{a}:states").items():
        raw.hset("rq:{a}:states", name, re.sub(rb" group=\w*", b"", state))


def raised_for(instruction: Exception, failure: Exception, *, hidden: bool = False) -> Exception:
    """What a handler raises to say what is to be done about a failure."""
    try:
        try:
            raise failure
        except type(failure):
            if hidden:
                raise instruction from None
            raise instruction  # noqa: B904 - as handlers do
    except (Poison, Redeliver) as raised:
        return raised


@pytest.mark.parametrize("instruction", [partial(Redeliver, after="1s"), Poison], ids=["redeliver", "poison"])
async def test_a_failure_is_told_apart_also_where_the_handler_says_what_to_do(
    broker: Any, instruction: Any
) -> None:
    """Redeliver, and Poison without words, are no failures of their own."""
    queue = broker.queue("a")
    for failure in (ValueError(1), KeyError("k"), ValueError(2)):
        await bury(queue, [1], raised_for(instruction(), failure))
    await bury(queue, [1], raised_for(instruction(), ValueError(3), hidden=True))
    found = {group.error.partition(": ")[0]: group.count for group in await queue.dlq.groups()}
    assert found == {"ValueError": 2, "KeyError": 1, f"rq_dlq.errors.{type(instruction()).__name__}": 1}


async def test_a_poison_with_words_says_them(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, [1], raised_for(Poison("negative total"), ValueError(1)))
    assert [*await by_error(queue)] == ["negative total"]


async def test_groups_are_counted_without_reading_the_letters(broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(300), DOWN)
    await bury(queue, range(3), SOLD)
    found, calls = await scripts_of(broker, groups(queue.dlq._core, Choice()))
    assert [group.count for group in found] == [300, 3]
    assert [call.verb for call in calls] == ["groups"]


async def test_more_groups_than_a_page(broker: Any) -> None:
    queue = broker.queue("a")
    for number in range(60):
        await bury(
            queue,
            ["x"] * 2,
            f"{chr(97 + number % 26)}{'ab'[number // 26 % 2]} {'on' * (number // 52)} failed",
        )
    found = await queue.dlq.groups()
    assert len(found) == len({group.fingerprint for group in found}) > 50
    assert sum(group.count for group in found) == 120


async def test_a_page_of_groups_has_a_bounded_size(broker: Any) -> None:
    """At most as many groups as the limit, and at most about half a megabyte of histories (I9)."""
    queue = broker.queue("a", redelivery=after(0, most=9))
    kinds = [f"{first}{second} failed" for first in "abcd" for second in "efg"]
    for kind in kinds:
        await queue.send_many(range(10))
        for _ in range(9):
            await queue.nack(await queue.claim(10), f"{kind} {'so badly ' * 60}")
        await queue.poison(await queue.claim(10), f"{kind} {'so badly ' * 60}")

    async def page(after: bytes, limit: int) -> Any:
        return await broker._run(alone(group_calls.groups(queue._core.keys, after=after, limit=limit)))

    found = await page(b"", 5)
    assert (len(found.groups), found.next) == (5, found.groups[-1].name.encode())
    first = await page(b"", 100)
    assert 5 < len(first.groups) < 12
    rest = await page(first.next, 100)
    assert (len(first.groups) + len(rest.groups), rest.next) == (12, b"")
    for group in first.groups:
        assert len(group.newest) == 10
        assert {row.history.count(b"\t") for row in group.newest} == {5}, "no traceback"


async def test_how_many_died_lately(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for wait in ("30h", "10h", "50m", "0s"):
        await bury(queue, ["x"], DOWN)
        clock.advance(wait)
    (group,) = (await broker._run(alone(group_calls.groups(queue._core.keys, limit=9)))).groups
    assert (group.count, group.day, group.hour) == (4, 3, 2)


async def test_an_hour_and_a_day_are_exact(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    counted = []
    await bury(queue, ["x"], DOWN)
    for wait in ("1h", "1ms", "22h59m59.999s", "1ms"):
        clock.advance(wait)
        (group,) = (await broker._run(alone(group_calls.groups(queue._core.keys, limit=9)))).groups
        counted.append((group.hour, group.day))
    assert counted == [(1, 1), (0, 1), (0, 1), (0, 0)]


async def test_a_group_shows_its_ten_newest(broker: Any, clock: Clock) -> None:
    queue, sent = broker.queue("a"), list[str]()
    for number in range(12):
        sent += await bury(queue, [number], DOWN)
        clock.advance("1s")
    (group,) = (await broker._run(alone(group_calls.groups(queue._core.keys, limit=9)))).groups
    assert [row.id for row in group.newest] == sent[2:]


@pytest.mark.parametrize("verb", ["redrive", "purge"])
async def test_a_group_is_changed_without_reading_bodies(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x" * 5_000] * 30, DOWN)
    await bury(queue, range(3), SOLD)
    group = (await by_error(queue))["the shop is down"]
    steps = getattr(changing, verb)(queue.dlq._core, Choice(group=group))
    done, calls = await scripts_of(broker, steps)
    assert done == 30
    read = [call for call in calls if call.verb == "scan"]
    assert read
    assert {(call.args["place"], call.args["record"], call.args["story"]) for call in read} == {
        ("groups", "no", "no"),
        ("leased", "no", "no"),  # whom somebody works on, which is counted
    }
    assert list(await by_error(queue)) == ["sold out"]


async def test_a_page_reads_no_more_than_its_letters(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await bury(queue, range(300), DOWN)
    await bury(queue, range(3), SOLD)
    group = (await by_error(queue))["the shop is down"]
    steps = reading.chosen(queue.dlq._core, Choice(group=group, limit=5, order="newest"))
    letters, calls = await scripts_of(broker, steps)
    assert [letter.id for letter in letters] == sent[:-6:-1]
    assert [call.args["limit"] for call in calls if call.verb == "scan"] == [5]


@pytest.mark.parametrize("order", ["oldest", "newest"])
async def test_a_class_and_place_is_in_the_order_of_deaths(order: Any, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    sent: list[str] = []
    for number in range(6):
        sent += await bury(queue, [number], (DOWN, SOLD)[number % 2])
        clock.advance("1s")
    await bury(queue, ["x"], KeyError("price"))
    group = (await by_error(queue))["sold out"].fingerprint[:6]
    expected = sent if order == "oldest" else sent[::-1]
    for limit in (None, 4):
        found = await queue.dlq.browse(group=group, order=order, limit=limit)
        assert [letter.id for letter in found] == expected[:limit]
    assert Counter(one.count for one in await queue.dlq.groups(group=group)) == {3: 2}


async def test_a_group_of_a_time(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    sent: list[str] = []
    for number in range(4):
        sent += await bury(queue, [number], DOWN)
        clock.advance("1m")
    (group,) = await queue.dlq.groups()
    (second,) = await queue.dlq.browse(ids=[sent[1]])
    found = await queue.dlq.browse(group=group, since=second.died_at, older_than="2m")
    assert [letter.id for letter in found] == sent[1:3]


async def test_deaths_without_an_error_are_grouped_by_how_they_came(broker: Any, clock: Clock) -> None:
    strategy = SharedDeadLetterStrategy("LOST", process_expired=True)
    queue = broker.queue("a", redelivery=after(0, most=0), dead_letter=strategy)
    await queue.send("x", id="lapsed")
    await queue.claim(lease="1s")
    clock.advance("2s")
    await queue.send("x", id="expired", ttl="1s")
    clock.advance("2s")
    await queue.maintain()
    await queue.send("x", id="silent")
    await (await one(queue)).nack()
    await queue.send("x", id="by hand")
    await queue.select(ids=["by hand"]).dead_letter("no longer needed")
    found = {group.sample_id: group for group in await queue.dlq.groups()}
    assert {name: group.fingerprint for name, group in found.items() if name != "by hand"} == {
        "lapsed": "lapsed", "expired": "expired", "silent": "",
    }  # fmt: skip
    assert found["by hand"].error == "no longer needed"
    for name, group in found.items():
        assert [letter.id for letter in await queue.dlq.browse(group=group)] == [name]


async def test_a_group_that_is_new(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, ["x"], DOWN)
    clock.advance("20h")
    assert (await by_error(queue))["the shop is down"].new
    assert not (await by_error(queue, new_within="10h"))["the shop is down"].new
    clock.advance("5h")
    await bury(queue, ["x"], DOWN)
    assert not (await by_error(queue))["the shop is down"].new


async def test_a_group_that_grows(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    for _ in range(10):
        await bury(queue, range(2), SOLD)
        clock.advance("1h")
    assert not (await by_error(queue))["sold out"].growing
    await bury(queue, range(2), SOLD)
    assert not (await by_error(queue))["sold out"].growing, "two an hour, and now four"
    await bury(queue, ["x"], SOLD)
    group = (await by_error(queue))["sold out"]
    assert (group.growing, group.last_hour) == (True, 5)
    await bury(queue, ["x"], DOWN)
    assert not (await by_error(queue))["the shop is down"].growing


@each_row_afresh("by", ["redrive", "purge", "move", "age"])
async def test_a_group_that_regressed(by: str, broker: Any, clock: Clock) -> None:
    queue = broker.queue("a", dead_letter=SharedDeadLetterStrategy("LOST", expiration="2d"))
    await broker.queue("b").send("there")
    await bury(queue, range(3), DOWN)
    group = (await by_error(queue))["the shop is down"]
    assert (group.new, group.regressed) == (True, False)
    clock.advance("1m")
    if by == "move":
        await queue.dlq.select(all=True).move("b")
    elif by == "age":
        clock.advance("2d")
        await queue.maintain()
    else:
        await getattr(queue.dlq, by)(group=group)
    assert await queue.dlq.groups() == []
    await queue.purge(all=True)
    clock.advance("1m")
    await bury(queue, ["x"], DOWN)
    for _ in range(2):
        group = (await by_error(queue))["the shop is down"]
        assert (group.new, group.regressed) == (False, True)
        clock.advance("30h")  # that it regressed does not pass


async def test_a_group_that_was_not_emptied_did_not_regress(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await bury(queue, range(3), DOWN)
    clock.advance("1m")
    await queue.dlq.redrive(limit=1)
    clock.advance("1m")
    await queue.poison(await queue.claim(), DOWN)
    group = (await by_error(queue))["the shop is down"]
    assert (group.count, group.new, group.regressed) == (3, False, False)
    assert (await by_error(queue, where="delivery_count > 1"))["the shop is down"].regressed  # of these


async def test_what_was_cleared_is_remembered_of_a_thousand_groups(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    raw.zadd("rq:{a}:cleared", {f"{number:012}": number for number in range(1_000)})
    await bury(queue, ["x"], DOWN)
    await queue.dlq.redrive(all=True)
    assert raw.zcard("rq:{a}:cleared") == 1_000
    assert raw.zscore("rq:{a}:cleared", "0" * 12) is None
    assert 29 * 86_400 < raw.ttl("rq:{a}:cleared") <= 30 * 86_400


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_under_which_versions_and_consumers_they_died(
    server: str, sync_broker: rq_dlq.Broker, clock: Clock
) -> None:
    plain = sync_broker.queue("a")
    plain.send_many(range(20))
    plain.poison(plain.claim(8), DOWN)
    clock.advance("1s")
    for version, count in (("1.4.1", 4), ("1.4.2", 3)):
        with rq_dlq.Broker(f"unix://{server}", verbs=MOVED_CLOCK, version=version) as broker:
            queue = broker.queue("a")
            queue.poison(queue.claim(count), DOWN)
        clock.advance("1s")
    (group,) = plain.dlq.groups()
    assert group.count == 15
    assert group.versions == {"1.4.1": 4, "1.4.2": 3}
    assert sum(group.consumers.values()) == 10
    (letter,) = plain.dlq.browse(limit=1, order="newest")
    assert letter.cause.version == "1.4.2"


@pytest.mark.parametrize("version", [7, "x" * 61, "a\nb"])
def test_a_version_that_makes_no_sense(version: Any) -> None:
    with pytest.raises(rq_dlq.ConfigurationError, match="version"):
        rq_dlq.Broker("redis://nowhere", version=version)


async def test_letters_of_an_earlier_version_are_seen(broker: Any, raw: Any, clock: Clock) -> None:
    """Before and after maintenance has put them into their groups."""
    queue = broker.queue("a", redelivery=after(0, most=0))
    await bury(queue, range(30), DOWN)
    clock.advance("1s")
    await queue.send("x")
    await queue.claim(lease="1s")
    clock.advance("2s")
    await queue.maintain()
    sent = await bury(queue, range(4), SOLD)
    before = await queue.dlq.groups()
    forget_the_groups(raw)
    assert await queue.dlq.groups() == before
    group = (await by_error(queue))["sold out"]
    assert [letter.id for letter in await queue.dlq.browse(group=group)] == sent
    assert (await queue.dlq.redrive(group=group, limit=1)).counts.moved == 1
    assert await queue.dlq.select(group=group.fingerprint[:6]).count() == 33
    assert (await queue.maintain())["grouped"] >= 34
    audit(raw, "a")
    assert sorted(group.count for group in await queue.dlq.groups()) == [1, 3, 30]
    assert raw.exists("rq:{a}:grouped") == 0
    assert (await queue.maintain())["grouped"] == 0


@each_row_afresh("harm", ["a row is gone", "a row of nobody", "a row of another group", "no rows"])
async def test_a_damaged_index_is_noticed_and_healed(harm: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(30), DOWN)
    await bury(queue, range(3), SOLD)
    before = await queue.dlq.groups()
    row = raw.zrange(KEY, 0, 0)[0]
    if harm == "no rows":
        raw.delete(KEY)
    elif harm == "a row is gone":
        raw.zrem(KEY, row)
    else:
        raw.zadd(KEY, {row[:-5] + b"nobody" if harm == "a row of nobody" else b"0" * 12 + row[12:]: 0})
    found = await queue.dlq.groups()
    assert [(group.fingerprint, group.count) for group in found] == [
        (group.fingerprint, group.count) for group in before
    ]
    assert (await queue.maintain())["grouped"] > 0
    audit(raw, "a")


async def test_groups_of_letters_that_went_while_an_earlier_version_worked(broker: Any, raw: Any) -> None:
    """Not one dead letter is there, and rows of the index are."""
    queue = broker.queue("a")
    await bury(queue, range(3), DOWN)
    rows = raw.zrange(KEY, 0, -1)
    await queue.dlq.purge(all=True)
    raw.zadd(KEY, dict.fromkeys(rows, 0))
    assert (await queue.maintain())["grouped"] == 4  # and one look at where there is none
    assert raw.exists(KEY) == 0


async def test_a_row_that_a_redrive_left_behind_gets_no_group(broker: Any, raw: Any) -> None:
    """A script that was cut off left its row in `dead`; the message is ready."""
    queue = broker.queue("a")
    await bury(queue, range(2), DOWN)
    (row, died), *_ = raw.zrange("rq:{a}:dead", 0, -1, withscores=True)
    await queue.dlq.redrive(limit=1)
    raw.zadd("rq:{a}:dead", {row: died})
    await queue.maintain()
    assert (raw.zscore("rq:{a}:dead", row), raw.zcard("rq:{a}:dead"), raw.zcard(KEY)) == (None, 1, 1)


async def test_letters_that_expired_keep_their_group(broker: Any, raw: Any, clock: Clock) -> None:
    """They expired by themselves after a failure, or by the delay of their last one, or of a passing on."""
    strategy = SharedDeadLetterStrategy("LOST", process_expired=True)
    queue = broker.queue("a", redelivery=after("10s", most=9), dead_letter=strategy)
    for name, wait in (("by itself", "3s"), ("by a nack", "1s")):
        await queue.send("x", id=name, ttl="5s" if name == "by a nack" else "20s")
        clock.advance(wait)
        await (await one(queue)).nack(DOWN)
    await queue.send("x", id="passed on", ttl="500ms")
    assert await broker.queue("a", type=int).claim() == []
    clock.advance("20s")
    await queue.maintain()

    async def groups() -> dict[str, str]:
        letters = await queue.dlq.browse()
        assert {letter.fingerprint for letter in letters} == {
            group.fingerprint for group in await queue.dlq.groups()
        }
        assert all(letter.fingerprint == letter.cause.fingerprint for letter in letters)
        return {letter.id: letter.fingerprint for letter in letters}

    before = await groups()
    assert before["by itself"] == "expired"
    assert len({*before.values()}) == 3
    forget_the_groups(raw)
    await queue.maintain()
    assert await groups() == before


async def test_a_page_leaves_out_rows_that_others_left_behind(broker: Any, raw: Any) -> None:
    """Also where the sizes are equal, so that nobody notices."""
    queue = broker.queue("a")
    sent = await bury(queue, range(3), DOWN)
    await bury(queue, ["x"], SOLD)
    group = (await by_error(queue))["the shop is down"]
    (foreign,) = [row for row in raw.zrange(KEY, 0, -1) if not row.startswith(group.fingerprint.encode())]
    raw.zrem(KEY, foreign)
    raw.zadd(KEY, {group.fingerprint.encode() + foreign[12:]: 0})
    assert [letter.id for letter in await queue.dlq.browse(group=group)] == sent
    assert (await queue.dlq.redrive(group=group)).counts.moved == 3
    forget_the_groups(raw)
    await queue.maintain()


@pytest.mark.parametrize("left", ["it is leased", "it came back", "it died again"])
async def test_a_scan_leaves_out_a_row_that_its_letter_contradicts(
    left: str, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = broker.queue("a")
    (sent,) = await bury(queue, ["x"], DOWN)
    (row,) = raw.zrange(KEY, 0, -1)
    clock.advance("1s")
    if left == "it is leased":
        await one(broker.queue("DLQ.a"))
    else:
        await queue.dlq.redrive(all=True)
    if left == "it died again":
        await (await one(queue)).poison(DOWN)
    raw.zadd(KEY, {row: 0})
    page = scan(queue._core.keys, "groups", after=START, upto=END, limit=9, wanted=STATE)
    found = [row.id for row in (await broker._run(alone(page))).rows()]
    assert found == ([sent] if left == "it died again" else [])
    raw.zrem(KEY, row)


async def test_what_maintenance_cannot_heal_it_leaves_for_a_while(broker: Any, raw: Any) -> None:
    """A letter of a later form: only a later version knows its group."""
    queue = broker.queue("a")
    (sent,) = await bury(queue, ["x"], DOWN)
    state = raw.hget("rq:{a}:states", sent)
    raw.hset("rq:{a}:states", sent, b">=99.0 " + state)
    (row,) = raw.zrange(KEY, 0, 0)
    raw.zadd(KEY, {b"1" + row[1:]: 0})
    await queue.maintain()
    assert raw.zcard(KEY) == 2, "perhaps the later version has two of it"
    died = raw.zscore("rq:{a}:dead", row[18:])
    raw.zrem("rq:{a}:dead", row[18:])
    raw.delete("rq:{a}:grouped")
    await queue.maintain()
    assert raw.zcard(KEY) == 0, "it is not dead any more"
    raw.zadd("rq:{a}:dead", {row[18:]: died})
    raw.delete(KEY, "rq:{a}:grouped")
    assert (await queue.maintain())["grouped"] > 0
    assert (await queue.maintain())["grouped"] == 0
    assert raw.get("rq:{a}:grouped") == b"done"
    assert 500_000 < raw.pttl("rq:{a}:grouped") <= 600_000
    raw.hset("rq:{a}:states", sent, state)
    raw.delete("rq:{a}:grouped")
    await queue.maintain()
    audit(raw, "a")


async def test_claimed_letters_are_in_no_group(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await bury(queue, range(4), DOWN)
    acked, released, failed = await broker.queue("DLQ.a").claim(3)
    assert [group.count for group in await queue.dlq.groups()] == [1]
    await acked.ack()
    await released.release()
    await failed.nack("another reason")
    (group,) = await queue.dlq.groups()
    assert (group.count, group.error) == (3, "ValueError: the shop is down")
    assert not raw.exists("rq:{a}:cleared"), "they are not an operator's"


async def test_groups_of_what_expired_are_read(broker: Any, clock: Clock) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3), ttl="1s")
    clock.advance("2s")
    await queue.maintain()
    (group,) = await queue.expired.groups()
    assert (group.fingerprint, group.count, group.new) == ("expired", 3, True)
    assert await queue.expired.select(group=group).count() == 3
