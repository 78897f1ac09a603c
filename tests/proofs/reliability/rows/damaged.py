"""T23: whatever a stranger has written over a queue's keys, no verb stumbles, and the queue goes on."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import redis

import rq_dlq
from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.call import Call
from rq_dlq.errors import RqDlqError, UnfitMessage
from tests import servers
from tests.behaviour.helpers import AT_ONCE
from tests.behaviour.stepping import alone
from tests.conftest import MOVED_CLOCK, Clock
from tests.model.calls import scanned
from tests.model.driver import packed
from tests.proofs.reliability.damage import Damage, damages
from tests.proofs.reliability.row import Figures, Row, Run

DAMAGED, SOUND = "m", "n"
SHARE = 500  # trials of one task
WAITING, LEASED, DEAD = ("ready", "scheduled"), ("leased",), ("dead", "expired")
EVERYWHERE = (*WAITING, *LEASED, *DEAD)
TOLD = (
    "body", "headers", "priority", "enqueued_at", "expires_at", "delivery_count", "charged", "nacked",
    "lapsed", "released", "redriven", "history", "reason", "died_at", "cause", "data", "part", "due",
    "fingerprint",
)  # fmt: skip
REASONS = {"exhausted", "poison", "unprocessable", "expired"}


@dataclass
class Shop:
    """Two queues on an empty server; in the one a message to be damaged, and one that stays sound."""

    raw: Any
    broker: rq_dlq.Broker
    clock: Clock
    held: list[Any] = field(default_factory=list)
    came: Counter[str] = field(default_factory=Counter)
    reasons: set[str] = field(default_factory=set)

    def open(self, place: str) -> None:
        """Begin anew, with both messages at this place."""
        self.raw.flushall()
        self.clock.set(1_790_000_000_000)
        self.came.clear()
        self.reasons.clear()
        self.queue = self.broker.queue("a", redelivery=AT_ONCE)
        self.other = self.broker.queue("b", redelivery=AT_ONCE)
        self.keys = QueueKeys("rq", "a").by_name
        self.other.send("there", id="o")
        for name in (DAMAGED, SOUND):
            delay, ttl = {"scheduled": "1h"}.get(place), {"expired": "1s"}.get(place)
            self.queue.send("x", id=name, headers={"a": "b"}, delay=delay, ttl=ttl)
        if place == "expired":
            self.clock.advance("1s")
        self.held = [
            delivery for _ in range(2) for delivery in self.queue.claim()
        ]  # each under its own claim
        if place == "ready":
            self.queue.release(self.held)
        elif place == "dead":
            self.queue.poison(self.held, "told so")
        self.token = self.held[0].token if self.held else ""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What is held, as the calls take it."""
        return [delivery._held for delivery in self.held]

    def run(self, call: Call[Any]) -> Any:
        """Run a call."""
        return self.broker._run(alone(call))

    def drain(self) -> None:
        """Take all there is, wherever it is, and note what came: whatever else there is hangs about."""
        for _ in range(4):
            self.clock.advance("9d")
            for queue in (self.queue, self.other):
                queue.maintain()
                self.take(queue)
        for queue in (self.queue, self.other):
            for graves in (queue.dlq, queue.expired):
                letters = graves.browse()
                look_at(letters)
                self.reasons.update(letter.reason for letter in letters)
                self.came.update(letter.id for letter in letters)
                graves.purge(all=True)

    def take(self, queue: Any) -> None:
        for _ in range(10):
            deliveries = queue.claim(10)
            if not deliveries:
                return
            look_at(deliveries)
            self.came.update(delivery.id for delivery in deliveries)
            queue.ack(deliveries)


def look_at(messages: Iterable[Any]) -> None:
    """Read everything that a message tells."""
    for message in messages:
        for name in TOLD:
            with contextlib.suppress(RqDlqError):
                getattr(message, name, None)


def _look(shop: Shop) -> None:
    places: Any = ["ready", "scheduled", "leased", "dead", "expired"]
    look_at(shop.queue.select(places=places).browse())
    look_at(chain(shop.queue.peek(), shop.queue.dlq.browse(), shop.queue.expired.browse()))
    shop.queue.select("body = 1 or headers.a = 'b' or delivery_count > 2", places=places).count()
    shop.queue.dlq.groups()
    shop.queue.stats()
    shop.queue.explain(DAMAGED)


def _lapse(shop: Shop) -> None:
    shop.clock.advance("1h")
    shop.queue.maintain()


def _commit(shop: Shop) -> None:
    sent = session_calls.Outgoing(0, 0, packed(("new", 4)))
    keys = shop.queue._core.keys
    sender = shop.queue._core.client.senders.lend(keys)
    shop.run(session_calls.commit(sender, [session_calls.Share(keys, shop.pairs, [sent])]))


