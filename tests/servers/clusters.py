"""Redis Clusters for the tests: several nodes on 127.0.0.1, started in two or three seconds."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import redis
from redis.crc import key_slot

from tests.servers import STARTS, Server, wait_until
from tests.servers.certificates import Certificate
from tests.servers.proxy import Proxy, Rule

SLOTS = 16_384
SETSLOT = ("CLUSTER", "SETSLOT")
BUS = 10_000  # so much above its port the others hear a node


class Cluster:
    """Masters that share the slots evenly, each with as many replicas.

    Args:
        certificate: with which all of them are reached by TLS, and not without.

    Attributes:
        nodes: the masters, then their replicas in the same order, then the next replicas.
    """

    def __init__(
        self,
        directory: Path | str,
        *options: str,
        masters: int = 3,
        replicas: int = 0,
        program: str | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.masters, self._certificate = masters, certificate
        self.nodes = [
            Server(
                Path(directory) / str(number),
                *("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--bind", "127.0.0.1"),
                *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
                *options,
                *(certificate.options(port) if certificate else ()),
                program=program,
                port=port,
            )
            for number, port in enumerate(cluster_ports(masters * (1 + replicas)))
        ]
        self._stack = ExitStack()
        self._announced: dict[int, Server] = {}

    @property
    def url(self) -> str:
        """Of the first node."""
        place = f"127.0.0.1:{self.nodes[0].port}"
        return f"rediss://{place}?{self._certificate.trusted}" if self._certificate else f"redis://{place}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.kill)
                node.start(wait=False)
            wait_until(lambda: all(node.answers() for node in self.nodes), STARTS)
            self._join()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _join(self) -> None:
        """Share out the slots, and have all know each other."""
        bounds = [SLOTS * number // self.masters for number in range(self.masters + 1)]
        for number, node in enumerate(self.nodes):
            said(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self.masters:
                said(node, "CLUSTER", "ADDSLOTS", *range(bounds[number], bounds[number + 1]))
            for other in self.nodes[:number]:  # all, since word of others spreads slowly
                said(node, "CLUSTER", "MEET", "127.0.0.1", other.port)
        wait_until(lambda: all(acquaintances(node) == len(self.nodes) for node in self.nodes))
        for number, node in enumerate(self.nodes[self.masters :]):
            master = self.nodes[number % self.masters]
            said(node, "CLUSTER", "REPLICATE", said(master, "CLUSTER", "MYID"))
        self.wait_well()

    def other(self, node: Server) -> Server:
        """Another master."""
        return next(master for _, _, master in self.slots() if master is not node)

    def wait_well(self, seconds: float = 20) -> None:
        """Wait until all that run say that it is well, and say the same of it."""
        wait_until(lambda: all(well(node) for node in self.running) and self.agrees(), seconds)

    @property
    def running(self) -> list[Server]:
        """The nodes that were not killed."""
        return [node for node in self.nodes if node.process]

    def agrees(self) -> bool:
        """Whether all that run see the same masters, each with the same slots by an epoch of its own.

        A node tells its epoch half a second later. Slots that move before are claimed by two nodes at one
        epoch, or by an outdated one, and each node may then name another owner for good.
        """
        with suppress(redis.RedisError):  # one ends, or begins
            view, *others = {frozenset(masters_as_seen(node)) for node in self.running}
            return not others and len({epoch for _, epoch, _ in view}) == len(view)
        return False

    def owner(self, key: str) -> Server:
        """The node that has a key's slot, as those that run see it."""
        return self.owner_of(key_slot(key.encode()))

    def owner_of(self, slot: int) -> Server:
        """The node that has a slot; a node that seems to be down for a moment is in no list of slots."""
        found: list[Server] = []

        def look() -> list[Server]:
            found[:] = [node for first, last, node in self.slots() if first <= slot <= last]
            return found

        wait_until(look)
        return found[0]

    def slots(self) -> list[tuple[int, int, Server]]:
        """First slot, last slot, master."""
        by_port = {node.port: node for node in self.nodes} | self._announced
        for node in self.nodes:
            with suppress(redis.RedisError):
                found = said(node, "CLUSTER", "SLOTS")
                return [(first, last, by_port[master[1]]) for first, last, master, *_ in found]
        message = "no node runs"
        raise AssertionError(message)

    @contextmanager
    def behind(self, rule: Rule) -> Iterator[Proxy]:
        """A network in front of all nodes, who say that they are at its other end; Redis 7 and later.

        That of the first node is given.
        """
        with ExitStack() as stack:
            proxies = [stack.enter_context(Proxy(node.socket, node.directory, rule)) for node in self.nodes]
            self._announced = {proxy.port: node for proxy, node in zip(proxies, self.nodes, strict=True)}
            self._announce([proxy.port for proxy in proxies])
            yield proxies[0]
            self._announce([0 for _ in self.nodes])
            self._announced = {}

    def _announce(self, ports: Sequence[int]) -> None:
        """Have nodes say that they are at these ports, 0: at their own, until all know it."""
        for node, port in zip(self.nodes, ports, strict=True):
            said(node, "CONFIG", "SET", "cluster-announce-port", port)
        told = {port or node.port for node, port in zip(self.nodes, ports, strict=True)}
        wait_until(
            lambda: all({row[2][1] for row in said(node, "CLUSTER", "SLOTS")} == told for node in self.nodes)
        )


