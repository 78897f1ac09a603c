"""T12: Sentinel fails over to a replica that lags behind; holders of the old master's tokens come back."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from threading import Event
from typing import Any

import pytest

import rq_dlq
from rq_dlq import Delivery, Message, Queue
from rq_dlq._redis import Retries
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.settling import settle
from rq_dlq.errors import Unconfirmed, UnfitMessage
from rq_dlq.values.settlement import Settlement
from tests.proofs.reliability.actors import note_acked
from tests.proofs.reliability.findings import audited, counters, unexplained, wrong
from tests.proofs.reliability.journal import Journal, sums
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, free_port, wait_until
from tests.servers.sentinels import Watched

EACH = 10  # messages of a claim
PATIENT = Retries(attempts=None, seconds=30)
REFUSED = 3  # holders of each round who settle while the old master is a replica: one for each fate


def _pass_on(queue: Queue[Any], held: Sequence[Delivery[Any]]) -> Sequence[object]:
    pairs = [delivery._held for delivery in held]
    return queue._broker._run(settle.pass_on(queue._core, pairs, UnfitMessage("stale"), mark="", takers=()))


def _progress(queue: Queue[Any], one: Delivery[Any]) -> Any:
    return (yield settling_calls.progress(queue._core.keys, one._held, part=0.5, text=""))


VERBS: dict[str, Callable[[Queue[Any], Sequence[Delivery[Any]]], Sequence[object]]] = {
    "ack": lambda queue, held: queue.ack(held),
    "nack": lambda queue, held: queue.nack(held, "stale"),
    "poison": lambda queue, held: queue.poison(held, "stale"),
    "release": lambda queue, held: queue.release(held),
    "pass_on": _pass_on,
    "extend": lambda queue, held: queue.extend(held),
    "progress": lambda queue, held: [queue._run(_progress(queue, one)) for one in held],
}


class Halt(Event):
    """Between two tries a call halts until it may go on; by then the first one was answered, by a refusal.

    Attributes:
        halts: set when it does.
        goes_on: when it may.
    """

    def __init__(self) -> None:
        super().__init__()
        self.halts, self.goes_on = Event(), Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Halt, then pause as the client means to."""
        self.halts.set()
        self.goes_on.wait()
        return super().wait(timeout)


Refused = tuple[Halt, Queue[int], list[Delivery[int]]]


