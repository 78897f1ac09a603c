"""T50: the same ids are sent over and over with `on_duplicate`; senders and consumers are killed."""

from __future__ import annotations

import logging
import random
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rq_dlq import Broker, BrokerRefused, BrokerUnavailable, LeaseLost, Queue, RedeliveryPolicy, Task
from rq_dlq.values.sent import OnDuplicate, Sent
from tests.forked import ForkedProcesses
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.resends import LEASE, Notes, Story, story
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server
from tests.servers.proxy import Chance, Fault, Proxy

SENDERS, WORKERS = 3, 3
IDS, USERS = 4, 3  # ids of messages; calls of a unique task
MODES: tuple[OnDuplicate, ...] = ("replace", "debounce", "redrive", "again", "again")
DELAY, MOST = "60ms", "200ms"
KNOWN = 0.2  # seconds for which a call of the task is known after its first send
FATES = ("ack", "nack", "poison", "leave")
SHARES = (80, 14, 4, 2)
RUNS, PAUSE = 0.03, 0.015  # seconds of a run, and between two sends, on average
DRAINED = 60.0  # seconds that it may take
LOST: dict[Fault, float] = {"drop": 0.03, "reset": 0.01}
NAMES = ("plain", "task")
WORDS = ("new", "replaced", "postponed", "redriven", "again", "none")


def queues_of(broker: Broker) -> tuple[Queue[Any], Queue[Any]]:
    """As each process uses them."""
    rule = RedeliveryPolicy(max_redeliveries=2, delays=[0])
    plain, task = (broker.queue(name, lease=LEASE, redelivery=rule) for name in NAMES)
    return plain, task


def task_of(broker: Broker, queue: Queue[Any]) -> Task[Any, None]:
    """Calls of one user are one."""

    @broker.task(queue=queue, unique=lambda user, **_: user, unique_for=KNOWN)
    def sync(user: int, token: str) -> None:
        del user, token

    return sync


