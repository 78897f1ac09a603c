"""The table of verbs is what the broker is: its files, its roles, what a repetition and a full server do."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from rq_dlq._redis.roles import ROLES
from rq_dlq._scripts.verb import PAIRS
from rq_dlq.core.steps.call import Call
from tests.behaviour import test_damaged
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import counts
from tests.conftest import Clock
from tests.contents import contents
from tests.model import lanes
from tests.model.keyed_world import KeyedWorld
from tests.model.world import Beginning, World
from tests.tables import each_row
from tests.variants import on_fakeredis
from tests.verbs import SELECTED, VERBS, Again, Verb, check_all_tried
from tests.verbs.scene import set_up
from tests.verbs.verb import table

pytestmark = on_fakeredis("each verb runs there")

EACH = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)


def test_a_file_without_a_row_or_a_row_without_a_file_is_an_error() -> None:
    first, *others = VERBS.values()
    for rows in (others, (first, first, *others), (*VERBS.values(), verb_called("no file", first))):
        with pytest.raises(LookupError, match=r"no row for \[.*no Lua file for"):
            table(*rows)


def verb_called(name: str, like: Verb) -> Verb:
    return Verb(
        name=name, kind=like.kind, roles=like.roles, call=like.call, say=like.say, again=like.again
    )  # fmt: skip


def test_a_verb_is_left_out_for_a_reason_only() -> None:
    check_all_tried(["a", "b"], ["a"], {"b": "it is like a"})
    for tried, without in (
        (["a"], {}),
        (["a"], {"b": ""}),
        (["a", "b"], {"b": "why"}),
        (["a", "c"], {"b": "why"}),
        (["a", "b"], {"c": "why"}),
    ):
        with pytest.raises(AssertionError):
            check_all_tried(["a", "b"], tried, without)


def test_every_method_of_a_selection_meets_what_is_damaged() -> None:
    check_all_tried(SELECTED, test_damaged.VERBS.keys() - {"copy"}, {})


def test_a_row_calls_its_own_script(redis_client: redis.Redis) -> None:
    beginning = Beginning.of(World(redis_client))
    called = {name: verb.call(World(redis_client, beginning=beginning)).verb for name, verb in VERBS.items()}
    assert called == {name: name for name in VERBS}


def test_who_may_run_a_script() -> None:
    assert {name: set(role.verbs) for name, role in ROLES.items()} == {
        name: {verb.name for verb in VERBS.values() if name in verb.roles} for name in ROLES
    }


# Messages with a key (I17)


@cache
def keyed(raw: Any) -> Beginning:
    """The world in order of keys, made once for a server."""
    return Beginning.of(KeyedWorld(raw))


@each_row("verb", VERBS.values())
@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_each_verb_minds_the_order_of_keys(verb: Verb, raw: Any) -> None:
    """In work, blocked and scheduled: a verb on chosen messages is tried on blocked ones, too."""
    chooses = verb.call(KeyedWorld(raw, beginning=keyed(raw))).args.get("place") == "ready"
    for place in ("ready", "scheduled") if chooses else ("",):
        world = KeyedWorld(raw, beginning=keyed(raw))
        call = verb.call(world)
        call = replace(call, args={**call.args, "place": place}) if place else call
        before = lanes.look(raw, world.keys)
        world.queue.run(call)
        after = contents(raw)
        world.queue.run(call, repeated=True)
        assert contents(raw) == after, "a repetition changed something more"
        if raw.hget(world.keys["settings"], "per_key") == b"order":  # else the verb has set another rule
            seen = lanes.look(raw, world.keys)
            lanes.check(seen, before, "order", settled=True, whole=True, overtaking=True)


# A repetition (I12)


@EACH
@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_a_repetition_does_what_its_row_says(verb: Verb, raw: Any) -> None:
    world = World(raw)
    call = verb.call(world)
    first = world.queue.run(call)
    before = contents(raw)
    again = world.queue.run(call, repeated=True)
    assert contents(raw) == before, "it changed something more"
    if verb.again is Again.SAME:
        assert again == first
    elif verb.again is Again.DONE:
        assert done(again, call), again
    else:
        assert not again


def done(reply: Any, call: Call[Any]) -> bool:
    """Each message is settled; each that was sent is known; the entry is there."""
    if call.verb in PAIRS:
        reply, _ = reply  # of the first
    if call.verb == "set_policy":
        return bool(reply == call.args["entry"])
    if call.verb == "send":
        return bool(reply == list(range(len(call.items) // 2)))
    return {settlement.outcome for settlement in reply} == {"settled"}


@EACH
async def test_a_client_repeats_a_call_whose_reply_was_lost(verb: Verb, broker: Any, clock: Clock) -> None:
    """And it comes to the same as where none was lost."""
    ends = []
    for family, other in (("a", "b"), ("c", "d")):
        scene = await set_up(broker, clock, family, other)
        lost = await lose_replies(broker, verb.name) if family == "c" else None
        await verb.say(scene)
        assert lost is None or lost.runs > 1, "its reply was not lost"
        ends.append(
            [(await counts(queue), (await queue.stats()).totals) for queue in (scene.queue, scene.other)]
        )
    assert ends[0] == ends[1]
