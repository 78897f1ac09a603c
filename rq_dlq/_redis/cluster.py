"""A cluster: to which of its nodes a command goes; without the sockets, so that both colours share it.

A route yields a node and commands for it, and is sent the replies; where the node cannot be reached, the
error is thrown in. What a node refuses since a slot is elsewhere was not carried out: it goes there at once.
Whatever else fails is for the caller, who repeats it as a repetition (I12), and the map is asked for anew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from redis import crc, exceptions

from rq_dlq._calls import Call, Command
from rq_dlq._redis.trouble import TRANSIENT, Passing, refusal
from rq_dlq._work import Batch
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Step, Steps

SLOTS = 16_384
REDIRECTIONS = 5  # in one exchange, after which the cluster is left alone for a while
NO_KEY = {b"ACL", b"CLUSTER", b"CONFIG", b"INFO", b"PING", b"SCRIPT", b"TIME", b"WAIT"}


class Node(NamedTuple):
    """Where a node is. With the port 0 it is the one that the broker's URL leads to."""

    host: str
    port: int


Route: TypeAlias = Generator[tuple[Node, "Commands"], list[Any], list[Any]]
Redirected: TypeAlias = Generator[tuple[Node, "Commands"], list[Any], list["Unit"]]


def is_node() -> Steps[bool]:
    """Whether the server is a node of a cluster; one that may not be asked counts as none."""
    try:
        return (yield Command((b"INFO", b"cluster"), lambda reply, _: b"cluster_enabled:1" in reply))  # type: ignore[no-any-return]
    except BrokerRefused:
        return False


@dataclass
class Cluster:
    """What is known of a cluster; all connections of a broker share it.

    Attributes:
        seed: the node that the broker's URL leads to.
        owners: the node of each slot; None: no node has it.
        suspect: the node that failed last; None: the map is fresh.
    """

    seed: Node
    owners: tuple[Node | None, ...] = (None,) * SLOTS
    suspect: Node | None = None

    def __post_init__(self) -> None:
        self.suspect = self.seed  # nobody was asked yet

    @property
    def nodes(self) -> list[Node]:
        """Those that have slots, by address."""
        return sorted(filter(None, {*self.owners}))

    def node_of(self, slot: int | None) -> Node:
        """Where a slot is; None: any node will do."""
        owner = None if slot is None else self.owners[slot]
        return owner or next(filter(None, self.owners), self.seed)

    def redirected(self, error: Any, node: Node) -> Node | None:
        """Where a node says that a slot is; None: it is there for good, and so the map says, too."""
        there = _node(error.host, error.port, node)
        if not isinstance(error, exceptions.MovedError):
            return there
        self.owners = (*self.owners[: error.slot_id], there, *self.owners[error.slot_id + 1 :])
        return None

    def look(self) -> Generator[tuple[Node, Commands], list[Any], None]:
        """Ask for the map: the node that failed last is asked last.

        Raises:
            ConnectionError, TimeoutError: no node can be reached.
            BrokerRefused: the user must not ask.
        """
        failure: Exception = Passing("the cluster has no nodes")
        for node in sorted({self.seed, *self.nodes}, key=lambda node: node == self.suspect):
            try:
                (reply,) = yield node, [(b"CLUSTER", b"SLOTS")]
            except TRANSIENT as error:
                failure = error
                continue
            if isinstance(reply, Exception):
                raise refusal(reply, (b"CLUSTER", b"SLOTS"))
            self.owners, self.suspect = read_slots(reply, node), None
            return
        raise failure


def seed_of(pool: Any) -> Node:
    """The node that a pool leads to."""
    settings = pool.connection_kwargs
    if "path" in settings:
        return Node("", 0)
    return Node(settings.get("host", "localhost"), settings.get("port", 6379))


def read_slots(reply: Sequence[Any], asked: Node) -> tuple[Node | None, ...]:
    """The map of slots from CLUSTER SLOTS; a node without an address is the one that was asked."""
    owners: list[Node | None] = [None] * SLOTS
    for first, last, (host, port, *_), *_ in reply:
        owners[first : last + 1] = [_node(host, port, asked)] * (last + 1 - first)
    return tuple(owners)


