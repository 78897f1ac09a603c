# Generated from rq_dlq/_redis/awaiting/connections.py by `python -m tests.colours_twin --write`.
"""Runs steps, blocking."""

from __future__ import annotations

import random
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity
from redis import exceptions

from rq_dlq._redis.blocking.link import Link
from rq_dlq._redis.blocking.listener import Listener
from rq_dlq._redis.blocking.nodes import Nodes
from rq_dlq._redis.blocking.own import briefly, sleep
from rq_dlq._redis.cluster import is_node
from rq_dlq._redis.errors import (
    TRANSIENT,
    Passing,
    at_node,
    is_final,
    node_unavailable,
    refusal,
    unavailable,
)
from rq_dlq._redis.exchange import exchange, failure, perform
from rq_dlq._redis.guard import Guard
from rq_dlq._redis.loading import for_server, runs_otherwise
from rq_dlq._redis.pools import BLOCKING, pool_of
from rq_dlq._redis.retries import FAIL_FAST, ONE_TRY, Retries
from rq_dlq._redis.tries import Tries
from rq_dlq._redis.urls import masked
from rq_dlq.core.steps.call import Call, WrongReply, repetition
from rq_dlq.core.steps.step import Pipeline, Wait
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, MissingRights

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.exchange import Exchange
    from rq_dlq._redis.waiting import Waiting
    from rq_dlq._scripts import Joined
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step, Steps

R = TypeVar("R")


