"""Calls in a world, and what is so before them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.claiming.calls import Suspects
from rq_dlq.core.gathers import calls as gather_calls
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.policies import calls as policy_calls
from rq_dlq.core.queues import queue
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.redrive.calls import Offer
from rq_dlq.core.redrive.record import Asked
from rq_dlq.core.schedules import calls as schedule_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.riding import both_of
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.state import read_state
from rq_dlq.values.wanted import ALL as WHOLE
from tests.model.driver import CAUSE, Driver
from tests.model.world import World

Step = Callable[[World], Call[Any]]
T = ("l1", "l2", "l3")
HOUR = 3_600_000  # milliseconds
STAGED = ("a.0.0", "a.500.9000")  # lists of a job: a name, the delay and the time to live of what they hold
NEW = [("n1", 4), ("n2", 9), ("r1", 4)]  # the queue knows r1
AT_ONCE_DEAD = RedeliveryPolicy(max_redeliveries=0)
SPENT = queue.encode_policy(AT_ONCE_DEAD.as_wire()).decode()
DISCARD = '{"dead": "discard", "expired": "discard"}'
TO_THE_DEAD = '{"dead": "keep", "expired": "dead"}'
NOT_THE_TRANSIENT = '{"dead": "keep", "transient": "discard"}'
RETENTION = '{"dead_for": 1000, "expired_for": 500}'


def held(token: str, *ids: str) -> list[tuple[str, str]]:
    return [(message_id, token) for message_id in ids]


def schedule(name: str) -> Step:
    """A schedule that is new, and sends the message of its first tick."""
    return lambda world: schedule_calls.schedule(
        world.keys, name, known=b"", record=b"{}", at=world.clock.now, items=world.queue.packed(("n1", 4))
    )


def due(world: World) -> Call[schedule_calls.DueSchedules]:
    """What is due, where one schedule is."""
    world.queue.run(schedule("every")(world))
    return schedule_calls.due(world.keys, limit=10)


def scan(index: page_calls.Index) -> Step:
    return lambda world: scanned(world.keys, index)


def scanned(keys: QueueKeys, index: page_calls.Index) -> Call[page_calls.Page]:
    """The first page of an index."""
    return page_calls.scan(keys, index, after=page_calls.START, upto=page_calls.END, limit=2, wanted=WHOLE)


# What is so before the step


def later(seconds: float, call: Step) -> Step:
    """The call when time has passed."""

    def step(world: World) -> Call[Any]:
        world.pass_time(seconds)
        return call(world)

    return step


def under(settings: dict[str, str], call: Step) -> Step:
    """The call in a queue of these settings."""

    def step(world: World) -> Call[Any]:
        world.configure(**settings)
        return call(world)

    return step


def discarding(call: Step) -> Step:
    return under({"dead_letter": DISCARD}, call)


def to_the_dead(call: Step) -> Step:
    return under({"dead_letter": TO_THE_DEAD}, call)


def by_worker(call: Step) -> Step:
    """The call when a worker made T's claim."""

    def step(world: World) -> Call[Any]:
        given = world.raw.hget(world.keys["claims"], "T").decode().partition("\n")[2]
        world.raw.hset(world.keys["claims"], "T", f'"c"\tworker\n{given}')
        return call(world)

    return step


def with_suspects(suspects: Suspects) -> Step:
    """A claim when what T held lapsed, and went back: most of what stands first are suspects."""

    def step(world: World) -> Call[Any]:
        world.queue.run(by_worker(sweep())(world))
        return world.queue.claim_call("U", 5, suspects=suspects)

    return step


def told(call: Step) -> Step:
    """The call in a queue that keeps the outcome history."""
    return under({"outcomes": "100"}, call)


def remembering(call: Step) -> Step:
    """The call in a queue that remembers what is acked."""
    return under({"dedup_window": "600000"}, call)


def of_the_dead(call: Step) -> Step:
    """The call while D2 holds the dead letters."""

    def step(world: World) -> Call[Any]:
        world.queue.run(world.queue.claim_call("D2", 2, part="dead"))
        return call(world)

    return step