def _node(host: bytes | str | None, port: int, asked: Node) -> Node:
    name = host.decode() if isinstance(host, bytes) else host or ""
    if name in {"", "?"}:
        name = asked.host
    return Node(name, port) if name and port else asked


@dataclass(slots=True)
class Unit:
    """A command with a key, and those without that go along with it: on the same connection, in order.

    Attributes:
        places: theirs among all commands.
        key: the place of the one with the key; None: none has one.
        slot: of the key.
        shared: the key is not one queue's but the namespace's.
        asked: a node that shall take it though the slot is not its own yet.
    """

    places: list[int] = field(default_factory=list[int])
    key: int | None = None
    slot: int | None = None
    shared: bool = False
    asked: Node | None = None

    def said(self, commands: Commands) -> Iterator[tuple[Any, ...]]:
        """What goes over the wire."""
        for place in self.places:
            if self.asked and place == self.key:
                yield (b"ASKING",)
            yield commands[place]

    def hear(self, heard: Iterator[Any], replies: list[Any]) -> Any:
        """Put the replies to their places; the one about the key."""
        for place in self.places:
            if self.asked and place == self.key:
                next(heard)
            replies[place] = next(heard)
        return None if self.key is None else replies[self.key]


def route(cluster: Cluster, commands: Commands) -> Route:
    """Say each command to the node that has its key; returns the replies in order, errors among them.

    Queues know nothing of each other, so what goes to several of them goes out by node. What concerns all of
    them, a key without a tag, keeps its place in the order: who notes something and then looks has noted it.
    """
    if cluster.suspect is not None:
        yield from cluster.look()
    replies: list[Any] = [None] * len(commands)
    for _, together in groupby(_units(commands), key=lambda unit: unit.slot if unit.shared else None):
        left = [*together]
        for _ in range(REDIRECTIONS):
            left = yield from _say(cluster, commands, left, replies)
            if not left:
                break
    return replies


def _say(cluster: Cluster, commands: Commands, units: Sequence[Unit], replies: list[Any]) -> Redirected:
    """Say units to their nodes, one node after the other; returns those that belong elsewhere."""
    by_node: dict[Node, list[Unit]] = {}
    for unit in units:
        by_node.setdefault(unit.asked or cluster.node_of(unit.slot), []).append(unit)
    left: list[Unit] = []
    for node, part in by_node.items():
        try:
            heard = iter((yield node, [command for unit in part for command in unit.said(commands)]))
        except TRANSIENT:
            cluster.suspect = node
            raise
        for unit in part:
            answer, unit.asked = unit.hear(heard, replies), None
            if isinstance(answer, exceptions.AskError):
                unit.asked = cluster.redirected(answer, node)
                left.append(unit)
            elif isinstance(answer, exceptions.ClusterDownError):
                cluster.suspect = node
    return left


def _units(commands: Commands) -> list[Unit]:
    """What goes without a key goes with the next one; a WAIT is about the one before."""
    units: list[Unit] = []
    unit = Unit()
    for place, command in enumerate(commands):
        key = key_of(command)
        if command[0] == b"WAIT" and units and not unit.places:
            units[-1].places.append(place)
            continue
        unit.places.append(place)
        if key is not None:
            unit.key, unit.slot, unit.shared = place, slot_of(key), "{" not in key
            units.append(unit)
            unit = Unit()
    if unit.places and units:
        units[-1].places += unit.places
    elif unit.places:
        units.append(unit)
    return units


def shares(cluster: Cluster, step: Step, scripts: Scripts) -> dict[Node, Batch]:
    """What of a step each node has to do, if it runs scripts."""
    calls: dict[Node, list[Any]] = {}
    for call in step.calls if isinstance(step, Batch) else [step] if isinstance(step, Call) else []:
        key = key_of(call.command(scripts))
        calls.setdefault(cluster.node_of(None if key is None else slot_of(key)), []).append(call)
    return {node: Batch(part) for node, part in calls.items()}


def key_of(command: Sequence[Any]) -> str | None:
    """The key by which a cluster decides where a command belongs; all of ours are text."""
    key = command[3:4] if command[0] == b"EVALSHA" else command[1:2]
    return None if command[0] in NO_KEY or not key else key[0]


def slot_of(key: str) -> int:
    """The slot of a key."""
    return crc.key_slot(key.encode())
