"""Routes commands to the nodes of a cluster, without sockets, for both colours.

A route is a generator: it yields a node with commands, and receives the replies. If the node cannot be
reached, the error is thrown in. So it is tested with made-up nodes.

- *MOVED* updates the map, *ASK* goes to the other node once. The redirected command was not carried out, so
  it is sent again at once. After a lost node, TRYAGAIN or CLUSTERDOWN the caller repeats the step, marked as
  a repetition (I12), and except after TRYAGAIN the map is read again first, from another node than the one
  that failed. Verbs declare keys that mostly do not exist, so a queue is unavailable while its slot moves. A
  call waits up to 5 s for that, even if it would fail fast elsewhere.
- *Commands for several queues* are grouped by node. A key without a hash tag belongs to all queues: a command
  on it keeps its place in the order, since a client that registers a name must have done so before it reads
  the map of policies. A command without a key travels with the next command (FUNCTION LOAD, TIME), a WAIT
  with the one before. If no command has a key (ACL WHOAMI), they go to a node that has not failed since its
  last answer, or else to the node that failed first: a dead node without a replica stays in the map.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from redis import crc, exceptions

from rq_dlq._redis.errors import TRANSIENT, Passing, at_node, refusal
from rq_dlq._redis.failures import Failures, silence
from rq_dlq._redis.rights import RUNS
from rq_dlq.core.steps.call import Command
from rq_dlq.core.steps.step import Pipeline, calls_of
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step, Steps

SLOTS = 16_384
REDIRECTIONS = 5  # the most in one exchange; after that the caller waits before the next attempt
NO_KEY = {b"ACL", b"CLUSTER", b"CONFIG", b"FUNCTION", b"INFO", b"PING", b"SCRIPT", b"TIME", b"WAIT"}


class Node(NamedTuple):
    """The address of a node. Port 0: the server at the broker's Unix socket."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else "at the socket"


Route: TypeAlias = Generator[tuple[Node, "Commands"], list[Any], list[Any]]
Redirected: TypeAlias = Generator[tuple[Node, "Commands"], list[Any], list["Unit"]]


def is_node() -> Steps[bool]:
    """Whether the server is a node of a cluster; False if the user has no right to ask."""
    try:
        return (yield Command((b"INFO", b"cluster"), lambda reply: b"cluster_enabled:1" in reply))  # type: ignore[no-any-return]
    except BrokerRefused:
        return False


@dataclass
class Cluster:
    """The state of a cluster, which all connections of a broker share.

    Attributes:
        seed: the node at the broker's URL.
        owners: the node of each slot; None: no node has the slot.
        suspect: the node that failed last; None: the map is up to date.
        failures: the failures of nodes; an up-to-date map may still have these nodes.
    """

    seed: Node
    owners: tuple[Node | None, ...] = (None,) * SLOTS
    suspect: Node | None = None
    failures: Failures = field(default_factory=Failures)

    def __post_init__(self) -> None:
        self.suspect = self.seed  # the map has not been read yet

    @property
    def nodes(self) -> list[Node]:
        """The nodes that have slots, by address."""
        return sorted(filter(None, {*self.owners}))

    def node_of(self, slot: int | None) -> Node:
        """The node of a slot. For None it is any node, preferably one that has not failed lately."""
        if slot is not None and (owner := self.owners[slot]):
            return owner
        if not self.failures:
            return next(filter(None, self.owners), self.seed)
        return min(dict.fromkeys(filter(None, self.owners)), key=self.failures.at, default=self.seed)

    def note_failure(self, node: Node, error: Exception) -> None:
        """Note that a node could not be reached, so the map may be outdated; name the node in the error."""
        self.suspect = node
        self.failures.note(node, at_node(error, str(node)))

    def rests(self, node: Node) -> Exception | None:
        """The error of a node that failed recently: calls that can wait do not try it yet. Otherwise None."""
        if failure := self.failures.recent(node):
            self.suspect = node  # a replica may have replaced it
        return failure

    def redirected(self, error: Any, node: Node) -> Node | None:
        """The node to ask once, after ASK; None after MOVED, which updates the map."""
        there = _node(error.host, error.port, node)
        if not isinstance(error, exceptions.MovedError):
            return there
        self.owners = (*self.owners[: error.slot_id], there, *self.owners[error.slot_id + 1 :])
        return None

    def look(self) -> Generator[tuple[Node, Commands], list[Any], None]:
        """Read the map. Failed nodes are asked last, the one that failed most recently at the very end.

        Raises:
            ConnectionError, TimeoutError: no node can be reached.
            BrokerRefused: the user has no right to ask.
        """
        failure: Exception = Passing("the cluster has no nodes")
        for node in sorted(
            {self.seed, *self.nodes}, key=lambda one: (self.failures.at(one), one == self.suspect)
        ):
            try:
                (reply,) = yield node, [(b"CLUSTER", b"SLOTS")]
            except TRANSIENT as error:
                self.note_failure(node, error)
                failure = error
                continue
            self.failures.forget(node)
            if isinstance(reply, Exception):
                raise refusal(reply, (b"CLUSTER", b"SLOTS"))
            self.owners, self.suspect = read_slots(reply, node), None
            return
        raise failure