def of_the_returned(call: Step) -> Step:
    """The call when x1 was redriven and l2 waits for its redelivery: neither stands where it was born."""

    def step(world: World) -> Call[Any]:
        world.queue.run(redrive("dead", "x1")(world))
        world.queue.run(world.nack("T", "l2", delay=60_000))
        return call(world)

    return step


def paused(call: Step) -> Step:
    def step(world: World) -> Call[Any]:
        world.queue.run(managing_calls.pause(world.keys, paused=True))
        return call(world)

    return step


def asked(call: Step) -> Step:
    """The call when one more run was asked for of all that T holds."""

    def step(world: World) -> Call[Any]:
        world.queue.run(resend("again", *T)(world))
        return call(world)

    return step


def unique(call: Step) -> Step:
    """The call when what T holds stays known after its ack."""

    def step(world: World) -> Call[Any]:
        world.queue.run(resend("drop", *T, known_for=600_000)(world))
        return call(world)

    return step


# The calls


def resend(mode: str, *ids: str, priority: int = 4, **options: Any) -> Step:
    return lambda world: world.queue.resend_call(*[(name, priority) for name in ids], mode=mode, **options)


def claim(count: int = 3, **options: Any) -> Step:
    return lambda world: world.queue.claim_call("C", count, **options)


def claim_nothing(world: World) -> Call[Any]:
    """A claim that waits for what is scheduled."""
    world.queue.run(world.queue.claim_call("B", 9))
    return world.queue.claim_call("C", 9, patience=1_000)


def claim_the_spent(world: World) -> Call[Any]:
    """A claim when l1, which failed before, waits, and the limit was lowered."""
    world.queue.run(settling_calls.release(world.keys, held("T", "l1")))
    return world.queue.claim_call("C", 3)


def claim_what_outlived(world: World) -> Call[Any]:
    """A claim that meets a message whose time is over before the maintenance does."""
    world.raw.zrem(world.keys["expiring"], "e1")
    world.pass_time(200)
    return world.queue.claim_call("C", 9)


def sweep(limit: int = 200, policy: RedeliveryPolicy | None = None) -> Step:
    return later(40, lambda world: world.sweep(limit, policy))


def expire(seconds: float = 200) -> Step:
    return later(seconds, lambda world: upkeep_calls.expire(world.keys, limit=10))


def purge(place: Any, *ids: str) -> Step:
    return lambda world: choosing_calls.purge(world.queue.sender(), place=place, ids=ids, limit=100)


def cancel(message_id: str) -> Step:
    return lambda world: cancelling_calls.cancel(world.queue.sender(), id=message_id)


def opened(queue: Driver, message_id: str = "g") -> None:
    """A gather whose `then` is in this queue."""
    call = gather_calls.open_gather(queue.sender(), within=HOUR, items=queue.packed((message_id, 4)))
    assert queue.run(call)


def open_gather(world: World) -> Call[Any]:
    return gather_calls.open_gather(world.queue.sender(), within=HOUR, items=world.queue.packed(("n1", 4)))


def send_children(*ids: tuple[str, int]) -> Step:
    """Children, of a gather whose `then` is in the other queue."""

    def step(world: World) -> Call[Any]:
        opened(world.other)
        return _children(world, *ids)

    return step


def _children(world: World, *ids: tuple[str, int]) -> Call[Any]:
    return gather_calls.send_children(
        world.queue.sender(), world.other.keys, id="g", delay=0, ttl=0, items=world.queue.packed(*ids)
    )


def gathered(world: World) -> None:
    """Of three children, one in work, one dead and one new, none is open."""
    world.queue.run(send_children(("l1", 4), ("d1", 4), ("n1", 4))(world))
    world.queue.run(settling_calls.ack(world.keys, held("T", "l1")))
    world.queue.run(purge("ready", "n1")(world))


def close_gather(world: World) -> Call[Any]:
    gathered(world)
    return gather_calls.close_gather(world.other.keys, [world.keys], id="g")


