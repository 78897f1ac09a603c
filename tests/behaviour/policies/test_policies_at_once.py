"""Two clients that change the map of policies and declare at the same time: every order of their steps.

What a client does is a generator of steps; here the steps are run one by one, by turns, in every order that
there is. In the end each queue's settings say what the final map and the final declaration say together.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidInput, PolicyError
from rq_dlq._keys import QueueKeys
from rq_dlq.core import opening
from rq_dlq.core.claiming import claim
from rq_dlq.core.managing import deleting
from rq_dlq.core.policies import calls as policy_calls
from rq_dlq.core.policies import policies
from rq_dlq.core.queues.registry import LETTERS
from rq_dlq.core.sending import send
from rq_dlq.core.sending.packing import SendOptions
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.senders import Senders
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.policy import Entry, PolicyMap
from rq_dlq.values.leased import Leased
from rq_dlq.values.names import Naming
from tests.behaviour.helpers import waits
from tests.contents import contents
from tests.tables import each_row_afresh

NAMING = Naming()
NAMES = (b":queues", b":aliases", b":policies", b":settings")  # how keys of names and settings end
RANDOM = re.compile(r"\b[0-9a-f]{8}\b")  # a random word, which is replaced by its number
ONE, OTHER = Entry.of(redelivery=waits(1)), Entry.of(redelivery={"max_redeliveries": 5}, max_in_flight=2)
SHARED, PREFIX = Entry.of(dead_letter={"name": "LOST"}), Entry.of(dead_letter={"prefix": "D."})


@pytest.fixture(params=["real"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tested is the order of the steps; the scripts run on both kinds of servers elsewhere."""
    return str(request.param)


@dataclass(frozen=True)
class Client:
    """What a client does, and whether it changes the map."""

    start: Callable[[rq_dlq.Broker], Steps[Any]]
    changes: bool = False


def sets(pattern: str, entry: Entry | None) -> Client:
    """Change the map."""
    return Client(lambda _: policies.set_policy("rq", NAMING, pattern, entry), changes=True)


def names(pattern: str, **fields: Any) -> Client:
    """Change some fields of an entry."""
    change = partial(Entry.over, **fields)
    return Client(lambda _: policies.set_policy("rq", NAMING, pattern, change), changes=True)


def opens(name: str, **declared: Any) -> Client:
    """Use a queue for the first time."""
    return Client(lambda broker: opening.open_queue(broker.queue(name, **declared)._core))


def applies(name: str) -> Client:
    """Have the settings of a queue written anew."""
    return Client(lambda _: policies.apply_policies(QueueKeys("rq", name), NAMING))


def sends(name: str) -> Client:
    """Send to a queue that this client has not used."""
    return Client(lambda broker: send.send_one(broker.queue(name)._core, "x", None, SendOptions()))


class Turns:
    """Steps of clients by turns.

    Args:
        single: one call of a batch at a time, as between those of a round trip there is room for others.

    Attributes:
        errors: what each ended with, None: well.
        pending: the next step of each.
    """

    def __init__(self, broker: rq_dlq.Broker, clients: Sequence[Client], *, single: bool = False) -> None:
        self._single = single
        self._replies: list[list[Any]] = [[] for _ in clients]
        self._told: list[list[Any]] = [[] for _ in clients]
        self._run = broker._connected()._perform
        self._clients = clients
        broker._client.senders = Senders()  # as in each order: what was sent before is another program's
        self._steps = [client.start(broker) for client in clients]
        self.pending = [next(steps) for steps in self._steps]
        self.going = list(range(len(clients)))
        self.errors: list[Exception | None] = [None] * len(clients)

    def place(self, raw: Any) -> str:
        """Where they are: names and settings, how much there is of all else, and what each was told."""
        stored = {
            key: sorted(value.items() if isinstance(value, dict) else value)
            if key.endswith(NAMES)
            else len(value)
            for key, value in contents(raw).items()
            if b":sender:" not in key
        }
        words: dict[str, str] = {}
        return RANDOM.sub(
            lambda word: words.setdefault(word[0], f"<{len(words)}>"),
            repr((stored, self._told, self._replies)),
        )

    @property
    def changing(self) -> bool:
        """Whether a change of the map is on its way."""
        return any(self._clients[client].changes for client in self.going)

    def turn(self, client: int) -> None:
        """One step of one client."""
        step, replies = self.pending[client], self._replies[client]
        if self._single and isinstance(step, Pipeline):
            replies.append(self._run(step.calls[len(replies)]))
            if len(replies) < len(step.calls):
                return
            reply, self._replies[client] = replies, []
        else:
            reply = self._run(step)
        self._told[client].append(reply)
        try:
            self.pending[client] = self._steps[client].send(reply)
        except StopIteration:
            self.going.remove(client)
        except (PolicyError, InvalidInput) as error:
            self.errors[client] = error
            self.going.remove(client)