class Failovers:
    """Rounds on one set of servers.

    Attributes:
        seen: what was counted.
    """

    def __init__(self, run: Run, watched: Watched) -> None:
        self.seen: Counter[str] = Counter()
        self._random, self._watched = run.random, watched
        self._journal = Journal(run.directory / "journals", "all")
        self._brokers: list[rq_dlq.Broker] = []

    def one(self, number: int) -> None:
        """One failover."""
        watched = self._watched
        old = watched.master()
        new = next(server for server in watched.servers if server is not old)
        assert old is not None
        try:
            self._send([f"{number}-{place}" for place in range(EACH * (2 + len(VERBS) + REFUSED))])
            watched.hold_back(old, new)
            self._send_unconfirmed([f"{number}-lost-{place}" for place in range(EACH)])
            self._ack_what_is_forgotten()
            zombies = [(verb, *self._claimed()) for verb in self._random.sample([*VERBS], len(VERBS))]
            halting = [Halt() for _ in range(REFUSED)]
            refused = [(halt, *self._claimed(Retries(until=halt))) for halt in halting]
            with ThreadPoolExecutor(len(VERBS)) as threads:
                told = self._turn_away(old, refused, threads)
                with self._struck(old, new) as killed:
                    wait_until(lambda: watched.master() is new)
                    others = self._others()
                    self._go_on(new, refused, told)
                    aware = [zombie for zombie in zombies if not killed or self._random.random() < 0.5]
                    list(threads.map(lambda zombie: zombie[1].stats(), aware))  # they wait for a frozen one
                    for zombie in zombies:
                        self._come_back(new, *zombie, others, aware=zombie in aware)
                    self._finish(others)
        finally:
            for broker in self._brokers:
                broker.close()
            self._brokers.clear()

    def _queue(self, retries: Retries = PATIENT, **options: Any) -> Queue[int]:
        broker = rq_dlq.Broker(f"{self._watched.url}?socket_timeout=2", retries=retries, **options)
        self._brokers.append(broker)
        return broker.queue("work", lease="5m")

    def _send(self, ids: Sequence[str]) -> None:
        """Send what the replica confirms."""
        queue = self._queue(durability="replicated", confirm_within="4s")
        self._journal.note("send", ids)
        queue.send_many([Message(body=0, id=name) for name in ids])
        self._journal.note("sent", ids)

    def _send_unconfirmed(self, ids: Sequence[str]) -> None:
        queue = self._queue(durability="replicated", confirm_within="50ms")
        self._journal.note("send", ids)
        with pytest.raises(Unconfirmed):
            queue.send_many([Message(body=0, id=name) for name in ids])
        self._journal.note("unconfirmed", ids)

    def _claimed(self, retries: Retries = PATIENT) -> tuple[Queue[int], list[Delivery[int]]]:
        """Who claims now, and what."""
        queue = self._queue(retries)
        held = queue.claim(EACH)
        assert len(held) == EACH
        self._journal.note("got", [delivery.id for delivery in held])
        return queue, held

    def _ack_what_is_forgotten(self) -> None:
        """Acks that the replica never hears of: these messages come again."""
        queue, held = self._claimed()
        self._ack(queue, held)

    def _ack(self, queue: Queue[int], held: Sequence[Delivery[int]]) -> None:
        self._journal.note("ack", [delivery.id for delivery in held])
        note_acked(self._journal, queue.ack(held))

    def _turn_away(
        self, old: Server, refused: Sequence[Refused], threads: ThreadPoolExecutor
    ) -> list[Future[list[Settlement]]]:
        """Their holders ack, and are refused, since the master is a replica now; what they will be told."""
        self._watched.client(old).execute_command("REPLICAOF", "127.0.0.1", free_port())
        told = [threads.submit(queue.ack, held) for _, queue, held in refused]
        for halt, _, _ in refused:
            assert halt.halts.wait(PATIENT.seconds)
        return told

    def _go_on(
        self, master: Server, refused: Sequence[Refused], told: Sequence[Future[list[Settlement]]]
    ) -> None:
        """They try again: no reply was lost, so nobody is told that it was done, whatever others did."""
        before = self._everything(master)
        for halt, _, _ in refused:
            halt.goes_on.set()
        settlements = [said for each in told for said in each.result()]
        self.seen["changed"] += self._everything(master) != before
        self.seen["stale"] += len(settlements)
        self.seen["refused"] += sum(not said for said in settlements)
        self.seen["accepted"] += sum(bool(said) for said in settlements)

    @contextmanager
    def _struck(self, old: Server, new: Server) -> Iterator[bool]:
        """The master is killed or frozen, and follows the new one in the end. Which: killed."""
        killed = self._random.random() < 0.5
        if killed:
            old.kill()
        else:
            old.signal(signal.SIGSTOP)
        try:
            yield killed
        finally:
            if killed:
                old.start()
            else:
                old.signal(signal.SIGCONT)
        for server in (old, new):
            self._watched.client(server).config_set("masterauth", "")
        self._watched.follow(old, new)
        wait_until(self._watched.well)

    def _others(self) -> tuple[Queue[int], dict[str, str], list[Delivery[int]]]:
        """Another consumer gets everything; it acks, keeps or gives back each part: what became of which."""
        queue = self._queue()
        became: dict[str, str] = {}
        kept: list[Delivery[int]] = []
        states = cycle(self._random.sample(["acked", "kept", "ready"], 3))
        while held := queue.claim(EACH):
            self._journal.note("got", [delivery.id for delivery in held])
            state = next(states)
            became |= dict.fromkeys((delivery.id for delivery in held), state)
            if state == "acked":
                self._ack(queue, held)
            else:
                kept += held
        queue.release([delivery for delivery in kept if became[delivery.id] == "ready"])
        return queue, became, [delivery for delivery in kept if became[delivery.id] == "kept"]

    def _come_back(
        self,
        master: Server,
        verb: str,
        queue: Queue[int],
        held: Sequence[Delivery[int]],
        others: tuple[Queue[int], dict[str, str], list[Delivery[int]]],
        *,
        aware: bool,
    ) -> None:
        """A holder of old tokens settles; `aware`: it has noticed before that its connection was gone."""
        before = self._everything(master)
        told = VERBS[verb](queue, held)
        self.seen["stale"] += len(held)
        self.seen["changed"] += self._everything(master) != before
        for delivery, said in zip(held, told, strict=True):
            if not said:
                self.seen["refused"] += 1
            elif not aware and others[1][delivery.id] == "acked":
                self.seen["unknowable"] += 1  # its first try had no answer, and the message is done
            else:
                self.seen["accepted"] += 1

    def _everything(self, master: Server) -> dict[bytes, Any]:
        """All but what goes by itself, as a wake-up that nobody took."""
        client: Any = self._watched.client(master)
        return {key: client.dump(key) for key in client.keys("rq:{work}:*") if client.ttl(key) < 0}

    def _finish(self, others: tuple[Queue[int], dict[str, str], list[Delivery[int]]]) -> None:
        """All that is left is acked by who holds it."""
        queue, _, kept = others
        self._ack(queue, kept)
        while held := queue.claim(EACH):
            self._journal.note("got", [delivery.id for delivery in held])
            self._ack(queue, held)


def fail_over(run: Run) -> Figures:
    """Failovers, one after the other."""
    rounds = run.pick(short=1, whole=10, soak=200)
    with Watched(run.directory / "servers", sentinels=run.pick(short=1, whole=3)) as watched:
        failovers = Failovers(run, watched)
        for number in range(rounds):
            run.done(number, rounds, f"failover {number + 1}")
            failovers.one(number)
        master = watched.master()
        assert master is not None
        raw: Any = watched.client(master)
        counted, bad = counters(raw, "work"), audited(raw, "work")
    found, seen = sums(run.directory / "journals", ()), failovers.seen
    bad += wrong(
        {
            "lost": len(found.lost),
            "unexpected": len(found.unexpected),
            "stale settlements accepted": seen["accepted"],
            "times that one changed something": seen["changed"],
            "forgotten too few": max(0, rounds * EACH - found.duplicated),  # else nothing was held back
            **unexplained(counted, found),
        }
    )
    notes = [f"{seen['stale']:,} stale settlements: {seen['refused']:,} refused"]
    if seen["unknowable"]:
        notes.append(f"{seen['unknowable']} after a lost reply found their message done")
    return Figures(trials=rounds, **found.counts, met=not bad, note="; ".join(bad + notes))


ROWS = (
    Row(
        "T12",
        "Sentinel failover x 10 with replication held back; holders of the old master's tokens come back",
        "0 stale settlements accepted, 0 confirmed lost",
        fail_over,
    ),
)
