"""Every verb: what there is to try of it, its call, and what it may do to messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rq_dlq import _calls
from rq_dlq._calls import Call, claims, scans
from rq_dlq.policy import RedeliveryPolicy
from tests.model.driver import Driver, packed
from tests.model.interleavings import actions
from tests.model.interleavings.actions import (
    ALL,
    FRESH,
    GRAVES,
    NEW,
    NOBODY,
    PLACES,
    Choices,
    Items,
    always,
    by_holders,
    by_nobody,
    each_at,
    none_at,
    nothing,
    tokens,
)  # fmt: skip
from tests.model.interleavings.reduced import TICK
from tests.model.interleavings.world import WAITING, Queue
from tests.model.world import CAUSE

POLICY = RedeliveryPolicy(initial_delay=TICK / 1_000, multiplier=1, collision_avoidance=0, max_redeliveries=1)


def moves(text: str) -> frozenset[str]:
    """From where to where; "-": it is not there."""
    return frozenset(text.split(", ")) if text else frozenset()


LAPSES = "leased scheduled, leased dead, leased expired, leased ready"
EXPIRES = "ready expired, scheduled expired"
TAKES = "ready leased, scheduled leased, leased leased"


@dataclass(frozen=True, kw_only=True)
class Verb:
    """What can be done.

    Attributes:
        call: what does it, with the arguments.
        choices: the arguments to try in a world.
        refused: those that must change nothing.
        moves: what it may do to messages.
        put: the world in which it is done, where that depends on the arguments.
        again: its reply may be lost, and it is done again (I12).
    """

    call: Callable[..., Call[Any]]
    choices: Choices = nothing
    refused: Choices = nothing
    moves: frozenset[str] = frozenset()
    put: Callable[..., Queue] | None = None
    again: bool = True


def verbs(queue: Driver, most: int) -> dict[str, Verb]:
    """All of them, by their names, for at most so many messages at a time."""
    return {
        **delivery(queue, most), **settling(queue, most), **whole_claims(queue), **upkeep(queue),
        **operators(queue), **reading(queue),
    }  # fmt: skip


def delivery(queue: Driver, most: int) -> dict[str, Verb]:
    """Sent and claimed."""

    def claim(counts: tuple[int, ...], takes: str = TAKES, **options: Any) -> Verb:
        return Verb(
            call=lambda token, count: queue.claim_call(token, count, lease=TICK, **options),
            choices=always(*((FRESH, count) for count in counts)),
            moves=moves(f"{takes}, {LAPSES}, scheduled ready, {EXPIRES}"),
            put=actions.woken if takes == TAKES else None,
        )

    def send(to: str, delay: int = 0) -> Verb:
        return Verb(
            call=lambda names: queue.send_call(*((name, 4) for name in names), delay=delay),
            choices=actions.a_new_one(most),
            refused=actions.all_known,
            moves=moves(f"- {to}"),
        )

    return {
        "send": send("ready"),
        "send later": send("scheduled", delay=TICK),
        "claim": claim((1, 2)),
        "claim three": claim((3,)),
        "claim, attributed": claim((3,), attributed=True),
        "claim the dead": claim((1,), "dead leased, leased leased", part="dead"),
        "claim again": Verb(
            call=lambda token: queue.claim_call(token, 1, lease=TICK), choices=tokens, again=False
        ),
    }


def settling(queue: Driver, most: int) -> dict[str, Verb]:
    """By who holds a message, and by who does not."""
    keys = queue.keys

    def settle(call: Callable[[Items], Call[Any]], *to: str) -> Verb:
        return Verb(
            call=call,
            choices=by_holders,
            refused=by_nobody,
            moves=frozenset(f"leased {place}" for place in to),
        )

    def nack(delay: int | None) -> Callable[[Items], Call[Any]]:
        return lambda items: _calls.nack(
            keys, items, delay=delay, charge=True, cause=CAUSE, consumer='"c"', seed=0.5,
            default_policy=queue.wire,
        )  # fmt: skip

    def poison(items: Items) -> Call[Any]:
        return _calls.poison(keys, items, reason="poison", cause=CAUSE, consumer='"c"')

    def commit(items: Items, names: tuple[str, ...]) -> Call[Any]:
        groups = [_calls.Outgoing(0, 0, packed((name, 4))) for name in names]
        return _calls.commit([_calls.Share(keys, items, groups)], "c")

    return {
        "commit": Verb(
            call=commit,
            choices=actions.committed(most),
            refused=lambda queue: ((items, (NEW,)) for (items,) in by_nobody(queue)),
            moves=moves("leased -, - ready"),
        ),
        "ack": settle(lambda items: _calls.ack(keys, items), "-"),
        "ack all": settle(lambda items: _calls.ack_all(keys, items), "-"),
        "nack": settle(nack(None), "scheduled", *GRAVES),
        "nack at once": settle(nack(0), "ready", *GRAVES),
        "poison": settle(poison, *GRAVES),
        "release": settle(lambda items: _calls.release(keys, items), "ready", *GRAVES),
        "extend": settle(lambda items: _calls.extend(keys, items, lease=TICK)),
    }


def whole_claims(queue: Driver) -> dict[str, Verb]:
    """By their tokens."""
    keys = queue.keys
    return {
        "begin": Verb(
            call=lambda token, ids: _calls.begin(keys, token, ids),
            choices=actions.begun,
            refused=always((NOBODY, ("m0",))),
        ),
        "ack a claim": Verb(
            call=lambda token: claims.ack_claim(keys, token),
            choices=tokens,
            refused=always((NOBODY,)),
            moves=moves("leased -"),
        ),
        "extend a claim": Verb(
            call=lambda token: claims.extend_claim(keys, [token], lease=TICK),
            choices=tokens,
            refused=always((NOBODY,)),
        ),
        "divide a claim": Verb(
            call=lambda token, to, keep: claims.divide_claim(keys, token, to=to, keep=keep),
            choices=actions.divided,
            refused=actions.divided_before,
            moves=moves("leased leased"),
        ),
    }


def upkeep(queue: Driver) -> dict[str, Verb]:
    """What maintenance does, a message at a time, or all."""
    keys, one = queue.keys, always((1,))

    def sweep(limit: int, first: str) -> Call[Any]:
        del first
        return _calls.sweep(keys, limit=limit, seed=0.5, default_policy=queue.wire)

    def step(call: Callable[..., Call[Any]], does: str) -> Verb:
        return Verb(call=lambda limit: call(keys, limit=limit), choices=one, moves=moves(does), again=False)

    return {
        "sweep": Verb(
            call=sweep, choices=actions.swept, moves=moves(LAPSES), put=actions.sweep_first, again=False
        ),
        "promote": step(_calls.promote, "scheduled ready"),
        "expire": step(_calls.expire, EXPIRES),
        "retire": step(_calls.retire, "dead -, expired -"),
    }


def operators(queue: Driver) -> dict[str, Verb]:
    """By hand."""
    keys = queue.keys

    def redrive(place: Any, ids: tuple[str, ...], limit: int = 0) -> Call[Any]:
        return _calls.redrive(keys, part=place, by='"op"', ids=ids, limit=limit)

    def dead_letter(place: Any, ids: tuple[str, ...]) -> Call[Any]:
        return _calls.dead_letter(keys, place=place, ids=ids, by='"op"', cause=CAUSE)

    def prioritise(place: Any, ids: tuple[str, ...], priority: int) -> Call[Any]:
        return _calls.prioritise(keys, place=place, ids=ids, priority=priority)

    def by_hand(call: Callable[..., Call[Any]], *places: str, to: str) -> Verb:
        return Verb(
            call=call,
            choices=each_at(*places),
            refused=none_at(*places),
            moves=frozenset(f"{place} {to}" for place in places),
        )

    return {
        "redrive": by_hand(redrive, *GRAVES, to="ready"),
        "redrive the oldest": Verb(
            call=redrive, choices=always(("dead", (), 1)), moves=moves("dead ready"), again=False
        ),
        "purge": by_hand(lambda place, ids: _calls.purge(keys, place=place, ids=ids), *PLACES, to="-"),
        "dead-letter": by_hand(dead_letter, *WAITING, "expired", to="dead"),
        "expire now": by_hand(
            lambda place, ids: _calls.expire_now(keys, place=place, ids=ids), *WAITING, to="expired"
        ),
        "deliver now": by_hand(lambda _, ids: _calls.deliver_now(keys, ids=ids), "scheduled", to="ready"),
        "prioritise": Verb(
            call=prioritise,
            choices=each_at(*WAITING, more=((9,), (4,))),
            refused=none_at(*WAITING, more=(9,)),
            moves=moves("ready ready, scheduled scheduled"),
        ),
        "pause": Verb(
            call=lambda paused: _calls.pause(keys, paused=paused), choices=always((True,), (False,))
        ),
        "reset": Verb(call=lambda: _calls.reset(keys), choices=always(())),
    }


def reading(queue: Driver) -> dict[str, Verb]:
    """What touches nothing."""
    keys = queue.keys

    def scan(index: Any) -> Call[Any]:
        wanted = scans.Wanted()
        return scans.scan(keys, index, after=scans.START, upto=scans.END, limit=ALL, wanted=wanted)

    return {
        "read a claim": Verb(
            call=lambda token: claims.read_claim(keys, token, first=0, limit=ALL), refused=tokens
        ),
        "browse": Verb(
            call=lambda place: _calls.browse(keys, place=place, limit=ALL),
            refused=always(("ready",), ("leased",), ("dead",)),
        ),
        "stats": Verb(call=lambda: _calls.stats(keys, "q"), refused=always(())),
        "scan": Verb(call=scan, refused=always(("ready",), ("dead",))),
    }