def every_order(
    broker: rq_dlq.Broker,
    raw: Any,
    before: Sequence[Client],
    clients: Sequence[Client],
    *,
    when_changed: Callable[[Any], object] = lambda raw: raw,
    places: set[str] | None = None,
) -> Iterator[Turns]:
    """The end of every order of the clients' steps, each from the same beginning.

    Orders that have led to the same place go on as one.

    Args:
        when_changed: is called after each step once no change of the map is on its way any more.
        places: where the orders have led so far is put here.
    """
    orders: list[list[int]] = [[]]
    places = set() if places is None else places
    while orders:
        order = orders.pop()
        begin(broker, raw, before)
        turns = Turns(broker, clients)
        for turn in order:
            turns.turn(turn)
        while (place := turns.place(raw)) not in places:
            places.add(place)
            if not turns.changing:
                when_changed(raw)
            if not turns.going:
                yield turns
                break
            orders += [[*order, other] for other in turns.going[1:]]
            order.append(turns.going[0])
            turns.turn(turns.going[0])


def check_settings(raw: Any) -> dict[str, dict[bytes, bytes]]:
    """Each queue's settings are what the map and its declaration say now; all settings."""
    policy_map = PolicyMap.read(raw.hgetall("rq:policies"), NAMING)
    stored = {
        family.decode(): raw.hgetall(f"rq:{{{family.decode()}}}:settings")
        for family in raw.smembers("rq:queues")
    }
    for family, fields in stored.items():
        fields.pop(b"opening", None)
        if not fields:
            continue
        declared = Entry.decode(fields[b"declared"]) if b"declared" in fields else None
        settings = policy_map.settings(family, declared)
        expected = {name.encode(): text.encode() for name, text in settings.wire().items()}
        names = {b"declared", b"version", b"names", b"gated"}
        assert {name: text for name, text in fields.items() if name not in names} == expected
        if settings.dead_name != f"DLQ.{family}":
            assert fields[b"names"] == f"{settings.dead_name}\t{settings.expired_name}".encode()
            assert raw.sismember("rq:aliases", settings.dead_name)
        else:
            assert b"names" not in fields
    return stored


CLIENTS: dict[str, tuple[list[Client], list[Client]]] = {
    "set and open": ([], [sets("#", ONE), opens("a")]),
    "set and declare": ([], [sets("#", ONE), opens("a", max_in_flight=7)]),
    "set and declare anew": (
        [sets("#", OTHER), opens("a", max_in_flight=7)],
        [sets("a", ONE), opens("a", max_in_flight=8)],
    ),
    "set and set": ([opens("a")], [sets("#", ONE), sets("a", OTHER)]),
    "set the same pattern": ([opens("a")], [sets("#", ONE), sets("#", OTHER)]),
    "set and remove": ([sets("a", OTHER), opens("a")], [sets("#", ONE), sets("a", None)]),
    "remove and declare": ([sets("#", SHARED)], [sets("#", None), opens("a", max_in_flight=7)]),
    "declare and declare": ([sets("#", ONE)], [opens("a", max_in_flight=7), opens("a", max_in_flight=8)]),
    "two queues": ([opens("a")], [sets("#", ONE), opens("b", max_in_flight=7)]),
    "names": ([sets("a", SHARED), opens("a")], [sets("a", PREFIX), applies("a")]),
}


@each_row_afresh("name", CLIENTS)
def test_in_every_order(name: str, sync_broker: rq_dlq.Broker, raw: Any) -> None:
    before, clients = CLIENTS[name]
    ends, places = 0, set[str]()
    # As soon as the map was changed nothing older is ever written.
    for turns in every_order(sync_broker, raw, before, clients, when_changed=check_settings, places=places):
        assert turns.errors == [None, None]
        fields = check_settings(raw)["a"]
        assert bool(fields) or name == "remove and declare"
        assert (b"declared" in fields) == ("declare" in name)
        ends += 1
    assert ends > 1
    assert len(places) > 20


