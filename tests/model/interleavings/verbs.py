"""Each variant of a verb: what there is to try of it, its call, and what it may do to messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.wanted import ALL as WHOLE
from tests.model.driver import CAUSE, Driver, packed
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
from tests.verbs import VERBS, Again

POLICY = RedeliveryPolicy(initial_delay=TICK / 1_000, multiplier=1, collision_avoidance=0, max_redeliveries=1)


def moves(text: str) -> frozenset[str]:
    """From where to where; "-": it is not there."""
    return frozenset(text.split(", ")) if text else frozenset()


LAPSES = "leased scheduled, leased dead, leased expired, leased ready"
EXPIRES = "ready expired, scheduled expired"
TAKES = "ready leased, scheduled leased, leased leased"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A verb, in one way to call it.

    Attributes:
        of: the verb.
        call: what does it, with the arguments.
        choices: the arguments to try in a world.
        refused: those that must change nothing.
        moves: what it may do to messages.
        put: the world in which it is done, where that depends on the arguments.
        once: it is not repeated: it is a repetition itself, or takes what comes next.
    """

    of: str
    call: Callable[..., Call[Any]]
    choices: Choices = nothing
    refused: Choices = nothing
    moves: frozenset[str] = frozenset()
    put: Callable[..., Queue] | None = None
    once: bool = False

    @property
    def again(self) -> Again:
        """What comes of a repetition; GOES_ON: nothing that could be told beforehand."""
        return Again.GOES_ON if self.once else VERBS[self.of].again


def verbs(queue: Driver, most: int) -> dict[str, Variant]:
    """All of them, by their names, for at most so many messages at a time."""
    return {
        **delivery(queue, most), **settling(queue, most), **whole_claims(queue), **upkeep(queue),
        **operators(queue), **reading(queue),
    }  # fmt: skip


def delivery(queue: Driver, most: int) -> dict[str, Variant]:
    """Sent and claimed."""

    def claim(counts: tuple[int, ...], takes: str = TAKES, **options: Any) -> Variant:
        return Variant(
            of="claim",
            call=lambda token, count: queue.claim_call(token, count, lease=TICK, **options),
            choices=always(*((FRESH, count) for count in counts)),
            moves=moves(f"{takes}, {LAPSES}, scheduled ready, {EXPIRES}"),
            put=actions.woken if takes == TAKES else None,
        )

    def send(to: str, delay: int = 0) -> Variant:
        return Variant(
            of="send",
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
        "claim as a worker": claim((1, 3), suspects="alone"),
        "claim past suspects": claim((1, 3), suspects="none"),
        "claim the dead": claim((1,), "dead leased, leased leased", part="dead"),
        "claim again": Variant(
            of="claim", call=lambda token: queue.claim_call(token, 1, lease=TICK), choices=tokens, once=True
        ),
    }


def settling(queue: Driver, most: int) -> dict[str, Variant]:
    """By who holds a message, and by who does not."""
    keys = queue.keys

    def settle(of: str, call: Callable[[Items], Call[Any]], *to: str) -> Variant:
        return Variant(
            of=of,
            call=call,
            choices=by_holders,
            refused=by_nobody,
            moves=frozenset(f"leased {place}" for place in to),
        )

    def nack(delay: int | None) -> Callable[[Items], Call[Any]]:
        return lambda items: settling_calls.nack(
            keys, items, delay=delay, charge=True, cause=CAUSE, consumer='"c"', seed=0.5,
            default_policy=queue.wire,
        )  # fmt: skip

    def commit(items: Items, names: tuple[str, ...]) -> Call[Any]:
        groups = [session_calls.Outgoing(0, 0, packed((name, 4))) for name in names]
        return session_calls.commit(queue.sender(), [session_calls.Share(keys, items, groups)])

    return {
        "commit": Variant(
            of="commit",
            call=commit,
            choices=actions.committed(most),
            refused=lambda queue: ((items, (NEW,)) for (items,) in by_nobody(queue)),
            moves=moves("leased -, - ready"),
        ),
        "ack": settle("ack", lambda items: settling_calls.ack(keys, items), "-"),
        "ack all": settle("ack_all", lambda items: session_calls.ack_all(keys, items), "-"),
        "nack": settle("nack", nack(None), "scheduled", *GRAVES),
        "nack at once": settle("nack", nack(0), "ready", *GRAVES),
        "poison": settle("poison", queue.poison_call, *GRAVES),
        "release": settle("release", lambda items: settling_calls.release(keys, items), "ready", *GRAVES),
        "extend": settle("extend", lambda items: settling_calls.extend(keys, items, lease=TICK)),
    }


