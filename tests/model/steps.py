"""Every step that a script can take, in every branch of it, and what may be gone where it was cut off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rq_dlq import _calls
from rq_dlq._calls import Call, claims, scans
from rq_dlq.policy import RedeliveryPolicy
from tests.model.driver import packed
from tests.model.world import CAUSE, World

Step = Callable[[World], Call[Any]]
T = ("l1", "l2", "l3")
NONE: set[str] = set()
STAGED = ("a.0.0", "a.500.9000")  # lists of a job: a name, the delay and the time to live of what they hold
NEW = [("n1", 4), ("n2", 9), ("r1", 4)]  # the queue knows r1
AT_ONCE_DEAD = RedeliveryPolicy(max_redeliveries=0)
SPENT = _calls.encode_policy(AT_ONCE_DEAD.as_wire()).decode()
DISCARD = '{"dead": "discard", "expired": "discard"}'
TO_THE_DEAD = '{"dead": "keep", "expired": "dead"}'
NOT_THE_TRANSIENT = '{"dead": "keep", "transient": "discard"}'
RETENTION = '{"dead_for": 1000, "expired_for": 500}'


def held(token: str, *ids: str) -> list[tuple[str, str]]:
    return [(message_id, token) for message_id in ids]


def scan(index: scans.Index) -> Step:
    return lambda w: scans.scan(
        w.keys, index, after=scans.START, upto=scans.END, limit=2, wanted=scans.Wanted()
    )


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


def begun(*ids: str) -> Callable[[Step], Step]:
    """The call when T's claim is attributed, and it said that these run."""

    def attributed(call: Step) -> Step:
        def step(world: World) -> Call[Any]:
            world.raw.hset(world.keys["claims"], "T:begun", "\n".join(ids))
            return call(world)

        return step

    return attributed


def told(call: Step) -> Step:
    """The call in a queue that keeps the outcome history."""
    return under({"outcomes": "100"}, call)


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
        world.queue.run(_calls.pause(world.keys, paused=True))
        return call(world)

    return step


# The calls


def claim(count: int = 3, **options: Any) -> Step:
    return lambda world: world.queue.claim_call("C", count, **options)


def claim_nothing(world: World) -> Call[Any]:
    """A claim that waits for what is scheduled."""
    world.queue.run(world.queue.claim_call("B", 9))
    return world.queue.claim_call("C", 9, patience=1_000)


def claim_the_spent(world: World) -> Call[Any]:
    """A claim when l1, which failed before, waits, and the limit was lowered."""
    world.queue.run(_calls.release(world.keys, held("T", "l1")))
    return world.queue.claim_call("C", 3)


def claim_what_outlived(world: World) -> Call[Any]:
    """A claim that meets a message whose time is over before the maintenance does."""
    world.raw.zrem(world.keys["expiring"], "e1")
    world.pass_time(200)
    return world.queue.claim_call("C", 9)


def sweep(limit: int = 200, policy: RedeliveryPolicy | None = None) -> Step:
    return later(40, lambda world: world.sweep(limit, policy))


def expire(seconds: float = 200) -> Step:
    return later(seconds, lambda world: _calls.expire(world.keys, limit=10))


def purge(place: Any, *ids: str) -> Step:
    return lambda world: _calls.purge(world.keys, place=place, ids=ids, limit=100)


def redrive(part: Any, *ids: str) -> Step:
    return lambda world: _calls.redrive(world.keys, part=part, by='"op"', ids=ids, limit=100)


def retire(limit: int = 100) -> Step:
    call: Step = later(2, lambda world: _calls.retire(world.keys, limit=limit))
    return under({"dead_letter": RETENTION}, call)


def dead_letter(place: Any, *ids: str) -> Step:
    return lambda world: _calls.dead_letter(world.keys, place=place, ids=ids, by='"op"', cause=CAUSE)


def expire_now(place: Any, *ids: str) -> Step:
    return lambda world: _calls.expire_now(world.keys, place=place, ids=ids)


def prioritise(place: Any, priority: int, *ids: str) -> Step:
    return lambda world: _calls.prioritise(world.keys, place=place, ids=ids, priority=priority)


def transfer(place: Any, *ids: str, keep: bool = False) -> Step:
    """To the other queue, which knows r2."""
    return lambda world: _calls.transfer(
        world.keys, world.other.keys, place=place, ids=ids, keep=keep, by='"op"', cause=CAUSE
    )


def set_policy(entry: bytes, before: bytes = b"") -> Step:
    def step(world: World) -> Call[Any]:
        if before:
            world.queue.run(_calls.set_policy("rq", "#", before))
        return _calls.set_policy("rq", "#", entry)

    return step