def send(url: str, notes: Path, name: str) -> None:
    """Send the same ids over and over; note what is sent, and the answers."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    broker, said, draw = Broker(url), Notes(notes / f"{name}.notes"), random.Random(name)
    plain, calls = queues_of(broker)
    sync = task_of(broker, calls)
    for number in count():
        body = f"{name}-{number}"
        user, mode = draw.randrange(IDS + USERS), draw.choice(MODES)
        is_call = user >= IDS
        options: dict[str, Any] = {"delay": DELAY, "max_delay": MOST} if mode == "debounce" else {}
        said.add("send", f"m{user}", body, "unique" if is_call else mode, time.monotonic())
        try:
            if is_call:
                sent: Sent = sync.send(user=user, token=body)
            else:
                sent = plain.send(body, id=f"m{user}", on_duplicate=mode, **options)
            did = "new" if sent.new else sent.did or "none"
            said.add("sent", did, sent.known or "-", time.monotonic())
        except (BrokerUnavailable, BrokerRefused):
            said.add("unknown", time.monotonic())
        time.sleep(draw.uniform(0, 2 * PAUSE))


def work(url: str, notes: Path, name: str) -> None:
    """Claim one after the other; some fail, and some are left until their leases lapse."""
    logging.getLogger("rq_dlq").setLevel(logging.CRITICAL)
    broker, said, draw = Broker(url), Notes(notes / f"{name}.notes"), random.Random(name)
    queues = queues_of(broker)
    for number in count():
        asked = time.monotonic()
        held: list[Any] = []
        with suppress(BrokerUnavailable, BrokerRefused):
            held = queues[number % 2].claim(1, wait="20ms")
        for delivery in held:
            is_call = isinstance(delivery.body, dict)
            body = delivery.body["token"] if is_call else delivery.body
            told = f"m{delivery.body['user']}" if is_call else delivery.id
            said.add("got", told, body, asked, time.monotonic())
            time.sleep(draw.uniform(0, 2 * RUNS))
            (fate,) = draw.choices(FATES, SHARES)
            if fate != "leave":
                said.add("settle", fate, time.monotonic())
                with suppress(BrokerUnavailable, BrokerRefused, LeaseLost):
                    settle(delivery, fate)
                    said.add("settled")


def settle(delivery: Any, fate: str) -> None:
    """Ack it, or say that it failed."""
    if fate == "ack":
        delivery.ack()
    elif fate == "nack":
        delivery.nack("boom")
    else:
        delivery.poison("bad")


class Crew:
    """The processes, under new names each time that they are started."""

    def __init__(self, forked: ForkedProcesses, url: str, notes: Path) -> None:
        self.ends: dict[str, float] = {}
        self._forked, self._url, self._notes = forked, url, notes
        self._acts = {f"s{n}": send for n in range(SENDERS)} | {f"w{n}": work for n in range(WORKERS)}
        self._names: dict[str, str] = {}
        self._numbers = count()
        for of in self._acts:
            self.start(of)

    def start(self, of: str) -> None:
        """Start one of them."""
        name = self._names[of] = f"{of}x{next(self._numbers)}"
        self._forked.start(name, self._acts[of], self._url, self._notes, name)

    def kill(self, of: str) -> None:
        """SIGKILL."""
        name = self._names.pop(of)
        assert self._forked.alive(name)
        self._forked.kill(name)
        self.ends[name] = time.monotonic()

    def kill_all(self, kind: str) -> None:
        """All senders, or all consumers."""
        for of in [of for of in self._names if of.startswith(kind)]:
            self.kill(of)

    def draw(self, draw: random.Random) -> str:
        """Any of them."""
        return draw.choice([*self._acts])


def run(run: Run) -> Figures:
    """Kill, drain the queues, and compare what was answered with what was done."""
    kills, notes = run.pick(short=25, whole=200), run.directory / "notes"
    notes.mkdir()
    chance = Chance(run.random.getrandbits(32), LOST)
    with (
        Server(run.directory / "redis") as server,
        Proxy(server.socket, run.directory, chance) as network,
        ForkedProcesses() as forked,
    ):
        crew = Crew(forked, f"unix://{network.socket}", notes)
        for kill in range(kills):
            run.done(kill, kills + 1, f"kills: {kill}")
            time.sleep(run.random.uniform(0.1, 0.5))
            of = crew.draw(run.random)
            crew.kill(of)
            crew.start(of)
        crew.kill_all("s")
        with Broker(server.url) as broker:
            left = _drained(broker)
            crew.kill_all("w")
            told = story(notes, crew.ends)
            told.known_for = {f"m{IDS + n}": KNOWN for n in range(USERS)}
            told.letters = _letters(broker)
        with server.client() as raw:
            left += sum(raw.hlen(f"rq:{{{name}}}:again") for name in NAMES)
            found = [one for name in NAMES for one in audited(raw, name)]
    return _figures(told, found, left, kills, chance)


def _drained(broker: Broker) -> int:
    """How much is left when nothing is sent any more."""
    end, left = time.monotonic() + DRAINED, 1
    while left and time.monotonic() < end:
        time.sleep(0.1)
        stats = [queue.stats() for queue in queues_of(broker)]
        left = sum(one.ready + one.scheduled + one.leased for one in stats)
    return left


def _letters(broker: Broker) -> set[str]:
    bodies = [letter.body for queue in queues_of(broker) for letter in queue.dlq.browse()]
    return {body["token"] if isinstance(body, dict) else body for body in bodies}


def _figures(told: Story, found: list[str], left: int, kills: int, chance: Chance) -> Figures:
    did = {word: sum(send.did == word for send in told.sends) for word in WORDS}
    faults = told.faults()
    untold = sum(not count for count in did.values())
    found += wrong(faults | {"left behind": left, "words that no send was told": untold})
    said = ", ".join(f"{count:,} {word}" for word, count in did.items() if word != "none")
    failed = sum(run.how != "ack" for run in told.runs)
    note = (
        f"{said}; {len(told.runs):,} runs, {failed:,} of which failed; {chance.seen['drop']:,} replies lost"
    )
    return Figures(
        trials=kills,
        acknowledged=sum(send.wrote for send in told.sends),
        lost=faults["sends that are lost"],
        duplicated=faults["bodies that were done twice"],
        met=not found,
        note="; ".join([*found, note]),
    )


ROWS = (
    Row(
        "T50",
        f"{SENDERS} senders of the same {IDS} ids with replace, debounce, redrive and again, and of "
        f"{USERS} calls of a unique task; {WORKERS} consumers, a fifth of whose runs fail; all are killed, "
        "4 % of what is said is lost",
        "200 kills: the newest body runs or is in the dead letter, no older one, none twice, never two "
        "runs of an id at once; at most one more run for all that ask during a run; 0 left",
        run,
    ),
)