def seed_of(pool: Any) -> Node:
    """The node that a pool connects to."""
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
    """A command with a key, and the commands without a key that must follow on the same connection.

    Attributes:
        indices: the positions of these commands in the exchange.
        key: the position of the command with the key; None: no command has a key.
        slot: the slot of the key.
        shared: the key belongs to the namespace, not to a queue.
        asked: the node that must be asked (ASKING) to run the command before it owns the slot.
    """

    indices: list[int] = field(default_factory=list[int])
    key: int | None = None
    slot: int | None = None
    shared: bool = False
    asked: Node | None = None

    def sent(self, commands: Commands) -> Iterator[tuple[Any, ...]]:
        """The commands to send, including ASKING."""
        for index in self.indices:
            if self.asked and index == self.key:
                yield (b"ASKING",)
            yield commands[index]

    def receive(self, received: Iterator[Any], replies: list[Any]) -> Any:
        """Store the replies at their positions; returns the reply to the command with the key."""
        for index in self.indices:
            if self.asked and index == self.key:
                next(received)
            replies[index] = next(received)
        return None if self.key is None else replies[self.key]


def route(cluster: Cluster, commands: Commands, *, apart: bool = False) -> Route:
    """Send each command to the node that has its key; returns the replies in order, including errors.

    Queues are independent, so commands for several queues are grouped by node. A key without a hash tag
    belongs to all queues: a command on it keeps its place in the order, so that a write is carried out before
    later reads.

    Args:
        apart: if a node cannot be reached, the error is the reply to its commands, and the others continue.
    """
    if cluster.suspect is not None:
        yield from cluster.look()
    replies: list[Any] = [None] * len(commands)
    for _, together in groupby(_units(commands), key=lambda unit: unit.slot if unit.shared else None):
        left = [*together]
        for _ in range(REDIRECTIONS):
            left = yield from _send(cluster, commands, left, replies, apart=apart)
            if not left:
                break
    return replies


def _send(
    cluster: Cluster, commands: Commands, units: Sequence[Unit], replies: list[Any], *, apart: bool
) -> Redirected:
    """Send units to their nodes, one node after the other; returns the redirected ones."""
    by_node: dict[Node, list[Unit]] = {}
    for unit in units:
        by_node.setdefault(unit.asked or cluster.node_of(unit.slot), []).append(unit)
    left: list[Unit] = []
    for node, part in by_node.items():
        sent = [command for unit in part for command in unit.sent(commands)]
        received = yield from _said(cluster, node, sent, apart=apart)
        for unit in part:
            answer, unit.asked = unit.receive(received, replies), None
            if isinstance(answer, exceptions.AskError):
                unit.asked = cluster.redirected(answer, node)
                left.append(unit)
            elif isinstance(answer, exceptions.ClusterDownError):
                cluster.suspect = node
    return left


def _said(
    cluster: Cluster, node: Node, commands: Commands, *, apart: bool
) -> Generator[tuple[Node, Commands], list[Any], Iterator[Any]]:
    """The replies of a node."""
    if apart and (failure := cluster.rests(node)):
        return repeat(failure)
    try:
        received = yield node, commands
    except TRANSIENT as error:
        cluster.note_failure(node, error)
        if not apart:
            raise
        return repeat(silence(node, error))
    cluster.failures.forget(node)
    return iter(received)


def _units(commands: Commands) -> list[Unit]:
    """Group commands: a command without a key joins the next one with a key, a WAIT the previous one."""
    units: list[Unit] = []
    unit = Unit()
    for index, command in enumerate(commands):
        key = key_of(command)
        if command[0] == b"WAIT" and units and not unit.indices:
            units[-1].indices.append(index)
            continue
        unit.indices.append(index)
        if key is not None:
            unit.key, unit.slot, unit.shared = index, slot_of(key), "{" not in key
            units.append(unit)
            unit = Unit()
    if unit.indices and units:
        units[-1].indices += unit.indices
    elif unit.indices:
        units.append(unit)
    return units


def shares(cluster: Cluster, step: Step, verbs: Verbs) -> dict[Node, Pipeline]:
    """The calls of a step by node; empty for a plain command."""
    calls: dict[Node, list[Any]] = {}
    for call in () if isinstance(step, Command) else calls_of(step):
        key = key_of(call.command(verbs))
        calls.setdefault(cluster.node_of(None if key is None else slot_of(key)), []).append(call)
    return {node: Pipeline(part) for node, part in calls.items()}


def key_of(command: Sequence[Any]) -> str | None:
    """The key that determines the node of a command. All our keys are text."""
    key = command[3:4] if command[0] in RUNS else command[1:2]
    return None if command[0] in NO_KEY or not key else key[0]


def slot_of(key: str) -> int:
    """The slot of a key."""
    return crc.key_slot(key.encode())
