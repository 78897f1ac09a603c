"""Where the trials of a row run: one server, or a cluster. A row asks for a site, and knows no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import redis

from rq_dlq._redis.blocking.nodes import Nodes
from rq_dlq._redis.cluster import slot_of
from tests.servers import Server, free_port
from tests.servers.clusters import Cluster, Migration, PlainClient
from tests.servers.proxy import Proxy, Rule

CALM = ("--cluster-node-timeout", "15000")
"""As it is by default. With a second, as in the tests of clusters, nodes of a busy machine take each other
for dead, and the cluster refuses all calls meanwhile: longer than the leases of some rows."""
Talk: TypeAlias = Callable[[list[tuple[Any, ...]]], list[Any]]


class Site:
    """One server, which runs, and has nothing in it.

    Attributes:
        url: for a broker.
        servers: all that there are.
    """

    def __init__(self, server: Server) -> None:
        self.url, self.servers = server.url, [server]

    def client(self) -> Any:
        """A plain client: it finds each key, and adds up what the servers count."""
        return self.servers[0].client()

    def clients(self) -> list[redis.Redis]:
        """A plain client of each server."""
        return [server.client() for server in self.servers]

    def names(self, name: str) -> tuple[str, ...]:
        """Names of queues, one on each server; this is the first of them."""
        return (name,)

    def move(self, name: str) -> None:
        """If there is another server, it gets the slot of this queue."""

    def restart(self, *servers: Server) -> None:
        """These are killed and start again, all at once."""
        for server in servers:
            server.kill()
        for server in servers:
            server.start()

    def wait_well(self) -> None:
        """Wait until all servers do all that is asked of them."""

    def behind(self, rule: Rule) -> AbstractContextManager[Proxy]:
        """A network in front of all servers, which does with each exchange what the rule says."""
        return Proxy(self.servers[0].socket, self.servers[0].directory, rule)


class Clustered(Site):
    """The nodes of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.url, self.servers, self._cluster = cluster.url, cluster.nodes, cluster

    def client(self) -> Any:
        return PlainClient(self._cluster)

    def names(self, name: str) -> tuple[str, ...]:
        found: dict[int, str] = {}
        for number in count():
            tried = f"{name}{number or ''}"
            found.setdefault(self._cluster.owner(f"{{{tried}}}").port, tried)
            if len(found) == len(self.servers):
                break
        return tuple(found.values())

    def move(self, name: str) -> None:
        self.wait_well()
        slot = slot_of(f"{{{name}}}")
        Migration(self._cluster, slot, self._cluster.other(self._cluster.owner_of(slot))).run()

    def wait_well(self) -> None:
        self._cluster.wait_well()

    def behind(self, rule: Rule) -> AbstractContextManager[Proxy]:
        return self._cluster.behind(rule)


def measure(connections: Any, measured: Callable[[Talk], Talk]) -> None:
    """Have each exchange of blocking connections with one server go through what this makes of it."""
    if isinstance(connections._link, Nodes):
        for link in connections._link._links.values():
            vars(link)["talk"] = measured(link.talk)
    else:
        connections._talk = measured(connections._talk)


@contextmanager
def opened(directory: Path, *options: str, clustered: bool) -> Iterator[Site]:
    """A site, as long as it is used.

    Args:
        options: of each server, as on its command line.
    """
    if clustered:
        with Cluster(directory, *CALM, *options) as cluster:
            yield Clustered(cluster)
    else:
        with Server(directory, *options, port=free_port()) as server:
            yield Site(server)