def carry_gather(world: World) -> Call[Any]:
    world.queue.run(close_gather(world))
    return gather_calls.carry_gather(world.keys, world.other.keys, f"g/{world.other.keys.family}", seed=0.5)


def cancel_gather(world: World) -> Call[Any]:
    world.queue.run(send_children(("l1", 4), ("r1", 4), ("s1", 4), ("n1", 4))(world))
    return gather_calls.cancel_gather(world.keys, f"g/{world.other.keys.family}", left=0)


def redrive(part: Any, *ids: str) -> Step:
    return lambda world: choosing_calls.redrive(
        world.queue.sender(), place=part, by='"op"', ids=ids, limit=100
    )


ASKED = Asked("dead", "ids 2", 0, 0, 0, '"op"', "default", 0, CAUSE.cells())


def start_redrive(world: World) -> Call[Any]:
    """Of the dead letters."""
    world.raw.rpush(world.keys.redrive("j"), "d1", "x1")
    world.raw.expire(world.keys.redrive("j"), 60)
    return redrive_calls.start_redrive(world.keys, "j", ASKED, listed=2, gone=0, grace=0)


def step_redrive(world: World) -> Call[Any]:
    world.queue.run(start_redrive(world))
    return redrive_calls.step_redrive(world.keys, "j", limit=10, grace=10_000)


def offer_redrive(to: str) -> Step:
    """Of the dead letters, edited; to the other queue, or (empty) to their own."""

    def step(world: World) -> Call[Any]:
        world.raw.rpush(world.keys.redrive("j"), "d1", "x1")
        asked = msgspec.structs.replace(ASKED, to=to, offered=True, ttl=9_000)
        world.queue.run(redrive_calls.start_redrive(world.keys, "j", asked, listed=2, gone=0, grace=0))
        offers: list[Offer] = []
        for message_id in ("d1", "x1"):
            state = read_state(world.raw.hget(world.keys["states"], message_id))
            assert state is not None
            edited = world.raw.hget(world.keys["messages"], message_id) + b" "
            offers.append(Offer(message_id, f"{state.due}/{state.redriven}", edited))
        target = world.other.keys if to else world.keys
        return redrive_calls.offer_redrive(
            world.keys, target, "j", position=0, grace=10_000, opening="", offers=offers
        )

    return step


def limit(world: World) -> Call[Word]:
    """Of a key, where the rule is a limit."""
    world.raw.hset(world.keys["settings"], mapping={"per_key": "limit 2", "gated": "plain"})
    return managing_calls.limit_lane(world.keys, "k", 8)


def mute(world: World) -> Call[Any]:
    found = world.queue.run(group_calls.groups(world.keys, limit=10)).groups
    return group_calls.mute(world.keys, found[0].name if found else "0" * 12, upto=0)


def steer_redrive(world: World) -> Call[Any]:
    world.queue.run(start_redrive(world))
    return redrive_calls.steer_redrive(world.keys, "j", "pause", by='"op"', user="", grace=0)


def undo_redrive(world: World) -> Call[Any]:
    world.queue.run(step_redrive(world))
    return redrive_calls.undo_redrive(world.keys, "j", by='"op"', user="", cause=CAUSE.cells(), limit=10)


def retire(limit: int = 100) -> Step:
    call: Step = later(2, lambda world: upkeep_calls.retire(world.keys, limit=limit))
    return under({"dead_letter": RETENTION}, call)


def regroup(limit: int = 10) -> Step:
    """When an earlier version buried d1, and x1 has lost its row."""

    def step(world: World) -> Call[Any]:
        state = world.raw.hget(world.keys["states"], "d1")
        world.raw.hset(world.keys["states"], "d1", re.sub(rb" group=\w*", b"", state))
        world.raw.delete(world.keys["groups"])
        return upkeep_calls.regroup(world.keys, limit=limit)

    return step


def reindex(limit: int = 100) -> Step:
    """When the keys of all indexes were deleted."""

    def step(world: World) -> Call[Any]:
        for name in ("ready", "scheduled", "dead", "groups", "expired", "expiring", "leases", "claims"):
            world.raw.delete(world.keys[name])
        world.lost_keys = True
        return upkeep_calls.reindex(world.keys, limit=limit)

    return step