def whole_claims(queue: Driver) -> dict[str, Variant]:
    """By their tokens."""
    keys = queue.keys
    return {
        "ack a claim": Variant(
            of="ack_claim",
            call=lambda token: batch_calls.ack_claim(keys, token),
            choices=tokens,
            refused=always((NOBODY,)),
            moves=moves("leased -"),
        ),
        "extend a claim": Variant(
            of="extend_claim",
            call=lambda token: batch_calls.extend_claim(keys, [token], lease=TICK),
            choices=tokens,
            refused=always((NOBODY,)),
        ),
        "divide a claim": Variant(
            of="divide_claim",
            call=lambda token, to, keep: batch_calls.divide_claim(keys, token, to=to, keep=keep),
            choices=actions.divided,
            refused=actions.divided_before,
            moves=moves("leased leased"),
        ),
    }


def upkeep(queue: Driver) -> dict[str, Variant]:
    """What maintenance does, a message at a time, or all."""
    keys, one = queue.keys, always((1,))

    def sweep(limit: int, first: str) -> Call[Any]:
        del first
        return upkeep_calls.sweep(keys, limit=limit, seed=0.5, default_policy=queue.wire)

    def step(of: str, call: Callable[..., Call[Any]], does: str) -> Variant:
        return Variant(of=of, call=lambda limit: call(keys, limit=limit), choices=one, moves=moves(does))

    return {
        "sweep": Variant(
            of="sweep", call=sweep, choices=actions.swept, moves=moves(LAPSES), put=actions.sweep_first
        ),
        "promote": step("promote", upkeep_calls.promote, "scheduled ready"),
        "expire": step("expire", upkeep_calls.expire, EXPIRES),
        "retire": step("retire", upkeep_calls.retire, "dead -, expired -"),
    }


def operators(queue: Driver) -> dict[str, Variant]:
    """By hand."""
    keys = queue.keys

    def redrive(place: Any, ids: tuple[str, ...], limit: int = 0) -> Call[Any]:
        return choosing_calls.redrive(queue.sender(), place=place, by='"op"', ids=ids, limit=limit)

    def dead_letter(place: Any, ids: tuple[str, ...]) -> Call[Any]:
        return choosing_calls.dead_letter(queue.sender(), place=place, ids=ids, by='"op"', cause=CAUSE)

    def prioritize(place: Any, ids: tuple[str, ...], priority: int) -> Call[Any]:
        return choosing_calls.prioritize(queue.sender(), place=place, ids=ids, priority=priority)

    def by_hand(of: str, call: Callable[..., Call[Any]], *places: str, to: str) -> Variant:
        return Variant(
            of=of,
            call=call,
            choices=each_at(*places),
            refused=none_at(*places),
            moves=frozenset(f"{place} {to}" for place in places),
        )

    return {
        "redrive": by_hand("redrive", redrive, *GRAVES, to="ready"),
        "redrive the oldest": Variant(
            of="redrive", call=redrive, choices=always(("dead", (), 1)), moves=moves("dead ready"), once=True
        ),
        "purge": by_hand(
            "purge",
            lambda place, ids: choosing_calls.purge(queue.sender(), place=place, ids=ids),
            *PLACES,
            to="-",
        ),
        "dead-letter": by_hand("dead_letter", dead_letter, *WAITING, "expired", to="dead"),
        "expire now": by_hand(
            "expire_now",
            lambda place, ids: choosing_calls.expire_now(queue.sender(), place=place, ids=ids),
            *WAITING,
            to="expired",
        ),
        "deliver now": by_hand(
            "deliver_now",
            lambda _, ids: choosing_calls.deliver_now(queue.sender(), ids=ids),
            "scheduled",
            to="ready",
        ),
        "prioritize": Variant(
            of="prioritize",
            call=prioritize,
            choices=each_at(*WAITING, more=((9,), (4,))),
            refused=none_at(*WAITING, more=(9,)),
            moves=moves("ready ready, scheduled scheduled"),
        ),
        "pause": Variant(
            of="pause",
            call=lambda paused: managing_calls.pause(keys, paused=paused),
            choices=always((True,), (False,)),
        ),
        "reset": Variant(of="reset", call=lambda: managing_calls.reset(keys), choices=always(())),
    }


def reading(queue: Driver) -> dict[str, Variant]:
    """What touches nothing."""
    keys = queue.keys

    def scan(index: Any) -> Call[Any]:
        return page_calls.scan(
            keys, index, after=page_calls.START, upto=page_calls.END, limit=ALL, wanted=WHOLE
        )

    return {
        "browse": Variant(
            of="browse",
            call=lambda place: page_calls.browse(keys, place=place, ids=["m1", "m2"]),
            refused=always(("ready",), ("leased",), ("dead",)),
        ),
        "stats": Variant(of="stats", call=lambda: queue_calls.stats(keys, "q"), refused=always(())),
        "scan": Variant(of="scan", call=scan, refused=always(("ready",), ("dead",))),
    }
