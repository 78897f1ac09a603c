"""Messages chosen by a condition, and what operators do to them: counted, in chunks, resumable."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from rq_dlq import BrokerUnavailable, Changed, DeadLetter, InvalidInput, Message
from rq_dlq.core.changing import changing
from rq_dlq.core.choosing.choice import Choice
from rq_dlq.core.steps.step import CHANGED
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import STATES, after, bring_to, bury, counts, one
from tests.behaviour.stepping import drive, stop_after
from tests.conftest import Clock
from tests.contents import contents
from tests.tables import each_row_afresh
from tests.verbs import SELECTED

MANY = 1_100
VERBS = sorted(SELECTED.keys() - {"move"})  # see test_transfer
FROM = {"redrive": "dead", "deliver_now": "scheduled"}
"""Where the messages of a verb wait, where they are not ready."""
TO = {"redrive": "ready", "dead_letter": "dead", "expire": "expired", "deliver_now": "ready"}
"""Where they are afterwards; else where they were, or gone."""


def steps_of(verb: str, queue: Any, choice: Choice) -> Any:
    """The steps behind a verb."""
    extra = {"dead_letter": ("by hand",), "prioritize": (9,)}.get(verb, ())
    return getattr(changing, {"expire": "expire_now"}.get(verb, verb))(queue._core, choice, *extra)


async def say(verb: str, selection: Any) -> Changed:
    """The verb on a selection."""
    extra = {"prioritize": (9,), "move": ("b",), "copy": ("b",)}.get(verb, ())
    changed = await getattr(selection, verb)(*extra)
    assert isinstance(changed, Changed)
    return changed


async def waiting_for(verb: str, queue: Any, number: int) -> list[str]:
    """Messages that wait where a verb finds them; their ids in order."""
    place = FROM.get(verb, "ready")
    messages = [Message(body=n, id=f"m{n:04}") for n in range(number)]
    if place != "dead":
        sent: list[str] = await queue.send_many(messages, delay="1h" if place == "scheduled" else None)
        return sent
    dead: list[str] = []
    for start in range(0, number, 1_000):
        dead += await bury(queue, messages[start : start + 1_000])
    return dead


async def all_are_there(verb: str, queue: Any, sent: list[str]) -> None:
    """A verb has reached all, each once, and their order is kept."""
    place = TO.get(verb, "ready")
    if verb == "purge":
        assert await counts(queue) == {}
        assert (await queue.stats()).totals["purged"] == len(sent)
        return
    assert await counts(queue) == {place: len(sent)}
    found = await queue.select(places=[place]).browse()
    assert [message.id for message in found] == sent
    if verb == "prioritize":
        assert {message.priority for message in found} == {9}
    elif verb == "redrive":
        assert {message.redriven for message in found} == {1}


# What is chosen


async def test_looking_touches_nothing(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(3), headers={"tenant": "a"})
    await queue.send("later", delay="1h")
    before = contents(raw)
    chosen = queue.select()
    assert [message.body for message in await chosen.browse()] == [0, 1, 2, "later"]
    assert await chosen.count() == 4
    assert await chosen.count_by("tenant") == {"a": 3, None: 1}
    assert await queue.select("tenant = 'a' and body >= 1").count() == 2
    assert await queue.select("tenant = 'b'").browse() == []
    assert contents(raw) == before


async def test_each_place(broker: Any, clock: Clock) -> None:
    """What is leased can be listed, too; the dead come as dead letters."""
    queue = broker.queue("a")
    for state in ["expired", "dead", "leased", "scheduled", "ready"]:
        other = broker.queue(state)
        await bring_to(state, other, clock)
        for place in STATES:
            found = await other.select(places=[place]).browse()
            assert len(found) == (place == state)
            assert await other.select(places=[place], ids=["m", "n"]).count() == (place == state)
            assert all(isinstance(message, DeadLetter) is (place in {"dead", "expired"}) for message in found)
        assert await other.select(places=STATES).count() == 1
        assert await other.select(places=STATES, ids=["m"]).count() == 1
    assert await queue.select(places=STATES).count() == 0


async def test_the_order_is_that_of_delivery(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send("late", id="late", delay="2h")
    await queue.send("soon", id="soon", delay="1h")
    await queue.send("usual", id="usual")
    await queue.send("urgent", id="urgent", priority=9)
    wanted = ["urgent", "usual", "soon", "late"]
    assert [message.id for message in await queue.select().browse()] == wanted
    assert [message.id for message in await queue.select(limit=3).browse()] == wanted[:3]
    assert [message.id for message in await queue.select("id <> 'usual'", limit=2).browse()] == wanted[::2]
    backwards = queue.select(places=["scheduled", "ready"])
    assert [message.id for message in await backwards.browse()] == wanted[2:] + wanted[:2]


async def test_ids_are_chosen_once(broker: Any) -> None:
    """Said twice or unknown, in whichever place they wait."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(5))
    later = await queue.send("later", delay="1h")
    chosen = queue.select(ids=[later, sent[1], "nobody", sent[1], later])
    assert await chosen.count() == 2
    assert await queue.select("body = 1", ids=sent).count() == 1
    assert await queue.select(ids=sent, limit=3).count() == 3
    assert await queue.select(ids=[]).count() == 0
    assert await chosen.prioritize(9) == 2
    assert await chosen.purge() == 2
    assert await counts(queue) == {"ready": 4}


