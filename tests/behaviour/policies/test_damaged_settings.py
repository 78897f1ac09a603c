"""Settings that someone else damaged: what cannot be read counts as unsaid, and the queue goes on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rq_dlq import Message, PolicyError, SharedDeadLetterStrategy
from rq_dlq.core.upkeep.rounds import MaintainedNamespace, one_round
from rq_dlq.core.upkeep.upkeep import ROLES
from rq_dlq.policy import Entry
from tests.behaviour.helpers import after, counts, ids, one
from tests.conftest import Clock
from tests.tables import each_row_afresh

SETTINGS = "rq:{a}:settings"
TWICE = after("1s", most=1)


def rq(**said: str) -> str:
    """A redelivery policy as it stands in Redis, sound but for these fields; their values are JSON."""
    fields = {"initial_delay": "1", "multiplier": "1", "collision_avoidance": "0"} | said
    cells = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    return f'{{"redelivery": {{"arithmetic": "rq", {cells}}}}}'


NONSENSE: dict[str, list[str | bytes]] = {
    "redelivery": [
        "", "no JSON", "[]", "1", "null", "{}", '{"redelivery": 1}', '{"redelivery": {"arithmetic": "rq"}}',
        '{"redelivery": {"arithmetic": 1}}', '{"redelivery": {"arithmetic": ["rq"]}}',
        rq().replace('"rq"', '"artemis"'), rq().replace('"rq"', '"activemq"'),
        rq(initial_delay='"x"'), rq(multiplier="{}"), rq(collision_avoidance="NaN"), rq(delays='["x"]'),
        b"\xff\x00",
    ],
    "dead_letter": [
        "", "no JSON", "[]", "1", "null", b"\xff\x00", '{"dead": 1, "expired": [], "transient": {}}',
        '{"dead": "burn", "expired": "keep"}', '{"dead_for": "x", "expired_for": []}',
        '{"dead_for": -1, "expired_for": NaN}', '{"dead_for": NaN}', '{"dead_for": 1e999}',
    ],
    "expiry": [
        "", "garbage", "1 2", "1 2 3 4", "x y z", "-1 -1 -1", "0 0 0", "nan nan nan", "inf inf inf",
        "1e9 - -", "0x10 - -", "1.5 - -", "9" * 30 + " - -", "- " + "9" * 30 + " -", b"\xff \xff \xff",
    ],
    "max_length": ["", "x", "-1", "0", "nan", "inf", "1.5", "1e0", " 1", b"\xff"],
    "max_in_flight": ["", "x", "-1", "0", "nan", "inf", "1.5", "1e0", " 1", b"\xff", "9" * 40],
    "results": ["", "x", "-1", "0", "nan", "1.5", "0x10", b"\xff", "9" * 40],
    "results_bytes": ["", "x", "-1", "nan", "1.5", "0x10", b"\xff"],
    "outcomes": ["", "x", "-1", "0", "nan", "1.5", "0x10", b"\xff", "9" * 40],
    "dedup_window": ["", "x", "-1", "0", "nan", "inf", "1.5", " 1", b"\xff", "9" * 40],
    "breaker": ["", "x", "distinct=0 ", "distinct=x within=y", "distinct=2 within=0ms", "1", b"\xff",
                "distinct=" + "9" * 40],
    "gated": ["", "x", "0", b"\xff"],
    "limited": ["", "x", "0", b"\xff"],
    "paused_until": ["", "x", "-1", b"\xff", "9" * 40],
    "per_key": ["", "x", "order  hold", "limit", "limit 0", "limit x", "limit 1 2", "fair -1", "1", b"\xff",
                "limit " + "9" * 40, "rate", "rate x", "order rate", "order rate 0/s",
                "rate " + "9" * 400 + "/s"],
    "version": ["", "x", "-1", "1.5", "nan", "inf", "999999", "9" * 40, b"\xff"],
    "rate": ["", "x", "-1/s", "0/s", "1/0s", "nan/s", "1.5/s", "1/y", " 1/s", b"\xff", "9" * 400 + "/s"],
    "declared": ["", "x", "{}", "[]", '{"redelivery": 1}', '{"max_in_flight": "x"}', b"\xff"],
    "names": ["", "x", "\t", "a\tb\tc", b"\xff\xfe"],
    "paused": ["", "0", "x", "11", b"\xff"],
}  # fmt: skip
CASES = [(field, value) for field, values in NONSENSE.items() for value in values]


@each_row_afresh("field, value", CASES)
async def test_a_field_of_nonsense(
    field: str, value: str | bytes, broker: Any, clock: Clock, raw: Any
) -> None:
    """It says nothing: no limit, no time to live, nothing dropped, the client's own redelivery policy."""
    queue = broker.queue("a", redelivery=TWICE)
    await queue.send("x", id="m")
    raw.hset(SETTINGS, mapping={"gated": "plain", field: value})
    await queue.send_many([Message(body="y", id="n"), Message(body="z", id="o")])
    assert not (await queue.stats()).paused
    clock.advance("9d")
    first, second, third = await queue.claim(10)
    assert await third.ack()
    assert (await first.nack("boom")).outcome == "redelivered"
    assert (await second.poison("bad")).outcome == "dead"
    clock.advance("9d")
    assert (await one(queue)).id == "m"
    clock.advance("9d")  # its lease lapses: that was the second failure
    assert (await queue.maintain())["retired"] == 0
    assert await counts(queue) == {"dead": 2}
    assert len(await queue.dlq.groups()) == 2
    await queue.settings()


