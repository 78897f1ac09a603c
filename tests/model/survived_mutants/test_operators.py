"""Operators and settings: faults of the Lua that no other test failed on (tests/proofs/mutants)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import Page
from rq_dlq.core.policies import calls as policy_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.results import calls as result_calls
from rq_dlq.core.results.calls import Meant
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call, Sender
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy.fields import WRITTEN
from rq_dlq.values.durations import TEN_YEARS
from rq_dlq.values.failure import read_history
from tests.model.bench import Bench
from tests.model.driver import CAUSE, Driver, packed

SAID: dict[str, Any] = {"by": '"c"', "cause": CAUSE}


OPERATED: dict[str, Callable[[Driver], Call[Any]]] = {
    "browse": lambda queue: page_calls.browse(queue.keys, place="ready", ids=["m"]),
    "purge": lambda queue: choosing_calls.purge(queue.sender(), place="ready", ids=["m"]),
    "dead_letter": lambda queue: choosing_calls.dead_letter(queue.sender(), place="ready", ids=["m"], **SAID),
    "redrive": lambda queue: choosing_calls.redrive(queue.sender(), place="dead", ids=["m"], by='"c"'),
    "expire_now": lambda queue: choosing_calls.expire_now(queue.sender(), place="ready", ids=["m"]),
    "deliver_now": lambda queue: choosing_calls.deliver_now(queue.sender(), ids=["m"]),
    "prioritize": lambda queue: choosing_calls.prioritize(
        queue.sender(), place="ready", ids=["m"], priority=9
    ),
    "transfer": lambda queue: choosing_calls.transfer(
        queue.sender(), QueueKeys("rq", "to"), place="ready", ids=["m"], keep=True, **SAID
    ),
}


@pytest.mark.parametrize("verb", OPERATED)
def test_only_an_id_is_an_id(bench: Bench, verb: str) -> None:
    """Other messages are called like the other arguments of the call."""
    call = OPERATED[verb](bench.queue)
    names = ["m", *{str(value) for value in call.args.values()} - {""}]
    bench.send(*[(name, 4) for name in names], delay=1_000 if verb == "deliver_now" else 0)
    if verb == "redrive":
        bench.queue.run(choosing_calls.dead_letter(bench.queue.sender(), place="ready", ids=names, **SAID))
    done = bench.queue.run(call)
    assert done.ids == [b"m"] if isinstance(done, Page) else done == 1


def test_a_browse_says_how_many_ids_it_read(bench: Bench) -> None:
    """About half a megabyte; the ids of which no message is there count, too."""
    for name in ("a", "b", "c"):
        items: list[Any] = [name, b"\x04" + b"x" * 300_000]
        bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
    page = bench.queue.run(page_calls.browse(bench.keys, ids=["none", "a", "none", "b", "c", "none"]))
    assert (page.ids, page.looked) == ([b"a", b"b"], 4)
    assert [len(cells) for cells in (page.records, page.states, page.histories, page.deadlines)] == [2] * 4
    page = bench.queue.run(page_calls.browse(bench.keys, ids=["c", "none"]))
    assert (page.ids, page.looked) == ([b"c"], 2)


def test_a_priority_that_is_given_again_late_changes_nothing(bench: Bench) -> None:
    bench.send(("m", 4), ("n", 4))
    first, second = (
        choosing_calls.prioritize(bench.queue.sender(), place="ready", ids=["m"], priority=priority)
        for priority in (9, 1)
    )
    for call in (first, second, first):
        assert bench.queue.run(call, repeated=True) == 1
    assert bench.claim("t") == ["n"]


OF_PROGRAMS = ("version", "declared", "probing")  # the last one beside a breaker


def test_all_settings_at_once(bench: Bench) -> None:
    call = policy_calls.configure(
        bench.keys, dict.fromkeys(WRITTEN, "1"), version=2, version_before=b"", declared_before=b"",
        declared=b"{}",
    )  # fmt: skip
    assert bench.queue.run(call)
    assert bench.raw.hlen(bench.keys["settings"]) == len({*WRITTEN, *OF_PROGRAMS, "gated"})


@pytest.mark.parametrize("default", [0, TEN_YEARS + 1])
def test_a_default_time_to_live_that_is_no_time_is_none(bench: Bench, default: int) -> None:
    """So what has none gets the most that is allowed."""
    bench.queue.run(bench.queue.configure_call({"expiry": f"{default} - 5000"}))
    bench.send(("m", 4))
    assert bench.raw.zscore(bench.keys["expiring"], "m") == bench.clock.now + 5_000


@pytest.mark.parametrize("default", [1, TEN_YEARS])
def test_the_shortest_and_the_longest_default_time_to_live(bench: Bench, default: int) -> None:
    bench.queue.run(bench.queue.configure_call({"expiry": f"{default} - -"}))
    bench.send(("m", 4))
    assert bench.raw.zscore(bench.keys["expiring"], "m") == bench.clock.now + default


def test_what_is_noted_of_a_query_goes_by_itself(bench: Bench) -> None:
    assert bench.queue.run(batch_calls.note_done(bench.keys, "query", 3)) == (3, 0)
    (key,) = bench.raw.keys("*:stream:*")
    assert bench.raw.ttl(key) > 0


def test_who_moves_nothing_wakes_no_one(bench: Bench) -> None:
    assert bench.queue.run(OPERATED["transfer"](bench.queue)) == 0
    assert not bench.raw.exists(QueueKeys("rq", "to")["wake"])


def test_nothing_is_moved_to_a_queue_that_was_deleted(bench: Bench) -> None:
    bench.send(("m", 4))
    to = QueueKeys("rq", "to")
    call = choosing_calls.transfer(
        bench.queue.sender(), to, opening="before", place="ready", ids=["m"], keep=False, **SAID
    )
    assert bench.reply_to(call) == b"deleted"
    assert bench.claim("t") == ["m"]


@pytest.mark.parametrize("unsaid", [1, 2])
def test_what_is_said_no_more_holds_no_more(bench: Bench, unsaid: int) -> None:
    for number, names in enumerate((WRITTEN, WRITTEN[unsaid:])):
        call = policy_calls.configure(
            bench.keys, dict.fromkeys(names, "1"), version=number + 1,
            version_before=str(number or "").encode(), declared_before=b"{}" if number else b"",
            declared=b"{}",
        )  # fmt: skip
        assert bench.queue.run(call)
    kept = {name.decode() for name in bench.raw.hkeys(bench.keys["settings"])}
    assert kept == {*WRITTEN[unsaid:], *OF_PROGRAMS, "gated"}


def test_nobody_is_woken_for_what_is_sent_to_a_queue_that_pauses(bench: Bench) -> None:
    bench.queue.run(managing_calls.pause(bench.keys, paused=True))
    bench.send(("m", 4))
    assert not bench.raw.exists(bench.keys["wake"])


def test_a_send_says_which_messages_the_queue_knew(bench: Bench) -> None:
    bench.send(("b", 4))
    items = packed(("a", 4), ("b", 4), ("a", 4))
    call = sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items)
    taken = bench.queue.run(call)
    assert taken is not None
    assert {n: place.known for n, place in taken.known.items()} == {1: "ready", 2: "ready"}
    assert taken.births(3)[1:] == [0, 0]
    assert taken.known[2].birth == taken.birth > taken.known[1].birth
    assert bench.queue.run(call) == taken  # I12


def test_only_a_redelivery_tells_of_a_delay(bench: Bench) -> None:
    """And what is kept for no time is dropped at once."""
    settings = {"outcomes": "1000", "dead_letter": '{"expired": "discard", "dead_for": 0}'}
    bench.queue.run(bench.queue.configure_call(settings))
    bench.send(*[(name, 4) for name in ("acked", "dead", "released")])
    bench.claim("t", 3)
    bench.queue.run(settling_calls.ack(bench.keys, [("acked", "t")]))
    bench.queue.run(bench.queue.poison_call([("dead", "t")]))
    bench.queue.run(settling_calls.release(bench.keys, [("released", "t")]))
    bench.queue.run(choosing_calls.redrive(bench.queue.sender(), place="dead", by='"c"', limit=1))
    bench.queue.run(choosing_calls.dead_letter(bench.queue.sender(), place="ready", ids=["dead"], **SAID))
    assert bench.queue.run(upkeep_calls.retire(bench.keys, limit=9)) == 1
    bench.queue.run(choosing_calls.purge(bench.queue.sender(), place="ready", limit=1))
    to = QueueKeys("rq", "to")
    moved = choosing_calls.transfer(bench.queue.sender(), to, place="ready", ids=["m"], keep=False, **SAID)
    for call in (OPERATED["expire_now"](bench.queue), moved):
        bench.send(("m", 4))
        assert bench.queue.run(call) == 1
    told = [cells for _, cells in bench.raw.xrange(bench.keys["outcomes"])]
    assert [cells[b"event"].decode() for cells in told] == [
        "acked", "dead", "released", "redriven", "dead", "discarded", "purged",
        "expired", "discarded", "moved",
    ]  # fmt: skip
    assert {cells[b"delay"] for cells in told} == {b"0"}


def test_what_was_never_redelivered_waited_for_nothing(bench: Bench) -> None:
    bench.send(("m", 4), ttl=1_000)
    (row,) = bench.queue.run(bench.queue.claim_call("t")).rows
    assert int(row.state.split()[-1]) == 0, "the delay of its last redelivery"


@pytest.mark.parametrize("verb", ["redrive", "transfer"])
def test_who_was_redriven_waited_for_nothing(bench: Bench, verb: str) -> None:
    to = QueueKeys("rq", "to") if verb == "transfer" else bench.keys
    bench.send(("m", 4))
    bench.claim("t")
    bench.nack("t", "m", delay=1_000)
    bench.queue.run(choosing_calls.dead_letter(bench.queue.sender(), place="scheduled", ids=["m"], **SAID))
    bench.raw.delete(to["wake"])
    moved = choosing_calls.transfer(bench.queue.sender(), to, place="dead", ids=["m"], keep=False, **SAID)
    assert bench.queue.run(moved if verb == "transfer" else OPERATED["redrive"](bench.queue)) == 1
    state = bench.raw.hget(to["states"], "m").split()
    assert (state[4], state[8], state[9]) == (b"0", b"1", b"0")  # charged, redriven, the last delay
    assert bench.raw.llen(to["wake"]) == 1


@pytest.mark.parametrize("keep", [True, False])
def test_a_transfer_tells_only_of_what_came(bench: Bench, keep: bool) -> None:
    """One that was cut off had told something before."""
    to = QueueKeys("rq", "to")
    bench.send(("m", 4))
    bench.raw.hset(to["history"], "m", "moved\t1\t0\t0\t\t\t")
    transfer = choosing_calls.transfer(bench.queue.sender(), to, place="ready", ids=["m"], keep=keep, **SAID)
    assert bench.queue.run(transfer) == 1
    (event,) = read_history(bench.raw.hget(to["history"], "m"))
    assert event.event == ("copied" if keep else "moved")


def test_the_oldest_is_the_first_of_many(bench: Bench) -> None:
    bench.send(("a", 4))
    bench.step(1_000)
    bench.send(("b", 4))
    _, stats = bench.queue.run(queue_calls.stats(bench.keys, "q"))
    assert (stats.oldest, stats.ready) == (1.0, 2)


@pytest.mark.parametrize("stale", ["version_before", "declared_before"])
def test_settings_that_changed_since_are_looked_at_again(bench: Bench, stale: str) -> None:
    bench.raw.hset(bench.keys["settings"], mapping={"version": 1, "declared": "{}"})
    known: dict[str, bytes] = {"version_before": b"1", "declared_before": b"{}", stale: b"before"}
    assert not bench.queue.run(policy_calls.configure(bench.keys, {}, version=2, declared=b"{}", **known))
    assert bench.raw.hget(bench.keys["settings"], "version") == b"1"


@pytest.mark.parametrize("verb", ["dead_letter", "expire_now"])
def test_a_claim_takes_nothing_that_stands_elsewhere(bench: Bench, verb: str) -> None:
    """A verb that was cut off left its row behind."""
    bench.send(("m", 4))
    rows = bench.raw.zrange(bench.keys["ready"], 0, -1, withscores=True)
    bench.queue.run(OPERATED[verb](bench.queue))
    bench.raw.zadd(bench.keys["ready"], dict(rows))
    assert bench.claim("t") == []
    assert not bench.raw.exists(bench.keys["ready"])


def test_a_rule_that_comes_back_before_it_was_gone_is_opened_again(bench: Bench) -> None:
    """While messages are blocked it is off, and programs that know no keys may have opened the queue."""
    bench.raw.hset(bench.keys["settings"], "opening", "1")
    openings = []
    for rule in ("order", "", "order"):
        assert bench.queue.run(bench.queue.configure_call({"per_key": rule}))
        openings.append(bench.raw.hget(bench.keys["settings"], "opening"))
    assert openings == [b"1kk", b"1kk", b"1kkk"]  # once more, since the lanes are numbered


def test_a_repeated_purge_says_where_the_first_ended(bench: Bench) -> None:
    bench.send(("a", 4), ("b", 4), ("c", 4))
    call = choosing_calls.purge_range(
        bench.queue.sender(), place="ready", after=page_calls.START, upto=page_calls.END, limit=2
    )
    first = bench.queue.run(call)
    assert first.next is not None
    assert bench.queue.run(call, repeated=True) == first
    assert bench.claim("t", 9) == ["c"]


def test_a_nack_that_pauses_a_key_names_it(bench: Bench) -> None:
    bench.configure(per_key="limit 2")
    bench.send_alike("m", key="k")
    bench.claim("t")
    bench.nack("t", "m", delay=60_000, charge=False, pauses=True)
    (lane,) = bench.raw.hvals(bench.keys["special"])
    assert (json.loads(lane)["of"], json.loads(lane)["name"]) == ("key", "k")


def test_the_first_claim_after_a_pause_takes_what_is_there(bench: Bench) -> None:
    bench.send(("m", 4))
    end = bench.clock.now + 10
    bench.raw.hset(bench.keys["settings"], mapping={"paused": 1, "paused_until": end})
    bench.step(9)
    assert bench.claim("t") == []
    bench.step(1)
    assert bench.claim("u") == ["m"]


def test_a_damaged_record_has_no_priority_to_change(bench: Bench) -> None:
    """The shortest one has."""
    items: list[Any] = ["m", bytes((4,)), "whole", bytes((4,))]
    bench.queue.run(sending_calls.send(bench.queue.sender(), delay=0, ttl=0, items=items))
    assert bench.raw.hstrlen(bench.keys["messages"], "whole") == 8
    bench.raw.hset(bench.keys["messages"], "m", b"\x00" * 7)
    rows = bench.raw.zrange(bench.keys["ready"], 0, 0, withscores=True)
    call = choosing_calls.prioritize(bench.queue.sender(), place="ready", ids=["m", "whole"], priority=9)
    assert bench.queue.run(call) == 1
    assert bench.raw.zrange(bench.keys["ready"], -1, -1, withscores=True) == rows


def test_who_cancels_or_sends_again_what_is_of_a_later_form_is_told(bench: Bench) -> None:
    bench.send(("m", 4))
    bench.raw.hset(bench.keys["states"], "m", ">=1.4 x")
    cancel = cancelling_calls.cancel(bench.queue.sender(), id="m")
    assert bench.queue.run(cancel).word == "later"
    assert bench.reply_to(bench.queue.send_call(("m", 4))) == [0, 1, b"later/0"]
    assert bench.raw.hexists(bench.keys["messages"], "m")
    bench.raw.flushall()  # the audit cannot read it


def test_a_repeated_send_tells_the_births_again(bench: Bench) -> None:
    sender = bench.queue.sender()
    items: list[bytes | str] = ["m", b"\x04x", "n", b"\x04x"]
    first = bench.queue.run(sending_calls.send(sender, delay=0, ttl=0, items=items))
    assert first is not None
    assert first.birth == bench.clock.now * 4096
    assert bench.queue.run(sending_calls.send(sender, delay=0, ttl=0, items=items)) == first


def test_a_send_that_arrives_after_a_later_call_of_its_sender_changes_nothing(bench: Bench) -> None:
    bench.send(("m", 4))
    first = bench.queue.sender()
    bench.queue.run(choosing_calls.purge(Sender(first.keys, 2), place="ready", limit=9))
    late = sending_calls.send(first, delay=0, ttl=0, items=["n", b"\x04x"])
    assert bench.queue.run(late) == sending_calls.Taken(0, {})
    assert not bench.raw.hexists(bench.keys["messages"], "n")


def test_a_repeated_call_tells_how_many_were_leased(bench: Bench) -> None:
    """I12."""
    bench.send(("a", 4), ("b", 4))
    bench.claim("t")
    call = choosing_calls.purge(bench.queue.sender(), place="ready", ids=["a", "b"])
    replies = [bench.reply_to(call) for _ in range(2)]
    assert replies == [[1, b"", b"", 1]] * 2


def test_a_rule_that_gets_a_rate_is_opened_again(bench: Bench) -> None:
    """By programs that know no rates."""
    bench.raw.hset(bench.keys["settings"], "opening", "o")
    openings = []
    for rule in ("order", "rate 4/s", "order", "order rate 4/s", "rate 5/s"):
        bench.configure(per_key=rule)
        openings.append(bench.raw.hget(bench.keys["settings"], "opening"))
    assert openings == [b"okk", b"okkk", b"okkk", b"okkkk", b"okkkk"]


def test_a_repeated_cancel_tells_again_who_holds_the_message(bench: Bench) -> None:
    """I12: so that its worker learns of it."""
    bench.send(("m", 4))
    bench.claim("t")
    call = cancelling_calls.cancel(bench.queue.sender(), id="m")
    first, again = (bench.queue.run(call) for _ in range(2))
    assert first == again
    assert (first.word, first.birth > 0, first.token, first.holder) == ("cancelled", True, "t", '"c"')


def test_who_remembers_the_groups_sees_that_one_is_muted(bench: Bench) -> None:
    """By a count, which each change of a mute raises."""
    bench.send(("m", 4))
    bench.claim("t")
    bench.settle(bench.queue.poison_call([("m", "t")]))
    name = bench.raw.zrange(bench.keys["groups"], 0, 0)[0][:12].decode()
    counts = []
    for upto in (0, 0, None):
        bench.queue.run(group_calls.mute(bench.keys, name, upto=upto))
        counts.append(bench.raw.hget(bench.keys["counters"], "mutes"))
    assert counts == [b"1", b"1", b"2"]


def test_a_plan_changes_as_many_as_it_says_over_all_its_calls(bench: Bench) -> None:
    bench.send(*[(f"m{n}", 4) for n in range(3)])
    birth = int(bench.raw.hget(bench.keys["counters"], "birth"))
    plan = f"{bench.clock.now} {birth} 0 2"
    sender = bench.queue.sender()
    for number, ids in enumerate((["m0"], ["m1", "m2"]), 1):
        call = choosing_calls.purge(Sender(sender.keys, number, plan), place="ready", ids=ids)
        assert bench.queue.run(call) == 1
    assert bench.raw.hkeys(bench.keys["messages"]) == [b"m2"]


SHORT, LONG = b"\0\0\0\0\0\x10\0\x04body", b"live - 0 0 0 0 0 0 0 0 0 head=4096/4/0/3000"
RESULTS = {
    "there": (SHORT, None, Word.UNASKED),
    "there and long": (SHORT, LONG, Word.UNASKED),
    "damaged": (b"", None, Word.UNASKED),
    "gone": (None, LONG, Word.UNKNOWN),
    "its record is later": (SHORT[:7] + b"\x0f>=1.4 x", None, Word.UNKNOWN),
    "its state is later": (SHORT, b">=1.4 " + LONG, Word.UNKNOWN),
}


@pytest.mark.parametrize(("record", "state", "word"), RESULTS.values(), ids=RESULTS)
def test_a_result_that_was_not_asked_for(
    bench: Bench, record: bytes | None, state: bytes | None, word: Word
) -> None:
    """By the birth the queue tells whether it has the message: not if it is gone, or of a later form."""
    for name, value in (("messages", record), ("states", state)):
        if value is not None:
            bench.raw.hset(bench.keys[name], "m", value)
    assert bench.queue.run(result_calls.result(bench.keys, [Meant("m")])) == [word]
    bench.raw.delete(bench.keys["messages"], bench.keys["states"])  # it is in no index
