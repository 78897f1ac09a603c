"""K9: a version that does not know of keys refuses a queue where they count."""

from __future__ import annotations

from typing import Any

import msgspec

import rq_dlq
from rq_dlq.policy import Entry, PerKey
from rq_dlq.policy.fields import later_kind


def test_an_entry_is_of_a_kind_that_they_do_not_know() -> None:
    entry = Entry.of(per_key=PerKey(order=True), dead_letter={"process_expired": True}, max_in_flight=3)
    wire = msgspec.json.decode(entry.encode())
    assert later_kind("dead_letter", wire["dead_letter"]) == "sha1-keys "
    assert Entry.decode(entry.encode()) == entry
    shared = Entry.of(per_key="limit 3", dead_letter=rq_dlq.SharedDeadLetterStrategy("DLQ"))
    assert (
        later_kind("dead_letter", msgspec.json.decode(shared.encode())["dead_letter"]) == "sha1-keys shared"
    )
    assert Entry.decode(shared.encode()) == shared
    assert Entry.decode(Entry.of(per_key="order").encode()) == Entry.of(per_key="order")
    off = Entry.of(per_key=None)
    assert msgspec.json.decode(off.encode()) == {"per_key": None}
    assert Entry.decode(off.encode()) == off


async def test_who_has_opened_the_queue_before_has_to_open_it_again(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", key="k")
    before = raw.hget("rq:{a}:settings", "opening")
    await broker.policies.set("a", per_key="order")
    assert raw.hget("rq:{a}:settings", "opening") not in {before, None}
    await queue.send("y", key="k")
    await queue.send("z", key="k")
    assert (await queue.stats()).blocked == 1
    assert [one.body for one in await queue.claim(9)] == ["x"]  # which came when keys did not count
    opened = raw.hget("rq:{a}:settings", "opening")
    await broker.policies.set("a", per_key="limit 2")
    assert raw.hget("rq:{a}:settings", "opening") == opened
    await broker.policies.set("a", per_key="limit 2 rate 1/s")
    assert raw.hget("rq:{a}:settings", "opening") != opened


async def test_a_rule_of_a_later_version_is_refused(broker: Any, raw: Any) -> None:
    raw.hset("rq:policies", mapping={"a": '{"per_key":"anew 7"}', "#version": 1})
    try:
        await broker.queue("a").send("x")
    except rq_dlq.UpgradeRequired as error:
        assert "per_key is 'anew 7'" in str(error)  # noqa: PT017 - of a queue that may not be opened
    else:
        raise AssertionError("it was opened")