def _extend_claim(shop: Shop) -> None:
    shop.run(batch_calls.extend_claim(shop.queue._core.keys, [shop.token], lease=60_000))


def _divide_claim(shop: Shop) -> None:
    shop.run(batch_calls.divide_claim(shop.queue._core.keys, shop.token, to=f"{shop.token}2", keep=0))


def _pass_on(shop: Shop) -> None:
    queue, held = shop.queue._core, [one._held for one in shop.held]
    shop.broker._run(settle.pass_on(queue, held, UnfitMessage("unfit"), mark="", takers=()))


def _read_claim(shop: Shop) -> None:
    held = shop.broker._run(batches.read_claim(shop.queue._core.keys, shop.token, 0, 9))
    for one in shop.held[:1]:
        look_at(shop.queue._deliveries(held.rows(), one._lease))


def _scan(shop: Shop) -> None:
    for index in ("ready", "scheduled", "dead", "expired"):
        shop.run(scanned(shop.queue._core.keys, index))


def _limit(shop: Shop) -> None:
    with contextlib.suppress(redis.ResponseError):  # the settings may be of a wrong type
        shop.raw.hset(shop.keys["settings"], mapping={"per_key": "limit 2", "gated": "plain"})
    for limit in (8, None):
        shop.run(managing_calls.limit_lane(shop.queue._core.keys, "k", limit))


def _edited(shop: Shop) -> None:
    for letters in (shop.queue.dlq, shop.queue.expired):
        letters.redrive(all=True, edit=lambda body: {"was": body})


VERBS: dict[str, tuple[tuple[str, ...], Callable[[Shop], object]]] = {
    "look": (EVERYWHERE, _look),
    "maintain": (EVERYWHERE, _lapse),
    "claim": (EVERYWHERE, lambda shop: shop.queue.claim(10)),
    "send": (EVERYWHERE, lambda shop: shop.queue.send("y", id=DAMAGED)),
    "claim the dead": (DEAD, lambda shop: [shop.broker.queue(name).claim(9) for name in ("DLQ.a", "EXP.a")]),
    "ack": (LEASED, lambda shop: shop.queue.ack(shop.held)),
    "nack": (LEASED, lambda shop: shop.queue.nack(shop.held, error="boom")),
    "poison": (LEASED, lambda shop: shop.queue.poison(shop.held, "bad")),
    "release": (LEASED, lambda shop: shop.queue.release(shop.held)),
    "pass_on": (LEASED, _pass_on),
    "progress": (LEASED, lambda shop: [held.progress(0.5) for held in shop.held]),
    "extend": (LEASED, lambda shop: [held.extend() for held in shop.held]),
    "ack_all": (LEASED, lambda shop: shop.run(session_calls.ack_all(shop.queue._core.keys, shop.pairs))),
    "commit": (LEASED, _commit),
    "extend_claim": (LEASED, _extend_claim),
    "ack_claim": (
        LEASED,
        lambda shop: shop.broker._run(batches.ack_batch(shop.queue._core.keys, [shop.token])),
    ),
    "divide_claim": (LEASED, _divide_claim),
    "read_claim": (LEASED, _read_claim),
    "scan": (EVERYWHERE, _scan),
    "pause": (EVERYWHERE, lambda shop: (shop.queue.pause(), shop.queue.resume())),
    "pause_lane": (EVERYWHERE, lambda shop: (shop.queue.key("k").pause(), shop.queue.key("k").resume())),
    "probe_lane": (EVERYWHERE, lambda shop: shop.queue.dependency("payments").probe()),
    "limit_lane": (EVERYWHERE, _limit),
    "reset": (EVERYWHERE, lambda shop: shop.queue.reset()),
    "redrive": (
        DEAD,
        lambda shop: (
            shop.queue.dlq.select(all=True).redrive(),
            shop.queue.expired.select(all=True).redrive(),
        ),
    ),
    "redrive, edited": (DEAD, _edited),
    "redrive, undone": (
        DEAD,
        lambda shop: (
            shop.queue.dlq.redrive(all=True).undo(),
            shop.queue.expired.redrive(all=True).undo(),
        ),
    ),
    "purge": (DEAD, lambda shop: (shop.queue.dlq.purge(all=True), shop.queue.expired.purge(all=True))),
    "cancel": ((*WAITING, *LEASED), lambda shop: shop.queue.cancel(DAMAGED)),
    "dead_letter": ((*WAITING, "expired"), lambda shop: _chosen(shop).dead_letter()),
    "expire": (WAITING, lambda shop: _chosen(shop).expire()),
    "deliver_now": (WAITING, lambda shop: _chosen(shop).deliver_now()),
    "prioritize": (WAITING, lambda shop: _chosen(shop).prioritize(7)),
    "move": ((*WAITING, *DEAD), lambda shop: _chosen(shop).move(shop.other)),
    "copy": ((*WAITING, *DEAD), lambda shop: _chosen(shop).copy(shop.other)),
    "remove": ((*WAITING, *DEAD), lambda shop: _chosen(shop).purge()),
}  # fmt: skip
TRIALS = [(verb, place) for verb, (places, _) in VERBS.items() for place in places]
WITHOUT = {
    "renumber": "it changes only queues of 0.1.0",
    **dict.fromkeys(("commit_job", "drop_staged"), "it reads only what a job staged"),
    **dict.fromkeys(
        ("send_limited", "resend", "move_staged", "schedule", "restore"), "it adds messages as send does"
    ),
    **dict.fromkeys(("begin_batch", "note_batch"), "it reads only what is noted of a query"),
    "set_policy": "it reads only the map of policies",
    "mute": "it reads only the rows of groups",
    **dict.fromkeys(
        ("open_gather", "send_children", "close_gather", "carry_gather", "cancel_gather"),
        "it reads the rows of gathers, and sends, makes due and cancels as other verbs do",
    ),
    "result": "it reads only what is kept of messages that are gone",
    "steer_redrive": "it reads only the record of a redrive",
    "delete": "it counts, then removes whole keys, whatever they hold",
}
"""The verbs that are not tried, and why."""
REMOVES = {"ack", "ack_all", "ack_claim", "cancel", "commit", "purge", "remove"}