class Connections:
    """Runs steps, blocking, safe with threads and after a fork.

    Args:
        url: the URL of Redis; if a pool is passed, the name of the server in error messages.
        verbs: all verbs.
        retries: how long a call is repeated while Redis does not answer.
        pool: a redis-py connection pool to use instead of the URL.
        revive: called before a call is repeated; it restarts an embedded server that has died.
    """

    _link: Link | Nodes

    def __init__(
        self,
        url: str,
        verbs: Joined,
        retries: Retries = FAIL_FAST,
        pool: Any = None,
        revive: Callable[[], object] | None = None,
    ) -> None:
        self._url = url
        self.verbs: Verbs = verbs
        self._revive = revive
        make = partial(pool_of, url, BLOCKING) if pool is None else lambda: pool
        self.use(Link(make, ours=pool is None), retries)

    def use(self, link: Link | Nodes, retries: Retries, node: str = "") -> None:
        """Use this link and these retries; if it is a node of a cluster, errors name it."""
        self._node = node
        self._link, self._talk, self._proven = link, link.talk, link.proven
        replaced = isinstance(link, Nodes) or hasattr(self.pool, "sentinel_manager")
        self._patience = retries.through_failover() if replaced else retries
        self._timeout = self.pool.connection_kwargs.get("socket_timeout")
        self._retries = self._patience.settings()

    def fit(self, version: tuple[int, ...]) -> None:
        """Run the verbs as a server of this version can."""
        self.verbs = for_server(self.verbs, version)

    @property
    def pool(self) -> Any:
        """The redis-py pool; in a cluster, the pool of the node at the URL."""
        return self._link.pool

    def run(self, steps: Steps[R]) -> R:
        """Run the steps to their end; returns their result."""
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            value, error = None, None
            try:
                value = self._perform(step)
            except exceptions.ResponseError as raised:  # a new connection was refused
                error = refusal(raised)
            except BaseException as raised:  # noqa: BLE001 - the steps decide
                if isinstance(raised, MissingRights):
                    self._link.forget_rights()
                error = raised

    def ready(self, key: str) -> None:
        """Open a connection to the server of a key unless one is idle, so that the next steps need not wait.

        An error is ignored: the next steps report it.
        """
        with suppress(*TRANSIENT, exceptions.RedisError):
            self._link.ready(key)

    def run_once(self, steps: Steps[R]) -> R:
        """Run steps without waits, retries or long timeouts, since the program is ending.

        Raises:
            BrokerUnavailable: the server does not answer, or not in time.
        """
        try:
            with briefly(self) as brief:
                vars(brief)["_patience"] = ONE_TRY
                return brief.run(steps)
        except TimeoutError as error:
            raise self._unavailable(error) from None

    def _perform(self, step: Step) -> Any:
        try:
            return self._once(step, repeated=False)
        except TRANSIENT as error:
            if is_final(error):
                raise self._unavailable(error) from None
            self._failed(tries := Tries(step, self._patience.limit()), error)
            if self._patience.end_with(error):
                raise tries.of_last_try(self._unavailable(error)) from error
        if isinstance(step, Wait):  # it need not be repeated, and the next call finds the server again
            took = self._spread(step)
            return took if step.then is None else (took, self._perform(repetition(step.then)))
        if self._revive is not None:
            self._revive()
        try:
            return tenacity.Retrying(sleep=self._pause, **self._retries)(self._again, step, tries)
        except TRANSIENT as error:
            raise tries.of_last_try(self._unavailable(error)) from error
        except exceptions.ResponseError as error:  # a new connection was refused
            raise tries.of_last_try(refusal(error)) from error
        except BrokerRefused as error:
            raise tries.of_last_try(error)  # noqa: B904 - the same

    def _unavailable(self, error: BaseException) -> Exception:
        return unavailable(self._url, at_node(error, self._node) if self._node else error)

    def _again(self, step: Step, tries: Tries) -> Any:
        try:
            return self._once(step, repeated=tries.indeterminate)
        except TRANSIENT as error:
            self._failed(tries, error)
            raise

    def _failed(self, tries: Tries, error: BaseException) -> None:
        tries.failed(error)
        if isinstance(error, WrongReply):  # its connection has already been returned
            self._link.close()

    def _spread(self, cut_off: Wait) -> float:
        """Sleep for part of the wait, so that a thousand interrupted clients do not reconnect together."""
        pause = random.uniform(0, cut_off.milliseconds)  # noqa: S311 - it spreads retries; it is not for security
        sleep(pause, self._patience.until)
        return pause

    def _pause(self, seconds: float) -> None:
        sleep(1000 * seconds, self._patience.until)

    def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Call) and step.verb in self._proven:  # the usual case, without generators
            command = step.command(self.verbs)
            (reply,) = self._talk([command])
            if not isinstance(reply, Exception):
                return step.read(reply, repeated)
            if not runs_otherwise(self.verbs, reply, command):
                raise failure(reply, command, self.verbs)
        if isinstance(step, Pipeline) and step.apart and isinstance(self._link, Nodes):
            return self._apart(step, self._link, repeated=repeated)
        if isinstance(step, Pipeline) and all(call.verb in self._proven for call in step.calls):
            talk = exchange(step.calls, self.verbs, repeated=repeated)
        else:
            self._link.prove(step, self.verbs)
            talk = perform(step, self.verbs, repeated=repeated, timeout=self._timeout)
        commands = next(talk)
        while True:
            replies = self._talk(commands)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return stop.value

    def _apart(self, step: Pipeline, nodes: Nodes, *, repeated: bool) -> list[Any]:
        """Run a pipeline on the nodes that can be reached; the results of the other calls are errors."""
        nodes.prove(step, self.verbs)
        talk = exchange(step.calls, self.verbs, repeated=repeated, apart=True)
        commands = next(talk)
        while True:
            replies = nodes.talk(commands, apart=True)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return [
                    node_unavailable(self._url, result) if isinstance(result, Passing) else result
                    for result in stop.value
                ]

    def listen(self, waiting: Waiting) -> None:
        """Listen on behalf of the callers that wait for results, until none is left."""
        Listener(waiting, self._link.any_link, self.run).listen()

    def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, without other calls in between.

        Raises:
            BrokerUnavailable: the server does not answer; the exchange is not repeated.
        """
        try:
            return self._link.alone(talk)
        except TRANSIENT as error:
            raise self._unavailable(error) from error

    def guard_by(self, check: Callable[[], Steps[object]]) -> None:
        """Run these steps again before a server accepts messages; see `Guard`."""
        self._link.guard_by(Guard(check, self.verbs))

    def route(self) -> None:
        """If the server is a node of a cluster, route each call to the node of its queue."""
        link = self._link
        if isinstance(link, Link) and self.run(is_node()):
            self.use(Nodes(link), self._patience)
            self.masters()

    def masters(self) -> dict[str, Connections]:
        """Connections to each node of a cluster that has slots, by address; or to the only server.

        They fail fast, since another node may replace a lost one.
        """
        if isinstance(self._link, Link):
            return {masked(self._url): self}
        try:
            links = self._link.by_name()
        except TRANSIENT as error:
            raise self._unavailable(error) from error
        each = {name: self._over(link, FAIL_FAST, name) for name, link in links.items()}
        return each or {masked(self._url): self}  # in a new cluster no node has slots

    def everywhere(self, make: Callable[[], Steps[R]]) -> dict[str, R]:
        """Run the same steps on each master; returns the results by address, leaving out unreachable masters.

        Raises:
            BrokerUnavailable: no master can be reached.
        """
        results: dict[str, R] = {}
        failure: BrokerUnavailable | None = None
        masters = self.masters()
        for name, master in masters.items():
            try:
                results[name] = master.run(make())
            except BrokerUnavailable as error:
                failure = error
        if failure is not None and not results:
            raise failure
        return results

    def _over(self, link: Link | Nodes, retries: Retries, node: str) -> Connections:
        other = copy(self)
        other.use(link, retries, node)
        return other

    def with_retries(self, retries: Retries) -> Connections:
        """The same connections with other retries."""
        return self._over(self._link, retries, self._node)

    def in_haste(self) -> Connections:
        """New connections to the same server with a timeout of a second, for calls that are tried once."""
        return self._over(self._link.in_haste(), ONE_TRY, self._node)

    def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        self._link.close()
