# Generated from rq_dlq/_redis/awaiting/nodes.py by `python -m tests.colours_twin --write`.
"""The nodes of a cluster, in place of the link to one server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq._redis.cluster import Cluster, Node, route, seed_of, shares, slot_of
from rq_dlq._redis.errors import TRANSIENT
from rq_dlq.core.steps.step import Pipeline

if TYPE_CHECKING:
    from collections.abc import Generator

    from rq_dlq._redis.blocking.link import Link
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._redis.guard import Guard
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step


class Nodes:
    """Links to the nodes, blocking.

    Args:
        link: the link to any node.
    """

    proven = frozenset[str]()  # the rights for a verb are never proven on all nodes

    def __init__(self, link: Link) -> None:
        self.cluster = Cluster(seed_of(link.pool))
        self._links = {self.cluster.seed: link}

    @property
    def pool(self) -> Any:
        """The redis-py pool of the node at the URL."""
        return self._links[self.cluster.seed].pool

    def link(self, node: Node) -> Link:
        """The link to a node."""
        found = self._links.get(node)
        return found or self._links.setdefault(node, self._links[self.cluster.seed].at(node))

    def in_haste(self) -> Nodes:
        """Links to the same nodes with a timeout of a second; see `Link.in_haste`."""
        nodes = Nodes(self._links[self.cluster.seed].in_haste())
        nodes.cluster = self.cluster
        nodes._links |= {node: link.in_haste() for node, link in [*self._links.items()]}
        return nodes

    def any_link(self) -> Link:
        """The link to a node that has not failed lately."""
        return self.link(self.cluster.node_of(None))

    def ready(self, key: str) -> None:
        """Open a connection to the node of a key unless one is idle; see `Link.ready`."""
        self.link(self.cluster.node_of(slot_of(key))).ready(key)

    def guard_by(self, guard: Guard | None) -> None:
        """Check each node before it accepts messages."""
        for link in [*self._links.values()]:
            link.guard_by(guard)

    def by_name(self) -> dict[str, Link]:
        """The link to each node that has slots, by its address."""
        self._run(self.cluster.look())
        return {str(node): self.link(node) for node in self.cluster.nodes}

    def talk(self, commands: Commands, *, apart: bool = False) -> list[Any]:
        """Send each command to the node that has its key; otherwise like `Link.talk`.

        Args:
            apart: if a node cannot be reached, the error is the reply to its commands.
        """
        return self._run(route(self.cluster, commands, apart=apart))  # type: ignore[no-any-return]

    def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection to any node."""
        node = self.cluster.node_of(None)
        try:
            result = self.link(node).alone(talk)
        except TRANSIENT as error:
            self.cluster.note_failure(node, error)  # the next exchange goes to another node
            raise
        self.cluster.failures.forget(node)
        return result

    def prove(self, step: Step, verbs: Verbs) -> None:
        """Check the rights on each node of a step, once: each node has its own users."""
        if self.cluster.suspect is not None:
            self._run(self.cluster.look())
        for node, share in shares(self.cluster, step, verbs).items():
            apart = isinstance(step, Pipeline) and step.apart
            if apart and self.cluster.rests(node):
                continue  # it gets no calls either
            try:
                self.link(node).prove(share, verbs)
            except TRANSIENT as error:
                self.cluster.note_failure(node, error)
                if not apart:
                    raise

    def _run(self, talk: Generator[tuple[Node, Commands], list[Any], Any]) -> Any:
        try:
            node, part = next(talk)
            while True:
                try:
                    replies = self.link(node).talk(part)
                except TRANSIENT as error:
                    node, part = talk.throw(error)
                else:
                    node, part = talk.send(replies)
        except StopIteration as stop:
            return stop.value

    def forget_rights(self) -> None:
        """Check the rights again before the next step."""
        for link in [*self._links.values()]:
            link.forget_rights()

    def close(self) -> None:
        """Close all connections."""
        for link in [*self._links.values()]:
            link.close()
