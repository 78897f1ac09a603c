"""All that each role does with the queues of `rights`, a verb each; for T20."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import rq_dlq
from rq_dlq import RedeliveryPolicy, SharedDeadLetterStrategy
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.gathers import carrying
from rq_dlq.core.jobs import jobs
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.keyed import outages as keyed_outages
from rq_dlq.core.looking import calls as looking_calls
from rq_dlq.core.looking import outcomes
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages import ranges
from rq_dlq.core.processes import processes
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.core.queues import counts
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.sending.restore import restore
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.settling import settle
from rq_dlq.core.upkeep import rounds
from rq_dlq.core.upkeep.rounds import MaintainedNamespace
from rq_dlq.core.upkeep.upkeep import ROLES
from rq_dlq.core.upkeep.watched import MaintainedQueue
from rq_dlq.errors import UnfitMessage
from rq_dlq.values.message import MessageRow
from rq_dlq.values.process import ProcessReport
from rq_dlq.values.wanted import ALL
from tests.proofs.reliability.rights import (
    BATCH,
    BILLS,
    BLOCKED,
    BURIED,
    FORMERLY,
    JOB,
    KEY,
    LONG,
    NAMESPACE,
    ORDERS,
    World,
    one,
    orders_of,
    staged,
)


@dataclass(frozen=True)
class Hands:
    """A user at work, in a process that has just begun."""

    world: World
    broker: rq_dlq.Broker

    @property
    def orders(self) -> rq_dlq.Queue[Any]:
        """The first queue."""
        return orders_of(self.broker)

    @property
    def bills(self) -> rq_dlq.Queue[Any]:
        """The other one."""
        return self.broker.queue(BILLS)

    @property
    def keys(self) -> Any:
        """Of the first queue."""
        return self.orders._core.keys

    @property
    def tokens(self) -> list[str]:
        """Of a batch that was claimed before."""
        return batches.tokens_at(f"{BATCH}*1", ORDERS)

    def run(self, steps: Any) -> Any:
        """Run steps, or a single call."""
        return self.broker._run(steps if hasattr(steps, "send") else one(steps))

    def settle(self, verb: Callable[..., Any], *args: Any) -> int:
        """Settle what is held."""
        return len(self.run(verb(self.orders._core, self.world.held, *args)))

    def session(self, *, claim: int, send: bool) -> list[Any]:
        """A session; what it claimed."""
        with self.orders.session() as session:
            found = [delivery.body for delivery in session.claim(claim)] if claim else []
            if send:
                session.send(self.bills, "bill", delay=LONG)
        return found

    def commit(self) -> bool:
        """Commit a job in two queues."""
        return bool(self.run(jobs.commit([self.orders._core, self.bills._core], JOB, self.world.staged)))

    def commit_again(self) -> bool:
        """Commit one that is committed."""
        return bool(self.run(jobs.commit([self.orders._core], "moving", {ORDERS: {self.world.moving: 2}})))

    def upkeep(self) -> Counter[str]:
        """What a worker does beside its handlers."""
        done: Counter[str] = Counter()
        with _Refusals():
            due = self.run(rounds.look([MaintainedQueue(self.keys)]))
            self.run(rounds.work_off(due.work, done))
        return done

    def round(self) -> Counter[str]:
        """A round of the maintenance process."""
        watch = MaintainedNamespace(NAMESPACE, ROLES)
        with _Refusals():
            self.run(rounds.one_round(watch, bool))
        return watch.done

    def scan(self) -> int:
        """Read in ranges."""
        keys = self.keys
        stretches = [ranges.Stretch(keys, "ready"), ranges.Stretch(keys, "dead", 1)]
        parts = [part for share in self.run(ranges.divide(stretches, 2)) for part in share]
        pages = (page for part in parts for page in ranges.pages(part, limit=9, wanted=ALL))
        return sum(len(self.run(page).ids) for page in pages)


class _Refusals(logging.Handler):
    """Raises what maintenance only logs, since it goes on with other queues."""

    def __enter__(self) -> None:
        self.errors: list[Exception] = []
        logging.getLogger("rq_dlq.maintenance").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("rq_dlq.maintenance").removeHandler(self)
        if self.errors:
            raise self.errors[0]

    def emit(self, record: logging.LogRecord) -> None:
        self.errors += (word for word in record.args or () if isinstance(word, Exception))


def renumbered(me: Hands) -> str:
    """Ask for lanes of 0.1.0, as whoever configures a queue does."""
    return str(me.run(keyed_calls.renumber(me.keys, b"", limit=9)))


def gathered(me: Hands) -> list[str]:
    """A gather of two messages, which are acked before it is closed, and one that is cancelled."""
    with me.broker.gather(then=(me.orders, "then")) as gather:
        sent = gather.send(me.orders, "child", priority=9)
    held = me.orders.claim(100)
    me.orders.ack(held)
    with me.broker.gather(then=(me.orders, "then")) as gather:
        gather.send(me.orders, "another")
        gather.cancel()
    return [child.end or "" for one in me.orders.claim(100) for child in _children(one) if child.id == sent]


def _children(one: rq_dlq.Delivery[Any]) -> list[rq_dlq.GatheredChild]:
    try:
        return [*one.gathered.values()]
    except rq_dlq.InvalidInput:
        return []


def scheduled(queue: rq_dlq.Queue[Any]) -> bool:
    """Add a schedule, and whatever else can be done to it."""
    queue.schedule("hourly", "x", every="1h")
    return queue.pause_schedule("hourly") and queue.resume_schedule("hourly") and queue.unschedule("hourly")


Verb = Callable[[Hands], Any]

EXPORTED = MessageRow(
    "exported", (1 << 12).to_bytes(7, "big") + b"\x04x", b"dead/poison - 1 1 1 0 0 0 0 0 group=", b""
)
"""A dead letter."""


def reporter() -> Reporter:
    """Of a process that is called "me"."""
    return Reporter(ProcessReport("me"))


def cancelled(me: Hands) -> int:
    """A gather that is opened, closed and cancelled."""
    with me.broker.gather(then=(me.orders, "then")) as gather:
        gather.send(me.orders, "child")
        gather.close()
        return gather.cancel()


PRODUCER: dict[str, Verb] = {
    "gather": cancelled,
    "send": lambda me: bool(me.orders.send("x")),
    "send to a limited queue": lambda me: _send_limited(me.orders),
    "send again": lambda me: str(me.orders.send("y", id="resent", on_duplicate="replace")),
    "result": lambda me: _no_result(me.orders),
    "send later": lambda me: bool(me.orders.send("x", delay=LONG, ttl="2h")),
    "send many": lambda me: len(me.orders.send_many(range(300))),
    "send in a session": lambda me: me.session(claim=0, send=True),
    "send to a new queue": lambda me: bool(me.broker.queue("new").send("x")),
    "send to a former name": lambda me: bool(me.broker.queue(FORMERLY).send("x")),
    "declare": lambda me: bool(me.broker.queue(BILLS, redelivery=RedeliveryPolicy(), outcomes=9).send("x")),
    "declare a name": lambda me: bool(
        me.broker.queue(ORDERS, dead_letter=SharedDeadLetterStrategy("buried")).send("x")
    ),
    "renumber": renumbered,
    "stage": lambda me: staged(me.broker, me.orders, "more"),
    "commit a job": Hands.commit,
    "commit it again": Hands.commit_again,
    "move": lambda me: me.run(jobs.move(me.keys, "moving", me.world.moving)),
    "schedule": lambda me: scheduled(me.orders),
    "stats": lambda me: me.orders.stats().totals,
    "queues": lambda me: me.broker.queues(),
    "drop": lambda me: me.run(jobs.drop(me.keys, JOB, [me.world.left])),
    "drop the rest": lambda me: me.run(jobs.drop_rest(me.keys, JOB)),
}

CONSUMER: dict[str, Verb] = {
    "report": lambda me: me.run(reporter().note(NAMESPACE)),
    "sign off": lambda me: me.run(reporter().leave(NAMESPACE)),
    "send": lambda me: bool(me.orders.send("x")),
    "send to a limited queue": lambda me: _send_limited(me.orders),
    "send again": lambda me: str(me.orders.send("y", id="resent", on_duplicate="replace")),
    "claim": lambda me: [delivery.body for delivery in me.orders.claim(2)],
    "wait": lambda me: me.broker.queue("new").claim(wait="2ms"),
    "claim the dead": lambda me: len(me.broker.queue(f"DLQ.{ORDERS}").claim(9)),
    "claim from a former name": lambda me: me.broker.queue(FORMERLY).claim(),
    "claim of a view": lambda me: len(me.broker.queue(BURIED).claim()),
    "ack": lambda me: me.settle(settle.ack),
    "ack the dead": lambda me: len(me.run(settle.ack(me.orders._core, me.world.dead_held))),
    "nack": lambda me: me.settle(settle.nack, "boom"),
    "poison": lambda me: me.settle(settle.poison, "bad"),
    "release": lambda me: me.settle(settle.release),
    "pass on": lambda me: me.settle(partial(settle.pass_on, mark="", takers=()), UnfitMessage("bad")),
    "extend": lambda me: me.run(settling_calls.extend(me.keys, me.world.held, lease=9_999_999))[1],
    "progress": lambda me: me.run(settling_calls.progress(me.keys, me.world.held[0], part=0.5, text="half")),
    "ack in a session": lambda me: me.session(claim=2, send=False),
    "ack and send": lambda me: me.session(claim=2, send=True),
    "claim a batch": lambda me: (
        me.run(batches.claim_batch(me.orders._core, "another", limit=3, lease=9_999)).messages
    ),
    "read a batch": lambda me: len(me.run(batches.read_claim(me.keys, me.tokens[0], 0, 9)).ids),
    "find a batch": lambda me: me.run(batches.find_batch(me.keys, BATCH)).messages,
    "extend a batch": lambda me: me.run(batches.extend_batch(me.keys, me.tokens, 9_999_999)),
    "held of a batch": lambda me: me.run(batches.held_by(me.keys, me.tokens)),
    "ack a batch": lambda me: me.run(batches.ack_batch(me.keys, me.tokens)),
    "release a batch": lambda me: me.run(batches.release_batch(me.orders._core, me.tokens)),
    "halve a batch": lambda me: me.run(batches.halve_batch(me.keys, me.tokens, "rest")),
    "begin a query's": lambda me: me.run(batch_calls.begin_batch(me.keys, "query", batch=1, run="x")),
    "end a query's": lambda me: me.run(batch_calls.note_done(me.keys, "query", 1)),
    "ask for a query's": lambda me: me.run(batch_calls.progress(me.keys, "query")),
    "renumber": renumbered,
    "schedule": lambda me: scheduled(me.orders),
    "maintain": lambda me: me.orders.maintain(),
    "upkeep": Hands.upkeep,
    "go on with a redrive": lambda me: me.run(redrive_calls.step_redrive(me.keys, "none", limit=1, grace=0)),
    "gather": gathered,
    "drained": lambda me: me.run(counts.is_drained(me.orders._core)),
}


def _send_limited(queue: Any) -> bool:
    """As to a queue that was seen to have a `max_length`."""
    queue._core.limited = True
    return bool(queue.send("x"))


def _no_result(queue: rq_dlq.Queue[Any]) -> str:
    try:
        return str(queue.result("none", wait="1ms"))
    except rq_dlq.ResultUnavailable:
        return "none"


READ_ONLY: dict[str, Verb] = {
    "gathers": lambda me: len(me.broker.gathers()),
    "result": lambda me: _no_result(me.orders),
    "stats": lambda me: me.orders.stats().totals,
    "peek": lambda me: [message.body for message in me.orders.peek()],
    "browse the dead": lambda me: len(me.orders.dlq.browse()),
    "groups": lambda me: len(me.orders.dlq.groups()),
    "explain": lambda me: me.orders.explain(me.world.held[0][0]).place,
    "explain a blocked one": lambda me: me.orders.explain(BLOCKED).place,
    "keys": lambda me: [found.key for found in me.orders.keys(limit=5)],
    "a key": lambda me: me.orders.key(KEY).stats().blocked,
    "a dependency": lambda me: me.orders.dependency("payments").stats().open,
    "dependencies": lambda me: len(me.run(keyed_outages.everywhere(NAMESPACE))),
    "settings": lambda me: me.orders.settings(),
    "outcomes": lambda me: len(me.orders.outcomes()),
    "last outcomes": lambda me: len(me.run(outcomes.last_outcomes(me.orders._core, 3))),
    "extent": lambda me: me.run(outcomes.extent(me.keys)).count,
    "policies": lambda me: len(me.broker.policies.read().entries),
    "policy": lambda me: me.broker.policies.explain(BILLS).dead_name,
    "queues": lambda me: me.broker.queues(),
    "schedules": lambda me: len(me.broker.schedules()),
    "maintainers": lambda me: me.run(processes.maintainers(NAMESPACE)),
    "scan": Hands.scan,
    "count": lambda me: me.orders.select("body = 1").count(),
    "leased": lambda me: len(me.orders.select(places=["leased"]).browse()),
    "view": lambda me: me.broker.queue(BURIED).stats().dead,
    "leases": lambda me: len(me.run(page_calls.leases(me.keys, after=page_calls.START, limit=9))[0]),
}

_LOOKED_AT = (
    *("result", "groups", "outcomes", "extent", "maintainers", "scan", "view", "leased", "explain"),
    "explain a blocked one",
)
MAINTENANCE: dict[str, Verb] = {
    "gathers": READ_ONLY["gathers"],
    "carry a gather": lambda me: me.run(carrying.carry(me.keys, f"none/{ORDERS}")),
    **{name: READ_ONLY[name] for name in _LOOKED_AT},
    "renumber": renumbered,
    "round": Hands.round,
    "schedule": lambda me: scheduled(me.orders),
    "report": lambda me: me.run(reporter().note(NAMESPACE)),
    "sign off": lambda me: me.run(reporter().leave(NAMESPACE)),
    "maintain": lambda me: me.orders.maintain(),
    "redrive": lambda me: me.orders.dlq.redrive(all=True).counts.moved,
    "redrive some": lambda me: me.orders.dlq.redrive(where="reason = 'poison'").counts.moved,
    "redrive slowly": lambda me: me.orders.dlq.redrive(all=True, rate=200).wait().counts.moved,
    "redrive edited": lambda me: me.orders.dlq.redrive(all=True, edit=lambda body: body).counts.moved,
    "redrive selected": lambda me: me.orders.dlq.select(all=True).redrive(),
    "pause a redrive": lambda me: me.orders.dlq.redrive(all=True, detach=True).pause().state,
    "undo a redrive": lambda me: me.orders.dlq.redrive(all=True).undo().state,
    "list redrives": lambda me: len(me.orders.dlq.jobs()),
    "audit": lambda me: len(me.broker.audit()),
    "purge": lambda me: me.orders.purge(all=True),
    "purge the dead": lambda me: me.orders.dlq.purge(all=True),
    "remove": lambda me: me.orders.select("body = 1").purge(),
    "cancel": lambda me: me.orders.cancel(me.world.held[0][0]),
    "move": lambda me: me.orders.select(all=True).move(BILLS),
    "move the dead": lambda me: me.orders.select(places=["dead"]).move(BILLS),
    "copy": lambda me: me.orders.select(all=True).copy(BILLS),
    "dead-letter": lambda me: me.orders.select(all=True).dead_letter(),
    "restore": lambda me: me.run(restore(me.orders._core, [EXPORTED])) == [],
    "expire": lambda me: me.orders.select(all=True).expire(),
    "deliver now": lambda me: me.orders.select(places=["scheduled"]).deliver_now(),
    "prioritize": lambda me: me.orders.select(all=True).prioritize(9),
    "pause": lambda me: me.orders.pause(),
    "resume": lambda me: me.orders.resume(),
    "pause a dependency": lambda me: me.orders.dependency("payments").pause(),
    "resume a dependency": lambda me: me.orders.dependency("payments").resume() is False,
    "probe a dependency": lambda me: me.orders.dependency("payments").probe() is False,
    "limit a key": lambda me: me.orders.key(KEY).limit(2),
    "reset": lambda me: me.orders.reset(),
    "mute": lambda me: [me.orders.dlq.mute(group=one) for one in me.orders.dlq.groups()],
    "unmute": lambda me: me.orders.dlq.unmute(group="lapsed"),
    "delete": lambda me: me.orders.delete(force=True),
    "set a policy": lambda me: me.broker.policies.set(ORDERS, redelivery=RedeliveryPolicy()),
    "set a name": lambda me: me.broker.policies.set(ORDERS, dead_letter=SharedDeadLetterStrategy("buried")),
    "remove a policy": lambda me: me.broker.policies.remove(BILLS),
    "undeclare": lambda me: me.broker.policies.undeclare(ORDERS),
    "trim": lambda me: me.run(looking_calls.trim(me.keys, through="0-1")),
}

VERBS: dict[str, dict[str, Verb]] = {
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "maintenance": MAINTENANCE,
    "read-only": READ_ONLY,
}

_OPENS = "the first use of a queue makes it known, then does what it is for"
_SETS = "a policy is written, then brought to the queues that it is about"
_EACH = "each task is a call of its own, and those before are done"
OF_STEPS = {
    "send to a new queue": _OPENS,
    "send to a former name": _OPENS,
    "declare": "what is declared is written, then the message is sent",
    "declare a name": "what is declared is written, then the message is sent",
    "commit a job": "it is committed in one queue, told to the other, moved, and tidied up",
    "drop the rest": "the names of lists are taken, then what they name is dropped",
    "ack in a session": "what it acks was claimed before",
    "ack and send": "what it acks was claimed before",
    "delete": "what a job has committed is moved in, then the queue goes, then its name",
    "maintain": _EACH,
    "upkeep": _EACH,
    "round": _EACH,
    **dict.fromkeys(
        ("redrive", "redrive some", "redrive slowly", "redrive edited", "undo a redrive"),
        "it is begun, then it goes on in steps; maintenance ends it",
    ),
    "set a policy": _SETS,
    "set a name": _SETS,
    "remove a policy": _SETS,
}
"""The verbs that a refusal may stop half-way, and why; no message is harmed by it."""