@each_row_afresh(
    "value",
    [
        '{"redelivery": {"arithmetic": ["rq"], "max_redeliveries": 0}}',
        '{"redelivery": {"max_redeliveries": 0}}',
        rq(multiplier="{}", max_redeliveries="0"),
        rq(max_redeliveries="0").replace('"rq"', '"artemis"'),
    ],
)
async def test_a_limit_of_what_cannot_be_read_is_none(
    value: str, broker: Any, clock: Clock, raw: Any
) -> None:
    """What a nack said to be redelivered is; the claim does not find it spent."""
    queue = broker.queue("a", redelivery=TWICE)
    await queue.send("x", id="m")
    raw.hset(SETTINGS, "redelivery", value)
    assert (await (await one(queue)).nack("boom")).outcome == "redelivered"
    clock.advance("1h")
    assert (await (await one(queue)).nack("boom")).outcome == "dead"
    assert [letter.reason for letter in await queue.dlq.browse()] == ["exhausted"]


@each_row_afresh("field, value", CASES)
async def test_a_new_policy_takes_the_place_of_nonsense(
    field: str, value: str | bytes, broker: Any, raw: Any
) -> None:
    """Whatever version the settings say that they are of."""
    queue = broker.queue("a", redelivery=TWICE)
    await queue.send("x", id="m")
    raw.hset(SETTINGS, field, value)
    assert await broker.policies.set("#", max_in_flight=7, expiry={"expiry_delay": "1d"}) == 1
    assert raw.hget(SETTINGS, "max_in_flight") == b"7"
    assert raw.hget(SETTINGS, "expiry") == b"86400000 - -"
    assert (await broker.queue("a").settings()).max_in_flight == 7
    assert await ids(broker.queue("a", redelivery=TWICE)) == ["m"]
    assert b"initial_delay" in raw.hget(SETTINGS, "redelivery")


@each_row_afresh("value", NONSENSE["names"])
async def test_names_of_nonsense_do_not_hide_what_others_show(
    value: str | bytes, broker: Any, raw: Any
) -> None:
    await broker.policies.set("b", dead_letter=SharedDeadLetterStrategy("graves"))
    for name in ("a", "b"):
        queue = broker.queue(name)
        await queue.send("x", id=name)
        await (await one(queue)).poison("bad")
    raw.hset(SETTINGS, "names", value)
    assert await ids(broker.queue("graves")) == ["b"]


@each_row_afresh("version", ["", "x", "-1", "1.5", "nan", "inf", b"\xff"])
@each_row_afresh("entry", ["", "no JSON", "[]", '{"max_in_flight": "x"}', b"\xff\x00"])
async def test_a_map_of_nonsense(version: str | bytes, entry: str | bytes, broker: Any, raw: Any) -> None:
    """What cannot be read is left out; what can be read counts, and the map can be changed."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    assert await broker.policies.set("a", max_in_flight=5) == 1
    raw.hset("rq:policies", mapping={"#version": version, "#": entry, b"\xff \x00": "{}"})
    await broker.queue("a").send("y", id="n")
    assert (await queue.settings()).max_in_flight == 5
    with suppress(PolicyError):  # an entry that cannot be read can only be replaced
        await broker.policies.set("#", redelivery={"max_redeliveries": 4})
    assert await broker.policies.put("#", Entry.of(redelivery={"max_redeliveries": 3})) == 1
    settings = await queue.settings()
    assert (settings.max_in_flight, settings.redelivery.max_redeliveries) == (5, 3)
    assert b'"max_redeliveries":3' in raw.hget(SETTINGS, "redelivery")
    assert await ids(broker.queue("a")) == ["m", "n"]


@pytest.mark.parametrize("value", [b'{"dead\x8d": 1}', b'{"dead_for": "\xff"}', b"[" * 100_000])
async def test_maintenance_goes_on_where_a_strategy_is_no_text(
    value: bytes, broker: Any, clock: Clock, raw: Any
) -> None:
    queue = broker.queue("a", redelivery=TWICE)
    await queue.send("x", id="m", delay="1s")
    raw.hset(SETTINGS, "dead_letter", value)
    clock.advance("1s")
    watch = MaintainedNamespace("rq", ROLES)
    await queue._run(one_round(watch, bool))
    assert watch.done["promoted"] == 1
    assert await ids(queue) == ["m"]


@each_row_afresh("value", ["", "x", "1.5", "-1", "9" * 40, b"\xff"])
async def test_a_last_birth_of_nonsense(value: str | bytes, broker: Any, clock: Clock, raw: Any) -> None:
    """What is sent next is born now, and the counter is sound again."""
    queue = broker.queue("a")
    await queue.send("x", id="m")
    raw.hset("rq:{a}:counters", "birth", value)
    clock.advance("1s")
    await queue.send("y", id="b")
    await queue.send("z", id="a")
    assert [delivery.id for delivery in await queue.claim(10)] == ["m", "b", "a"]