def dead_letter(place: Any, *ids: str) -> Step:
    return lambda world: choosing_calls.dead_letter(
        world.queue.sender(), place=place, ids=ids, by='"op"', cause=CAUSE
    )


def expire_now(place: Any, *ids: str) -> Step:
    return lambda world: choosing_calls.expire_now(world.queue.sender(), place=place, ids=ids)


def prioritize(place: Any, priority: int, *ids: str) -> Step:
    return lambda world: choosing_calls.prioritize(
        world.queue.sender(), place=place, ids=ids, priority=priority
    )


def transfer(place: Any, *ids: str, keep: bool = False) -> Step:
    """To the other queue, which knows r2."""
    return lambda world: choosing_calls.transfer(
        world.queue.sender(), world.other.keys, place=place, ids=ids, keep=keep, by='"op"', cause=CAUSE
    )


def set_policy(entry: bytes, before: bytes = b"") -> Step:
    def step(world: World) -> Call[Any]:
        if before:
            world.queue.run(policy_calls.set_policy("rq", "#", before))
        return policy_calls.set_policy("rq", "#", entry)

    return step


def commit(world: World, *, strict: bool = False) -> Call[Any]:
    """The end of a session: l1 and l2 are acked, n1 and n2 sent, later n3 and n4 to the other queue."""
    groups = [session_calls.Outgoing(0, 0, world.queue.packed(("n1", 4), ("n2", 9)))]
    others = [
        session_calls.Outgoing(0, 0, world.queue.packed(("n3", 4))),
        session_calls.Outgoing(500, 9_000, world.queue.packed(("n4", 4))),
    ]
    shares = [
        session_calls.Share(world.keys, held("T", "l1", "l2"), groups),
        session_calls.Share(world.other.keys, [], others),
    ]
    return session_calls.commit(world.queue.sender(), shares, strict=strict)


def staged(call: Step) -> Step:
    """The call when a task has staged n1, and n2 with a delay and a time to live."""

    def step(world: World) -> Call[Any]:
        for attempt, message_id in zip(STAGED, ("n1", "n2"), strict=True):
            world.raw.rpush(world.keys.stage("j", attempt), *world.queue.packed((message_id, 4)))
            world.raw.expire(world.keys.stage("j", attempt), 60)
        return call(world)

    return step


def commit_job(world: World) -> Call[Any]:
    return job_calls.commit_job(
        world.keys, "j", dict.fromkeys(STAGED, 2), batch=0, call="c", grace=0, remembered=60_000
    )


def move_staged(world: World) -> Call[Any]:
    world.queue.run(commit_job(world))
    return job_calls.move_staged(world.keys, "j", STAGED[1], limit=10, early=True)


def divide(keep: int) -> Step:
    return lambda world: batch_calls.divide_claim(world.keys, "T", to="U", keep=keep)


def ack_and_claim(world: World) -> Call[Any]:
    """An ack of what is held, and a claim, in one call."""
    held_now = settling_calls.ack(world.keys, held("T", *T))
    both = both_of(held_now, world.queue.claim_call("C", 3))
    assert both is not None
    return both


def both(*ids: str) -> frozenset[str]:
    """The messages here, and there."""
    return there(*ids).union(ids)


def there(*ids: str) -> frozenset[str]:
    return frozenset("to/" + message_id for message_id in ids)


def restore(world: World) -> Call[Any]:
    """Two dead letters, and one that the queue knows."""
    birth = (world.clock.now << 12).to_bytes(7, "big")
    cells = world.queue.packed(*NEW)
    items: list[str | bytes] = []
    for name, payload in zip(cells[::2], cells[1::2], strict=True):
        state = f"dead/poison - {world.clock.now} 1 1 0 0 0 0 0 group=abc"
        items += [name, birth + bytes(payload), state, ""]  # type: ignore[arg-type]
    return sending_calls.restore(world.queue.sender(), items=items, opening="")
