"""The map of policies and what is wrong: what cannot be read, what is nonsense, names that are taken."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidInput, PolicyError, RedeliveryPolicy, SharedDeadLetterStrategy
from rq_dlq.policy import Entry
from tests.behaviour.helpers import after, bodies, bury, counts, wait_of, waits
from tests.contents import contents
from tests.tables import each_row_afresh

# What cannot be read

DAMAGE: list[tuple[bytes, bytes]] = [
    (b"a", b"{"),
    (b"a", b'{"redelivery":{"delays":"soon"}}'),
    (b"a", b'{"max_in_flight":"many"}'),
    (b"#", b""),
    (b"a*b", Entry.of(max_in_flight=1).encode()),
    (b"\xff", b"\xff"),
    (b"#version", b"many"),
    (b"#version", b"-7"),
]


@each_row_afresh("field", DAMAGE)
async def test_an_entry_that_does_not_decode_stops_nothing(
    field: tuple[bytes, bytes], broker: Any, raw: Any
) -> None:
    raw.hset("rq:policies", mapping={b"*": Entry.of(redelivery=waits(4)).encode(), field[0]: field[1]})
    queue = broker.queue("a", max_in_flight=5)
    assert await wait_of(queue) == 4
    assert len((await broker.policies.read()).unreadable) == (field[1] != b"-7")
    assert await broker.policies.set("*", redelivery=waits(6)) == 1
    assert await wait_of(queue) == 6
    assert (await queue.settings()).max_in_flight == 5


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[]", b'{"max_in_flight":"many"}'], ids=repr)
async def test_a_declaration_that_does_not_decode_stops_nothing(
    text: bytes, broker: Any, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    raw.hset("rq:{a}:settings", "declared", text)
    queue = broker.queue("a")
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        assert 0.5 <= (await wait_of(queue) or 0) <= 1.5
        assert await broker.policies.set("a", redelivery=waits(4)) == 1
    assert any("a declared policy is ignored" in message for message in caplog.messages)
    assert await wait_of(queue) == 4
    assert raw.hget("rq:{a}:settings", "declared") == text  # it may be a newer client's
    assert await wait_of(broker.queue("a", redelivery=after(3, most=9))) == 3


NEWER = b'{"max_in_flight":7,"expiry":{"retention":1000,"shelf":[1]},"weight":{"of":"a newer version"}}'


@pytest.mark.parametrize("said", ["stored", "declared"])
async def test_what_a_newer_version_says_besides_is_kept(said: str, broker: Any, raw: Any) -> None:
    """What is known of it holds; what is not stands as it stood, also in the settings."""
    queue = broker.queue("a")
    await queue.send("x")
    if said == "stored":
        raw.hset("rq:policies", "a", NEWER)
    else:
        raw.hset("rq:{a}:settings", "declared", NEWER)
    raw.hset("rq:{a}:settings", "weight", "3")
    await broker.policies.set("#", redelivery=waits(6))
    settings = await broker.queue("a").settings()
    assert (settings.max_in_flight, settings.expiry.retention) == (7, 1.0)
    assert raw.hmget("rq:{a}:settings", "weight", "max_in_flight") == [b"3", b"7"]
    assert NEWER in {raw.hget("rq:policies", "a"), raw.hget("rq:{a}:settings", "declared")}
    assert not (await broker.policies.read()).unreadable
    raw.hdel("rq:{a}:settings", "weight")  # which the audit does not know


async def test_a_map_that_was_removed_holds_no_more(broker: Any, raw: Any) -> None:
    """By hand, or as an older backup is restored: then its versions begin anew."""
    for seconds in (1, 2, 3):
        await broker.policies.set("#", redelivery=waits(seconds))
        assert await wait_of(broker.queue("a")) == seconds
    raw.delete("rq:policies")
    assert 0.5 <= (await wait_of(broker.queue("a")) or 0) <= 1.5
    await broker.policies.set("#", redelivery=waits(9))
    assert await wait_of(broker.queue("a")) == 9
    assert await wait_of(broker.queue("b", redelivery=after(4, most=9))) == 4


# Bad input


@each_row_afresh(
    "pattern, said",
    [
        ("a*", {"max_in_flight": 1}),
        ("#.a", {"max_in_flight": 1}),
        ("", {"max_in_flight": 1}),
        (None, {"max_in_flight": 1}),
        (b"a", {"max_in_flight": 1}),
        ("#version", {"max_in_flight": 1}),
        ("a b", {"max_in_flight": 1}),
        ("x" * 201, {"max_in_flight": 1}),
        ("a", {}),
        ("a", {"pinned": True}),
        ("a", {"max_in_flight": 1, "pinned": "yes"}),
        ("a", {"max_in_flight": 0}),
        ("a", {"max_in_flight": True}),
        ("a", {"redelivery": None}),
        ("a", {"redelivery": {}}),
        ("a", {"redelivery": "1s"}),
        ("a", {"redelivery": {"max_redeliverys": 1}}),
        ("a", {"redelivery": {1: 1}}),
        ("a", {"redelivery": {"fatal": (ValueError,)}}),
        ("a", {"redelivery": RedeliveryPolicy(fatal=(ValueError,))}),
        ("a", {"redelivery": {"initial_delay": "soon"}}),
        ("a", {"redelivery": {"initial_delay": float("nan")}}),
        ("a", {"dead_letter": "DLQ"}),
        ("a", {"dead_letter": {"strategy": "shared"}}),
        ("a", {"dead_letter": {"name": "a b"}}),
        ("a", {"dead_letter": {"strategy": "discarding", "only": []}}),
        ("a", {"dead_letter": {"prefix": "", "suffix": ""}}),
        ("a", {"dead_letter": {"name": "EXP.DLQ.x"}}),
        ("here", {"dead_letter": {"name": "here"}}),
        ("here", {"expiry": {"name": "here"}}),
        ("here", {"dead_letter_aliases": "here"}),
        ("here", {"expiry_aliases": "here"}),
        ("a", {"expiry_aliases": "a,b"}),
        ("her", {"expiry": {"prefix": "x" * 199}}),
        ("a", {"expiry": None}),
        ("a", {"expiry": {"min_expiry_delay": 5, "max_expiry_delay": 1}}),
        ("a", {"expiry": {"expiry_delay": 0}}),
        ("a", {"expiry": {"discard": 1}}),
    ],
)
async def test_nonsense_is_refused(pattern: Any, said: dict[str, Any], broker: Any, raw: Any) -> None:
    for name in ("here", "her"):
        await broker.queue(name).send("x")
    before = contents(raw)
    with pytest.raises(PolicyError) as raised:
        await broker.policies.set(pattern, **said)
    text = str(raised.value)
    assert 20 < len(text) < 600
    assert "\n" not in text
    assert contents(raw) == before


@each_row_afresh("entry", [None, {}, {"max_in_flight": 1}, b"{}", 5, Entry])
async def test_what_is_no_entry(entry: Any, broker: Any, raw: Any) -> None:
    await broker.policies.set("a", max_in_flight=1)
    before = contents(raw)
    with pytest.raises(PolicyError, match="is not an entry: pass Entry"):
        await broker.policies.put("a", entry)
    assert contents(raw) == before


@pytest.mark.parametrize("pattern", ["a*", None, ""])
async def test_patterns_of_what_is_removed(pattern: Any, broker: Any) -> None:
    with pytest.raises(PolicyError, match="pattern"):
        await broker.policies.remove(pattern)


# Names of dead letters that are queues' own


async def test_a_queue_s_own_name_is_not_that_of_its_letters(broker: Any) -> None:
    """The entry is for many queues, one of which has the name: its own letters keep theirs."""
    for said in (
        {"dead_letter": SharedDeadLetterStrategy("ma")},
        {"expiry": {"name": "ma"}},
        {"dead_letter_aliases": "ma"},
        {"expiry_aliases": ["ma"]},
    ):
        with pytest.raises(PolicyError, match=r"'ma' cannot be its own .* choose another name"):
            broker.queue("ma", **said)
        await broker.policies.put("#", Entry.of(**said))
        await bury(broker.queue("ma"), ["y"])
        assert await bodies(broker.queue("ma")) == []
        assert await bodies(broker.queue("DLQ.ma")) == ["y"]


async def test_a_prefix_that_makes_the_name_of_a_queue(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The entry came first; what it calls the dead letters of one queue is another one, which shows both."""
    await broker.queue("ma.x").send("x")
    await broker.policies.set("ma", dead_letter={"prefix": "", "suffix": ".x"}, pinned=True)
    queue = broker.queue("ma")
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        await bury(queue, ["y"])
    assert caplog.messages == ["ma.x is a queue, whose consumers also get what fails elsewhere now"]
    assert await bodies(broker.queue("DLQ.ma")) == ["y"]
    assert await bodies(broker.queue("ma.x")) == ["x"]