async def test_what_is_leased_shows_who_holds_it(broker: Any, clock: Clock) -> None:
    """Many claims, some of them settled in part."""
    queue = broker.queue("a", redelivery=after(0))
    sent = await queue.send_many(range(60))
    held = [await queue.claim(4) for _ in range(13)]
    await queue.ack([held[0][1], held[3][0]])
    await queue.nack([held[5][2]])
    gone = {held[0][1].id, held[3][0].id, held[5][2].id}
    leased = await queue.select(places=["leased"]).browse()
    assert {message.id for message in leased} == set(sent[:52]) - gone
    assert {message.delivery_count for message in leased} == {1}
    assert await queue.select("delivery_count = 1", places=["leased"]).count() == 49
    clock.advance("1h")


async def test_headers_that_are_damaged_count_as_none(broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await queue.send("x", id="m", headers={"tenant": "a"})
    await queue.send("y", headers={"tenant": "a"})
    record = raw.hget("rq:{a}:messages", "m")
    raw.hset("rq:{a}:messages", "m", record[:10] + b"!" + record[11:])
    assert await queue.select().count_by("tenant") == {None: 1, "a": 1}


@pytest.mark.parametrize("part", ["dead", "expired"])
async def test_a_dead_letter_queue_holds_only_its_own(part: str, broker: Any, clock: Clock) -> None:
    """No verb reaches the live messages through its name."""
    queue, other = broker.queue("a"), broker.queue("DLQ.a" if part == "dead" else "EXP.a")
    await bring_to(part, queue, clock)
    await queue.send_many(range(3))
    await queue.claim()
    for place in STATES:
        if place == part:
            assert await other.select(places=[place]).count() == 1
            continue
        for verb in ("count", "browse", "purge", "redrive", "dead_letter"):
            message = f"'{other.name}' has only {part} messages: for {place} ones, select from 'a'"
            with pytest.raises(InvalidInput, match=message):
                await getattr(other.select(places=[place]), verb)()
    assert await counts(queue) == {"ready": 2, "leased": 1, part: 1}


@pytest.mark.parametrize("place", ["ready", "scheduled", "dead"])
async def test_ids_come_in_the_order_of_their_place(place: str, broker: Any, clock: Clock) -> None:
    """And a limit takes the first of that order, or of its end."""
    queue = broker.queue("a")
    for number, priority in enumerate([0, 9, 4, 4, 9]):
        if place == "dead":
            await bury(queue, [Message(body=number, id=f"m{number}", priority=priority)])
        else:
            delay = "1h" if place == "scheduled" else None
            await queue.send(number, id=f"m{number}", priority=priority, delay=delay)
        if number % 2:
            clock.advance("1s")
    order = [message.id for message in await queue.select(places=[place]).browse()]
    for ids in (["m3", "m0", "m4", "m1", "m2"], ["m2", "m1", "m3"]):
        wanted = [name for name in order if name in ids]
        for given, expected in ({"order": "oldest"}, wanted), ({"order": "newest"}, wanted[::-1]):
            for limit in (None, 1, 2):
                chosen = queue.select(ids=ids, places=[place], limit=limit, **given)
                assert [message.id for message in await chosen.browse()] == expected[:limit]
    assert await queue.select(ids=["m3", "m1", "m0"], places=[place], limit=1, order="newest").purge() == 1
    left = [name for name in order if name in {"m3", "m1", "m0"}][:-1]
    found = await queue.select(ids=["m3", "m1", "m0"], places=[place]).browse()
    assert [message.id for message in found] == left


# What is done to them


@each_row_afresh("verb", VERBS)
async def test_more_than_a_chunk_and_more_than_a_claim(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    sent = await waiting_for(verb, queue, MANY)
    assert await say(verb, queue.select(places=[FROM.get(verb, "ready")])) == MANY
    await all_are_there(verb, queue, sent)


@each_row_afresh("verb", VERBS)
async def test_it_can_be_stopped_and_said_again(verb: str, broker: Any) -> None:
    queue = broker.queue("a")
    sent = await waiting_for(verb, queue, 2 * CHANGED + 10)
    choice = Choice(places=(FROM.get(verb, "ready"),))  # type: ignore[arg-type]
    await stop_after(broker, steps_of(verb, queue, choice), SELECTED[verb])
    again = await say(verb, queue.select(places=[FROM.get(verb, "ready")]))
    assert again == (len(sent) if verb == "prioritize" else len(sent) - CHANGED)
    await all_are_there(verb, queue, sent)


@each_row_afresh("verb", VERBS)
async def test_it_can_be_said_again_after_a_fault(verb: str, broker: Any) -> None:
    """I12: a chunk was done, and nobody knows."""
    queue = broker.queue("a")
    sent = await waiting_for(verb, queue, 2 * CHANGED)
    await lose_replies(broker, SELECTED[verb], times=3)
    with pytest.raises(BrokerUnavailable):
        await say(verb, queue.select(places=[FROM.get(verb, "ready")]))
    await say(verb, queue.select(places=[FROM.get(verb, "ready")]))
    await all_are_there(verb, queue, sent)


NOT_LEASED: list[dict[str, Any]] = [{"places": ["ready"]}, {"where": "id = ''"}]
CHOICES: list[dict[str, Any]] = [
    {"ids": ["m"]}, {"places": ["leased"]}, {"places": STATES}, {"where": "id <> ''"}, {"all": True},
    *NOT_LEASED,
]  # fmt: skip


@each_row_afresh("verb", [*VERBS, "move", "copy"])
async def test_what_is_leased_is_never_touched(verb: str, broker: Any, raw: Any) -> None:
    queue = broker.queue("a")
    await broker.queue("b").open()
    await queue.send("x", id="m")
    delivery = await one(queue)
    before = contents(raw)
    for choice in CHOICES:
        changed = await say(verb, queue.select(**choice))
        assert (changed, changed.leased) == (0, 0 if choice in NOT_LEASED else 1)
    assert contents(raw) == before
    assert await delivery.ack()


async def test_the_number_is_a_number(broker: Any) -> None:
    """What a verb returns goes where an int went."""
    queue = broker.queue("a")
    await queue.send_many(range(3))
    await queue.claim()
    changed = await queue.purge(all=True)
    assert (changed, changed.leased, f"{changed:,}", changed + 1) == (2, 1, "2", 3)
    assert copy.copy(changed) == 2  # by what pickle stores
    assert json.dumps([changed]) == "[2]"


@pytest.mark.parametrize("part", ["dead", "expired"])
async def test_letters_that_somebody_works_on(part: str, broker: Any, clock: Clock) -> None:
    """They are counted by ids, by a condition on their deaths, and of all; those of other states are not."""
    queue = broker.queue("a")
    letters = queue.dlq if part == "dead" else queue.expired
    await bring_to(part, queue, clock)
    await queue.send("live", id="live")
    await queue.claim()
    (letter,) = await broker.queue("DLQ.a" if part == "dead" else "EXP.a").claim()
    reason = (await queue.explain("m")).message.reason
    for choice in ({"ids": ["m", "live"]}, {"reason": reason}, {"older_than": "0s"}, {"all": True}):
        changed = await letters.purge(**choice)
        assert (changed, changed.leased) == (0, 1), choice
    assert (await letters.purge(reason="exhausted", where="id = 'other'")).leased == 0
    assert (await letters.select(ids=["m"]).redrive()).leased == 1
    assert (await queue.purge(all=True)).leased == 2  # both are leased
    await letter.release()


@each_row_afresh(("claimed", "trips"), [(0, 1), (1, 2), (3, 2)])
async def test_ids_that_all_wait_are_looked_for_once(claimed: int, trips: int, broker: Any) -> None:
    """In each place where the verb takes them; only what was not found is looked for among the leased."""
    queue = broker.queue("a")
    sent = await queue.send_many(range(3))
    if claimed:
        await queue.claim(claimed)
    said: list[str] = []

    async def note(script: str) -> None:
        said.append(script)

    done = await drive(broker, steps_of("prioritize", queue, Choice(ids=sent)), note)
    assert (done, done.leased) == (3 - claimed, claimed)
    assert (said.count("browse"), said.count("scan")) == (trips, 0)


async def test_a_limit_leaves_room_for_those_in_work(broker: Any) -> None:
    """Waiting ones come first; of those in work only as many as are left of the limit."""
    queue = broker.queue("a")
    await queue.send_many(range(10))
    await queue.claim(4)
    first = await queue.select(limit=5).prioritize(9)
    rest = await queue.select("id <> ''", limit=8).purge()
    assert [(first, first.leased), (rest, rest.leased)] == [(5, 0), (6, 2)]


@each_row_afresh("verb", VERBS)
async def test_while_others_claim_and_send(verb: str, broker: Any) -> None:
    """What is claimed between the look and the chunk stays with its consumer; what is sent then is left."""
    queue = broker.queue("a")
    sent = await waiting_for(verb, queue, CHANGED + 10)
    taken: list[Any] = []

    async def interfere(script: str) -> None:
        if script == "scan" and not taken:
            source = queue if FROM.get(verb) != "dead" else broker.queue("DLQ.a")
            taken.extend(await source.claim(20) if FROM.get(verb) != "scheduled" else ())
            await queue.send("late", id="late", delay="2h")

    place: Any = FROM.get(verb, "ready")
    choice = Choice(places=(place,), where="id LIKE 'm%'")
    done = await drive(broker, steps_of(verb, queue, choice), interfere)
    assert (done, done.leased) == (len(sent) - len(taken), len(taken))
    assert [delivery.id for delivery in taken] == sent[: len(taken)]
    assert len(taken) == (0 if verb == "deliver_now" else 20)
    assert (await queue.stats()).leased == len(taken)
    assert [message.id for message in await queue.select(places=["scheduled"]).browse()] == ["late"]
    assert all(await queue.ack(taken))


async def test_a_limit_is_one_of_changes(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(range(10))
    await queue.send_many(range(10), delay="1h")
    assert await queue.select(limit=3).purge() == 3
    assert await queue.select("body < 6", limit=2).purge() == 2
    assert [message.id for message in await queue.select(limit=5).browse()] == sent[5:]
    assert await queue.select(limit=12).dead_letter() == 12
    assert await counts(queue) == {"scheduled": 3, "dead": 12}
    assert await queue.select(limit=0).purge() == 0


NONSENSE: list[dict[str, Any]] = [
    {"places": "ready"}, {"places": ["nowhere"]}, {"places": 5}, {"places": [["ready"]]}, {"ids": "m"},
    {"ids": [1]}, {"ids": [""]}, {"limit": -1}, {"limit": 1.5}, {"limit": True}, {"where": "tenant ="},
    {"where": 5}, {"ids": 5},
]  # fmt: skip


@each_row_afresh("options", NONSENSE)
async def test_a_choice_that_makes_no_sense(options: dict[str, Any], broker: Any) -> None:
    with pytest.raises(InvalidInput):
        broker.queue("a").select(**options)