def commit(world: World) -> Call[Any]:
    """The end of a session: l1 and l2 are acked, n1 and n2 sent, later n3 and n4 to the other queue."""
    groups = [_calls.Outgoing(0, 0, packed(("n1", 4), ("n2", 9)))]
    others = [_calls.Outgoing(0, 0, packed(("n3", 4))), _calls.Outgoing(500, 9_000, packed(("n4", 4)))]
    shares = [
        _calls.Share(world.keys, held("T", "l1", "l2"), groups),
        _calls.Share(world.other.keys, [], others),
    ]
    return _calls.commit(shares, "c1")


def staged(call: Step) -> Step:
    """The call when a task has staged n1, and n2 with a delay and a time to live."""

    def step(world: World) -> Call[Any]:
        for attempt, message_id in zip(STAGED, ("n1", "n2"), strict=True):
            world.raw.rpush(world.keys.stage("j", attempt), *packed((message_id, 4)))
            world.raw.expire(world.keys.stage("j", attempt), 60)
        return call(world)

    return step


def commit_job(world: World) -> Call[Any]:
    return _calls.commit_job(
        world.keys, "j", dict.fromkeys(STAGED, 2), batch=0, call="c", grace=0, remembered=60_000
    )


def move_staged(world: World) -> Call[Any]:
    world.queue.run(commit_job(world))
    return _calls.move_staged(world.keys, "j", STAGED[1], limit=10, early=True)


def divide(keep: int) -> Step:
    return lambda world: claims.divide_claim(world.keys, "T", to="U", keep=keep)


def both(*ids: str) -> set[str]:
    """The messages here, and there."""
    return {place + message_id for message_id in ids for place in ("", "to/")}


def there(*ids: str) -> set[str]:
    return {"to/" + message_id for message_id in ids}