def test_two_that_set_different_fields_both_count(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    before = [sets("a", Entry.of(outcomes=5)), opens("a")]
    clients = [names("a", rate="9/s"), names("a", per_key="order")]
    for turns in every_order(sync_broker, raw, before, clients):
        assert turns.errors == [None, None]
        stored = {**sync_broker.policies.read().entries["a"].stored}
        assert stored == {"outcomes": 5, "rate": "9/s", "per_key": "order"}
        check_settings(raw)


def test_one_of_two_declarations_is_the_last(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    clients = [opens("a", max_in_flight=7), opens("a", max_in_flight=8)]
    winners = set()
    for _ in every_order(sync_broker, raw, [], clients):
        fields = check_settings(raw)["a"]
        winners.add(fields[b"max_in_flight"])
    assert winners == {b"7", b"8"}


def test_who_says_nothing_undoes_no_declaration(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    before = [sets("#", ONE), opens("a", max_in_flight=7)]
    for other in (opens("a"), applies("a"), sets("#", OTHER)):
        for _ in every_order(sync_broker, raw, before, [opens("a", max_in_flight=8), other]):
            assert check_settings(raw)["a"][b"max_in_flight"] == b"8"


def test_who_overwrote_another_declaration_says_so(
    sync_broker: rq_dlq.Broker, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def forgotten(_: rq_dlq.Broker) -> Steps[Any]:
        caplog.clear()
        yield from ()

    clients = [opens("a", max_in_flight=7), opens("a", max_in_flight=8)]
    with caplog.at_level(logging.WARNING, "rq_dlq"):
        for _ in every_order(sync_broker, raw, [Client(forgotten)], clients):
            assert caplog.messages == ["a: this program declares a different policy from the previous one"]


@pytest.mark.parametrize(
    "namer", [opens("a", dead_letter={"name": "LOST"}), sets("a", SHARED)], ids=["declared", "set"]
)
def test_a_name_becomes_a_queue_s_and_one_of_letters_at_once(
    namer: Client, sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    """Whoever is first: who has the queue open in the end looks for letters, too."""
    ends = 0
    for turns in every_order(sync_broker, raw, [opens("a")], [namer, sends("LOST")]):
        assert turns.errors == [None, None]
        assert check_lost(sync_broker, raw) == 1
        ends += 1
    assert ends > 1


def check_lost(broker: rq_dlq.Broker, raw: Any) -> int:
    """No opening of LOST is left under which claims miss letters; how many messages it has."""
    sent = raw.hlen("rq:{LOST}:messages")
    assert raw.hexists("rq:{a}:settings", "names")
    assert raw.sismember("rq:aliases", "LOST")
    assert LETTERS.encode() in (raw.hget("rq:{LOST}:settings", "opening") or LETTERS.encode())
    assert raw.sismember("rq:queues", "LOST") or not sent
    lost = broker.queue("LOST")
    assert lost.stats().ready == sent
    assert lost._core.shows_letters
    return int(sent)


def test_two_entries_for_several_queues(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """Their settings are written side by side, each by the map that was read for it."""
    before = [opens(name) for name in ("a", "b", "c", "d")]
    clients = [sets("#", ONE), sets("#", OTHER), sets("c", SHARED)]
    for turns in drawn_orders(sync_broker, raw, before, clients, number=40):
        assert turns.errors == [None] * 3
        assert len(check_settings(raw)) == 4


def test_two_that_open_what_is_given_just_now(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """Drawn orders: of all there are too many."""
    before = [opens("a"), Client(lambda _: _set_only("#", SHARED))]
    clients = [applies("a"), sends("LOST"), sends("LOST")]
    for turns in drawn_orders(sync_broker, raw, before, clients, number=40):
        assert turns.errors == [None] * 3
        assert check_lost(sync_broker, raw) == 2


def used(name: str) -> tuple[Client, Client, Client]:
    """A program that uses a queue: it opens the queue, later sends, or claims, without another look."""
    queues: list[Any] = []

    def opened(broker: rq_dlq.Broker) -> Steps[Any]:
        queues[:] = [broker.queue(name)._core]
        return opening.open_queue(queues[0])

    def sent(_: rq_dlq.Broker) -> Steps[Any]:
        return send.send_one(queues[0], "x", None, SendOptions())

    def claimed(_: rq_dlq.Broker) -> Steps[Any]:
        return claim.claim(queues[0], lambda rows, lease: [Leased(row, lease) for row in rows])

    return Client(opened), Client(sent), Client(claimed)


def deletes(name: str) -> Client:
    """Delete a queue if it is empty."""
    return Client(lambda broker: deleting.delete(broker.queue(name)._core, force=False))


def test_what_is_sent_while_the_queue_is_deleted(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """It is in a queue that is open and listed, whoever opened it when."""
    opened, sent, claimed = used("LOST")
    ends = set()
    for other in (sends("LOST"), claimed):
        for turns in drawn_orders(sync_broker, raw, [opened], [deletes("LOST"), sent, other], number=40):
            refused = turns.errors[0] is not None
            assert turns.errors[1:] == [None, None]
            assert raw.smembers("rq:queues") == {b"LOST"}
            assert raw.hexists("rq:{LOST}:settings", "opening")
            ends.add((refused, raw.hlen("rq:{LOST}:messages")))
    assert {(True, 1), (False, 1), (True, 2), (False, 2)} <= ends


def test_a_queue_that_is_open_or_deleted_while_its_name_is_given(
    sync_broker: rq_dlq.Broker, raw: Any
) -> None:
    """A producer and a consumer that opened it long ago, one that opens it now, one who deletes it."""
    opened, sent, claimed = used("LOST")
    ends = set()
    for others in ([sent], [claimed], [sent, sends("LOST")], [sent, deletes("LOST")]):
        clients = [sets("a", SHARED), *others]
        for turns in drawn_orders(sync_broker, raw, [opened, opens("a")], clients, number=40):
            assert turns.errors[:2] == [None, None]
            ends.add(check_lost(sync_broker, raw))
    assert ends == {0, 1, 2}


def _set_only(pattern: str, entry: Entry) -> Steps[Any]:
    """Change the map as if cut off then."""
    return (yield policy_calls.set_policy("rq", pattern, entry.encode()))


def drawn_orders(
    broker: rq_dlq.Broker, raw: Any, before: Sequence[Client], clients: Sequence[Client], number: int
) -> Iterator[Turns]:
    """The ends of some orders of the clients' steps; long runs of one client are as likely as turns."""
    draw = random.Random(11)
    for _ in range(number):
        begin(broker, raw, before)
        turns = Turns(broker, clients, single=True)
        while turns.going:
            client, stays = draw.choice(turns.going), draw.choice([0, 0.5, 0.9])
            turns.turn(client)
            while client in turns.going and draw.random() < stays:
                turns.turn(client)
        yield turns


def begin(broker: rq_dlq.Broker, raw: Any, before: Sequence[Client]) -> None:
    """Forget everything, and do what comes before."""
    raw.delete(*raw.keys("rq:*"), "rq:policies")
    for client in before:
        broker._run(client.start(broker))


# What it costs


def test_an_entry_for_many_queues_goes_in_bounded_steps(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    """I9: no step has more in it because there are more queues."""
    families = [f"a.{n}" for n in range(300)]
    raw.sadd("rq:queues", *families)
    entry = Entry.of(dead_letter={"prefix": "D."}, max_in_flight=1)
    steps, reply, verbs = policies.set_policy("rq", NAMING, "a.*", entry), None, 0
    with suppress(StopIteration):
        while True:
            step = steps.send(reply)
            calls = step.calls if isinstance(step, Pipeline) else [step]
            verbs += sum(isinstance(call, Call) for call in calls)
            assert len(calls) <= 5 * 25
            reply = sync_broker._connected()._perform(step)
    assert verbs == 1 + len(families)
    assert len(check_settings(raw)) == len(families)


def test_the_map_is_read_once_for_many_queues(
    sync_broker: rq_dlq.Broker, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again where it has changed meanwhile."""
    monkeypatch.setattr("rq_dlq.core.policies.policies.TOGETHER", 4)
    raw.sadd("rq:queues", *(f"a.{n}" for n in range(9)))
    read, changed = PolicyMap.read.__func__, False  # type: ignore[attr-defined]
    versions: list[int] = []

    def counted(fields: Any, naming: Naming) -> PolicyMap:
        found: PolicyMap = read(PolicyMap, fields, naming)
        versions.append(found.version)
        return found

    monkeypatch.setattr(PolicyMap, "read", counted)
    steps, reply = policies.set_policy("rq", NAMING, "a.*", ONE), None
    with suppress(StopIteration):
        while True:
            step = steps.send(reply)
            if not changed and raw.exists("rq:{a.4}:settings"):
                changed = True
                sync_broker._run(_set_only("#", OTHER))
            reply = sync_broker._connected()._perform(step)
    assert versions == [0, 1, 2]  # the first is what the entry is checked against
    monkeypatch.undo()
    fields = [raw.hgetall(f"rq:{{a.{n}}}:settings") for n in range(9)]
    assert [b"max_in_flight" in one for one in fields] == [False] * 5 + [True] * 4
    assert sync_broker.policies.put("#", OTHER) == 9
    check_settings(raw)


def test_an_entry_that_was_cut_off_can_be_said_again(sync_broker: rq_dlq.Broker, raw: Any) -> None:
    for name in ("a", "b", "c"):
        sync_broker.queue(name).send("x")
    for end in range(3, 7):
        entry = Entry.of(max_in_flight=end)
        steps, reply = policies.set_policy("rq", NAMING, "*", entry), None
        for _ in range(end):
            reply = sync_broker._connected()._perform(steps.send(reply))
        steps.close()
        assert sync_broker.policies.put("*", entry) == 3
        assert {fields[b"max_in_flight"] for fields in check_settings(raw).values()} == {str(end).encode()}