class Migration:
    """A slot on its way from one node to another, as `redis-cli --cluster reshard` takes it."""

    def __init__(self, cluster: Cluster, slot: int, target: Server) -> None:
        self.slot, self.target, self._cluster = slot, target, cluster
        self._masters = list({node.port: node for _, _, node in cluster.slots()}.values())
        self.source = cluster.owner_of(slot)

    def begin(self) -> None:
        """From now on the source sends on whoever asks for keys that it does not have."""
        said(self.target, *SETSLOT, self.slot, "IMPORTING", said(self.source, "CLUSTER", "MYID"))
        said(self.source, *SETSLOT, self.slot, "MIGRATING", said(self.target, "CLUSTER", "MYID"))

    def carry(self) -> None:
        """Move the keys."""
        address = ("127.0.0.1", self.target.port, "", 0, 5000)
        while keys := said(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, 100):
            said(self.source, "MIGRATE", *address, "KEYS", *keys)

    def end(self) -> None:
        """The slot is the target's, and all know it."""
        owner = said(self.target, "CLUSTER", "MYID")
        first = (self.target, self.source)
        for node in (*first, *(node for node in self._masters if node not in first)):
            said(node, *SETSLOT, self.slot, "NODE", owner)
        wait_until(self._cluster.agrees)

    def run(self) -> None:
        """All of it."""
        self.begin()
        self.carry()
        self.end()


@contextmanager
def emptied(cluster: Cluster) -> Iterator[PlainClient]:
    """A plain client of a cluster, which is empty now."""
    client = PlainClient(cluster)
    client.flushall()
    yield client
    client.close()


class PlainClient:
    """Looks at the keys of a cluster: each method asks the node that has its first argument, a key."""

    def __init__(self, cluster: Cluster) -> None:
        self._clients = {node.port: node.client() for node in cluster.nodes}
        self._ports = [
            (last, node.port) for _, last, node in sorted(cluster.slots(), key=lambda slots: slots[0])
        ]

    def at(self, key: str | bytes) -> redis.Redis:
        """The client of the node that has a key."""
        slot = key_slot(key if isinstance(key, bytes) else key.encode())
        return self._clients[next(port for last, port in self._ports if slot <= last)]

    def all(self) -> list[redis.Redis]:
        """Those of all masters."""
        return [self._clients[port] for port in dict.fromkeys(port for _, port in self._ports)]

    def keys(self, pattern: str | bytes = "*") -> list[Any]:
        """The keys of all nodes."""
        return [key for client in self.all() for key in client.keys(pattern)]

    def script_flush(self) -> None:
        """No node knows a script any more."""
        for client in self.all():
            client.script_flush()

    def script_exists(self, *shas: str) -> list[bool]:
        """Which scripts any node knows."""
        return [
            any(known) for known in zip(*(client.script_exists(*shas) for client in self.all()), strict=True)
        ]

    def time(self) -> tuple[int, int]:
        """The clock, which all nodes share here."""
        return self.all()[0].time()

    def info(self, section: str) -> dict[str, Any]:
        """The counts of a section, those of all nodes together."""
        return _sum([client.info(section) for client in self.all()])

    def flushall(self) -> None:
        """Nothing is left."""
        for client in self.all():
            client.flushall()

    def __getattr__(self, name: str) -> Any:
        return lambda key, *args, **options: getattr(self.at(key), name)(key, *args, **options)

    def pipeline(self, *, transaction: bool) -> _Pipeline:
        """Commands to be run together, on any nodes."""
        assert not transaction
        return _Pipeline(self)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()


class _Pipeline:
    """Runs each command at its node as it is given."""

    def __init__(self, client: PlainClient) -> None:
        self._client, self._replies = client, list[Any]()

    def __getattr__(self, name: str) -> Any:
        command = getattr(self._client, name)
        return lambda *args, **options: self._replies.append(command(*args, **options))

    def execute(self) -> list[Any]:
        """The replies."""
        return self._replies


def said(node: Server, *command: str | int | bytes) -> Any:
    """What a node says to a command."""
    with node.client() as client:
        return client.execute_command(*command)


def acquaintances(node: Server) -> int:
    """How many nodes of the cluster, itself among them, a node has shaken hands with."""
    return sum(b"handshake" not in line for line in said(node, "CLUSTER", "NODES").splitlines())


def masters_as_seen(node: Server) -> Iterator[tuple[bytes, bytes, tuple[bytes, ...]]]:
    """The masters that a node knows: id, epoch, slots without those on their way."""
    for line in said(node, "CLUSTER", "NODES").splitlines():
        name, _, flags, _, _, _, epoch, _, *slots = line.split()
        if b"master" in flags and b"handshake" not in flags:
            yield name, epoch, tuple(slot for slot in slots if not slot.startswith(b"["))


def well(node: Server) -> bool:
    """Whether a node says that the cluster is well; and has, if it is a replica, what its master has."""
    with suppress(redis.RedisError), node.client() as client:
        facts: Any = client.info("replication")
        synced = facts["role"] == "master" or facts["master_link_status"] == "up"
        return synced and b"cluster_state:ok" in said(node, "CLUSTER", "INFO")
    return False


def one_node() -> tuple[str, ...]:
    """Options of a server that is a node. Without a port all would have the same bus port."""
    (port,) = cluster_ports(1)
    return "--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", str(port)


def cluster_ports(count: int) -> Sequence[int]:
    """Ports of which those of the cluster's bus are free, too."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(12_000, 30_000)
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + BUS))
            found.append(port)
    return found


def _sum(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers added up, in whatever depth."""
    found: dict[str, Any] = {}
    for name in {name for one in counts for name in one}:
        values = [one[name] for one in counts if name in one]
        if isinstance(values[0], dict):
            found[name] = _sum(values)
        elif isinstance(values[0], int | float):
            found[name] = sum(values)
    return found