async def test_a_name_of_dead_letters_that_is_sent_to(
    broker: Any, sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    """By an object that looked at it before the name was given, and one that did after."""
    early = sync_broker.queue("LOST")
    assert early.stats().ready == 0
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy("LOST"))
    await bury(broker.queue("a"), ["x"])
    late = sync_broker.queue("LOST")
    with pytest.raises(InvalidInput, match="it has only the dead letters of other queues"):
        late.pause()
    assert raw.smembers("rq:queues") == {b"a"}
    assert await counts(broker.queue("LOST")) == {"dead": 1}
    early.send("y")
    late.send_many(["y"])
    assert raw.smembers("rq:queues") == {b"a", b"LOST"}
    assert await counts(broker.queue("LOST")) == {"ready": 2, "dead": 1}
    assert sync_broker.queue("LOST", redelivery=after(1)).claim()


async def test_the_name_that_holds_is_told(broker: Any, raw: Any) -> None:
    """The entry gives another one, which cannot be a queue's."""
    await broker.policies.set("ma", dead_letter={"prefix": "EXP.DLQ."}, expiry={"name": "late"})
    assert (await broker.policies.explain("ma")).dead_name == "EXP.DLQ.ma"  # never used: what the map says
    queue = broker.queue("ma")
    await queue.send("y")
    for settings in (await queue.settings(), await broker.policies.explain("ma")):
        assert (settings.dead_name, settings.expired_name) == ("DLQ.ma", "late")
    raw.hset("rq:{ma}:settings", "names", "damaged")
    assert (await queue.settings()).expired_name == "late"


async def test_a_name_that_nothing_has_any_more_is_free(broker: Any, sync_broker: rq_dlq.Broker) -> None:
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy("parking"))
    await bury(broker.queue("a"), ["x"])
    await broker.policies.remove("a")
    assert sync_broker.queue("parking").stats().dead == 0
    parking = broker.queue("parking", redelivery=after(1))
    await parking.send("y")
    assert sync_broker.queues() == ["a", "parking"]
    assert await bodies(broker.queue("parking")) == ["y"]
    assert await wait_of(broker.queue("parking")) == 1


async def test_a_name_that_is_withdrawn_leaves_it_to_others(broker: Any) -> None:
    await broker.policies.set("#", dead_letter=SharedDeadLetterStrategy("LOST"))
    for name in ("a", "b"):
        await bury(broker.queue(name), [name])
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy("OTHER"))
    assert await bodies(broker.queue("LOST")) == ["b"]
    with pytest.raises(InvalidInput, match="it has only the dead letters of other queues"):
        await broker.queue("LOST").pause()