# name: the call, and the messages that may be gone (or come) where it was cut off
STEPS: dict[str, tuple[Step, set[str]]] = {
    "send": (lambda w: w.queue.send_call(*NEW), {"n1", "n2"}),
    "send delayed": (lambda w: w.queue.send_call(*NEW, delay=1_000), {"n1", "n2"}),
    "send with ttl": (lambda w: w.queue.send_call(*NEW, ttl=10_000), {"n1", "n2"}),
    "send all": (lambda w: w.queue.send_call(*NEW, delay=1_000, ttl=10_000), {"n1", "n2"}),
    "send, default ttl": (under({"expiry": "5000 - -"}, lambda w: w.queue.send_call(*NEW)), {"n1", "n2"}),
    "send, no ttl": (under({"expiry": "never"}, lambda w: w.queue.send_call(*NEW, ttl=9)), {"n1", "n2"}),
    "send, ttl bounds": (
        under({"expiry": "- 1 5000"}, lambda w: w.queue.send_call(*NEW, delay=1_000, ttl=9_999)),
        {"n1", "n2"},
    ),
    "claim": (claim(), NONE),
    "claim, waiting": (claim(9, patience=1_000), NONE),
    "claim nothing, waiting": (claim_nothing, NONE),
    "claim with all maintenance": (later(200, claim()), NONE),
    "claim again": (lambda w: w.queue.claim_call("T", 3), NONE),
    "claim, attributed": (claim(attributed=True), NONE),
    "claim again, attributed": (
        begun("nobody's")(lambda w: w.queue.claim_call("T", 3, attributed=True)),
        NONE,
    ),
    "begin": (begun("l1")(lambda w: _calls.begin(w.keys, "T", ["l2", "l3"])), NONE),
    "begin, not attributed": (lambda w: _calls.begin(w.keys, "T", ["l2"]), NONE),
    "claim the dead": (claim(part="dead"), NONE),
    "claim the dead, late": (later(200, claim(part="dead")), NONE),
    "claim the expired": (claim(part="expired"), NONE),
    "claim, paused": (paused(later(200, claim(patience=1_000))), NONE),
    "claim, few in flight": (under({"max_in_flight": "5"}, claim()), NONE),
    "claim, discarding": (discarding(later(200, claim())), {"l3", "e1"}),
    "claim, to the dead": (to_the_dead(later(200, claim())), NONE),
    "claim the spent": (under({"redelivery": SPENT}, claim_the_spent), NONE),
    "claim the spent, discarding": (
        under({"redelivery": SPENT, "dead_letter": DISCARD}, claim_the_spent),
        {"l1"},
    ),
    "claim what outlived": (claim_what_outlived, NONE),
    "claim what outlived, discarding": (discarding(claim_what_outlived), {"l3", "e1"}),
    "ack": (lambda w: _calls.ack(w.keys, held("T", *T)), set(T)),
    "ack all": (lambda w: _calls.ack_all(w.keys, held("T", *T)), set(T)),
    "ack some": (lambda w: _calls.ack(w.keys, held("T", "l1", "l3")), set(T)),
    "ack the dead": (of_the_dead(lambda w: _calls.ack(w.keys, held("D2", "d1"))), {"d1"}),
    "nack": (lambda w: w.nack("T", *T), NONE),
    "nack without delay": (lambda w: w.nack("T", *T, delay=0), NONE),
    "nack past the ttl": (lambda w: w.nack("T", *T, delay=200_000), NONE),
    "nack past the ttl, discarding": (discarding(lambda w: w.nack("T", *T, delay=200_000)), {"l3"}),
    "nack past the ttl, to the dead": (to_the_dead(lambda w: w.nack("T", *T, delay=200_000)), NONE),
    "nack to death": (lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD), NONE),
    "nack to death, discarding": (discarding(lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD)), set(T)),
    "nack to death, the transient": (
        under({"dead_letter": NOT_THE_TRANSIENT}, lambda w: w.nack("T", *T, policy=AT_ONCE_DEAD)),
        {"l2"},
    ),
    "nack the dead": (of_the_dead(lambda w: w.nack("D2", "d1", "x1")), NONE),
    "poison": (lambda w: w.poisoned("T", *T), NONE),
    "poison, discarding": (discarding(lambda w: w.poisoned("T", *T)), set(T)),
    "poison the transient": (
        under({"dead_letter": NOT_THE_TRANSIENT}, lambda w: w.poisoned("T", *T)),
        {"l2"},
    ),
    "poison the dead": (of_the_dead(lambda w: w.poisoned("D2", "d1")), NONE),
    "release": (lambda w: _calls.release(w.keys, held("T", *T)), NONE),
    "release the dead": (of_the_dead(lambda w: _calls.release(w.keys, held("D2", "d1"))), NONE),
    "extend": (lambda w: _calls.extend(w.keys, held("T", *T), lease=60_000), NONE),
    "sweep": (sweep(), NONE),
    "sweep in parts": (sweep(2), NONE),
    "sweep what one began": (begun("l2")(sweep()), NONE),
    "sweep what one began in parts": (begun("l3")(sweep(2)), NONE),
    "sweep what one began to death, discarding": (
        begun("l1")(discarding(sweep(policy=AT_ONCE_DEAD))),
        {"l1"},
    ),
    "sweep to death, discarding": (discarding(sweep(policy=AT_ONCE_DEAD)), set(T)),
    "sweep the transient": (
        under({"dead_letter": NOT_THE_TRANSIENT}, sweep(policy=AT_ONCE_DEAD)),
        {"l2"},
    ),
    "sweep the dead": (of_the_dead(sweep()), NONE),
    "promote": (later(40, lambda w: _calls.promote(w.keys, limit=10)), NONE),
    "expire": (expire(), NONE),
    "expire, discarding": (discarding(expire()), {"e1"}),
    "expire, to the dead": (to_the_dead(expire()), NONE),
    "expire the transient, to the dead": (
        under({"dead_letter": '{"expired": "dead", "transient": "discard"}'}, expire()),
        NONE,
    ),
    "retire": (retire(), {"d1", "x1", "gone"}),
    "retire in parts": (retire(2), {"d1", "x1", "gone"}),
    "redrive": (redrive("dead"), NONE),
    "redrive by id": (redrive("dead", "x1", "r1"), NONE),
    "redrive the expired": (redrive("expired"), NONE),
    "purge ready": (purge("ready"), {"r1", "r2", "e1"}),
    "purge scheduled": (purge("scheduled"), {"s1", "s2"}),
    "purge dead": (purge("dead"), {"d1", "x1"}),
    "purge by id": (purge("dead", "x1"), {"x1"}),
    "purge expired": (purge("expired"), {"gone"}),
    "dead-letter": (of_the_returned(dead_letter("ready", "r1", "e1", "x1")), NONE),
    "dead-letter the scheduled": (of_the_returned(dead_letter("scheduled", "s1", "l2")), NONE),
    "dead-letter the expired": (dead_letter("expired", "gone"), NONE),
    "dead-letter, discarding": (discarding(dead_letter("ready", "r1", "e1", "s1")), {"r1", "e1"}),
    "expire now": (of_the_returned(expire_now("ready", "r1", "e1", "x1")), NONE),
    "expire now the scheduled": (of_the_returned(expire_now("scheduled", "s1", "l2")), NONE),
    "expire now, discarding": (discarding(expire_now("ready", "r1", "e1", "s1")), {"r1", "e1"}),
    "expire now, to the dead": (to_the_dead(expire_now("ready", "r1", "e1")), NONE),
    "deliver now": (of_the_returned(lambda w: _calls.deliver_now(w.keys, ids=["s1", "s2", "l2"])), NONE),
    "prioritise": (of_the_returned(prioritise("ready", 7, "r1", "e1", "x1", "s1")), NONE),
    "prioritise down": (of_the_returned(prioritise("ready", 0, "r1", "e1", "x1")), NONE),
    "prioritise the scheduled": (of_the_returned(prioritise("scheduled", 7, "s1", "s2", "l2", "r1")), NONE),
    "move": (of_the_returned(transfer("ready", "r1", "r2", "e1", "x1")), both("r1", "e1", "x1")),
    "move the scheduled": (of_the_returned(transfer("scheduled", "s1", "l2")), both("s1", "l2")),
    "move the dead": (transfer("dead", "d1", "x1"), both("d1", "x1")),
    "move the expired": (transfer("expired", "gone"), both("gone")),
    "copy": (of_the_returned(transfer("ready", "r1", "r2", "e1", "x1", keep=True)), there("r1", "e1", "x1")),
    "copy the scheduled": (of_the_returned(transfer("scheduled", "s1", "l2", keep=True)), there("s1", "l2")),
    "copy the dead": (transfer("dead", "d1", keep=True), there("d1")),
    "copy the expired": (transfer("expired", "gone", keep=True), there("gone")),
    "commit": (commit, {"l1", "l2", "n1", "n2", "to/n3", "to/n4"}),
    "commit a job": (staged(commit_job), {"n1", "n2"}),
    "write what is staged": (staged(move_staged), {"n1", "n2"}),
    "drop what is staged": (staged(lambda w: _calls.drop_staged(w.keys, "j", STAGED[0])), NONE),
    "read a claim": (lambda w: claims.read_claim(w.keys, "T", first=0, limit=10), NONE),
    "extend claims": (lambda w: claims.extend_claim(w.keys, ["T", "nobody's"], lease=60_000), NONE),
    "ack a claim": (lambda w: claims.ack_claim(w.keys, "T"), set(T)),
    "ack the rest of a claim": (of_the_returned(lambda w: claims.ack_claim(w.keys, "T")), {"l1", "l3"}),
    "ack a claim of the dead": (of_the_dead(lambda w: claims.ack_claim(w.keys, "D2")), {"d1", "x1"}),
    "divide a claim": (divide(1), NONE),
    "divide the rest of a claim": (of_the_returned(divide(1)), NONE),
    "hand on a claim": (divide(0), NONE),
    "ack an attributed claim": (begun("l1")(lambda w: claims.ack_claim(w.keys, "T")), set(T)),
    "divide an attributed claim": (begun("l2")(divide(1)), NONE),
    "hand on an attributed claim": (begun("l2")(divide(0)), NONE),
    "ack, told": (told(lambda w: _calls.ack(w.keys, held("T", *T))), set(T)),
    "ack all, told": (told(lambda w: _calls.ack_all(w.keys, held("T", *T))), set(T)),
    "nack, told": (told(lambda w: w.nack("T", *T)), NONE),
    "poison, told": (told(lambda w: w.poisoned("T", *T)), NONE),
    "release, told": (told(lambda w: _calls.release(w.keys, held("T", *T))), NONE),
    "sweep, told": (told(sweep()), NONE),
    "redrive, told": (told(redrive("dead")), NONE),
    "begin a batch": (lambda w: claims.begin_batch(w.keys, "s", batch=1, run="a"), NONE),
    "note a batch": (lambda w: claims.note_done(w.keys, "s", 1), NONE),
    "pause": (lambda w: _calls.pause(w.keys, paused=True), NONE),
    "resume": (paused(lambda w: _calls.pause(w.keys, paused=False)), NONE),
    "reset": (lambda w: _calls.reset(w.keys), NONE),
    "browse": (lambda w: _calls.browse(w.keys, place="ready", limit=10), NONE),
    "scan": (scan("ready"), NONE),
    "scan the dead": (scan("dead"), NONE),
    "stats": (lambda w: _calls.stats(w.keys, "q"), NONE),
    "configure": (lambda w: w.queue.configure_call(), NONE),
    "configure anew": (
        under({"expiry": "never"}, lambda w: w.queue.configure_call({"max_in_flight": "9"})),
        NONE,
    ),
    "set a policy": (set_policy(b"{}", b'{"max_in_flight": 1}'), NONE),
    "remove a policy": (set_policy(b"", b"{}"), NONE),
}


def moved_in_part(seen: Counter[str], message_id: str) -> bool:
    """Whether a message that was to be moved is in both queues; it is never in neither."""
    places = (message_id in seen) + (f"to/{message_id}" in seen)
    assert places, f"{message_id} is in neither queue"
    return places > 1


def committed_in_part(seen: Counter[str]) -> bool:
    """Whether some of what a session did is done, but not all; what it acked is gone only with all sent."""
    sent = [name in seen for name in ("n1", "n2", "to/n3", "to/n4")]
    kept = [name in seen for name in ("l1", "l2")]
    assert all(sent) or all(kept), "acked, though not all was sent"
    return any(sent) and not (all(sent) and not any(kept))