def _chosen(shop: Shop) -> Any:
    places: Any = ["ready", "scheduled", "dead", "expired"]
    return shop.queue.select(places=places)


def tried(shop: Shop, damage: Damage, verb: str, place: str) -> str:
    """What was wrong in one trial; empty: nothing."""
    shop.open(place)
    if not damage.do(shop.raw, shop.keys, DAMAGED, shop.token):
        return ""
    refused = False
    try:
        try:
            VERBS[verb][1](shop)
        except RqDlqError:
            refused = True
        damage.undo(shop.raw, shop.keys)
        shop.drain()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return f"{type(error).__name__}: {error}"
    return _missing(shop, damage, verb, refused=refused)


def _missing(shop: Shop, damage: Damage, verb: str, *, refused: bool) -> str:
    most = 2 if verb == "copy" else 1
    least = 0 if verb in REMOVES else 1  # also where it was refused half-way
    if not least <= shop.came[SOUND] <= most:
        return f"the sound message came {shop.came[SOUND]} times"
    gone = verb in REMOVES or (verb == "claim" and not refused)
    if damage.field == "claim" and shop.came[DAMAGED] == 0:
        # The list is all that leads from a lease to its messages; who holds one can still settle it.
        return "" if gone or shop.queue.ack(shop.held[:1])[0] else "its holder cannot ack it"
    if shop.came[DAMAGED] == 0 and not gone:
        return "the damaged message is lost"
    if damage.field != "state" and not shop.reasons <= REASONS:  # a state is where the reason stands
        return f"dead of {shop.reasons}"
    stats = shop.queue.stats()
    left = {state: n for state in EVERYWHERE if (n := getattr(stats, state))}
    return f"left behind: {left}" if left else ""


Trials: TypeAlias = list[tuple[Damage, str, str]]


def try_all(trials: Trials) -> list[str]:
    """On a server of its own: what was wrong."""
    wrong: list[str] = []
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        rq_dlq.Broker(f"unix://{path}", verbs=MOVED_CLOCK) as broker,
    ):
        shop = Shop(raw, broker, Clock(raw))
        for damage, verb, place in trials:
            if found := tried(shop, damage, verb, place):
                wrong.append(f"{damage}, {verb} of what is {place}: {found}")
    return wrong


def run(run: Run) -> Figures:
    """Each damage with each verb at each place."""
    rows = damages()
    trials = [
        (damage, *trial)
        for damage in rows
        for trial in run.pick(short=run.random.sample(TRIALS, 1), whole=TRIALS)
    ]
    shares = [(trials[at : at + SHARE],) for at in range(0, len(trials), SHARE)]
    wrong = list(chain.from_iterable(run.in_processes(try_all, shares)))
    note = f"{len(rows)} damages" + "".join(f"; {each}" for each in wrong[:1])
    for each in wrong:
        run.progress.console.print(each, markup=False)
    lost = sum("lost" in each for each in wrong)
    return Figures(trials=len(trials), lost=lost, met=not wrong, note=note)


ROWS = (
    Row(
        "T23",
        "records, states, claims, keys of a wrong type, written raw into Redis x each verb",
        "200 of 200: dead letter with a reason or readable, the queue goes on",
        run,
    ),
)
