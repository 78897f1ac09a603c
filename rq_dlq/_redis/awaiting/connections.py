"""Runs steps, awaiting."""

from __future__ import annotations

import random
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity
from redis import exceptions

from rq_dlq._redis.awaiting.link import AsyncLink
from rq_dlq._redis.awaiting.listener import AsyncListener
from rq_dlq._redis.awaiting.nodes import AsyncNodes
from rq_dlq._redis.awaiting.own import briefly, sleep
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
from rq_dlq._redis.pools import AWAITING, pool_of
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


class AsyncConnections:
    """Runs steps, awaiting, in one event loop at a time.

    Args:
        url: the URL of Redis; if a pool is passed, the name of the server in error messages.
        verbs: all verbs.
        retries: how long a call is repeated while Redis does not answer.
        pool: a redis-py connection pool to use instead of the URL.
        revive: called before a call is repeated; it restarts an embedded server that has died.
    """

    _link: AsyncLink | AsyncNodes

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
        make = partial(pool_of, url, AWAITING) if pool is None else lambda: pool
        self.use(AsyncLink(make, ours=pool is None), retries)

    def use(self, link: AsyncLink | AsyncNodes, retries: Retries, node: str = "") -> None:
        """Use this link and these retries; if it is a node of a cluster, errors name it."""
        self._node = node
        self._link, self._talk, self._proven = link, link.talk, link.proven
        replaced = isinstance(link, AsyncNodes) or hasattr(self.pool, "sentinel_manager")
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

    async def run(self, steps: Steps[R]) -> R:
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
                value = await self._perform(step)
            except exceptions.ResponseError as raised:  # a new connection was refused
                error = refusal(raised)
            except BaseException as raised:  # noqa: BLE001 - the steps decide
                if isinstance(raised, MissingRights):
                    self._link.forget_rights()
                error = raised

    async def ready(self, key: str) -> None:
        """Open a connection to the server of a key unless one is idle, so that the next steps need not wait.

        An error is ignored: the next steps report it.
        """
        with suppress(*TRANSIENT, exceptions.RedisError):
            await self._link.ready(key)

    async def run_once(self, steps: Steps[R]) -> R:
        """Run steps without waits, retries or long timeouts, since the program is ending.

        Raises:
            BrokerUnavailable: the server does not answer, or not in time.
        """
        try:
            async with briefly(self) as brief:
                vars(brief)["_patience"] = ONE_TRY
                return await brief.run(steps)
        except TimeoutError as error:
            raise self._unavailable(error) from None

    async def _perform(self, step: Step) -> Any:
        try:
            return await self._once(step, repeated=False)
        except TRANSIENT as error:
            if is_final(error):
                raise self._unavailable(error) from None
            await self._failed(tries := Tries(step, self._patience.limit()), error)
            if self._patience.end_with(error):
                raise tries.of_last_try(self._unavailable(error)) from error
        if isinstance(step, Wait):  # it need not be repeated, and the next call finds the server again
            took = await self._spread(step)
            return took if step.then is None else (took, await self._perform(repetition(step.then)))
        if self._revive is not None:
            self._revive()
        try:
            return await tenacity.AsyncRetrying(sleep=self._pause, **self._retries)(self._again, step, tries)
        except TRANSIENT as error:
            raise tries.of_last_try(self._unavailable(error)) from error
        except exceptions.ResponseError as error:  # a new connection was refused
            raise tries.of_last_try(refusal(error)) from error
        except BrokerRefused as error:
            raise tries.of_last_try(error)  # noqa: B904 - the same

    def _unavailable(self, error: BaseException) -> Exception:
        return unavailable(self._url, at_node(error, self._node) if self._node else error)

    async def _again(self, step: Step, tries: Tries) -> Any:
        try:
            return await self._once(step, repeated=tries.indeterminate)
        except TRANSIENT as error:
            await self._failed(tries, error)
            raise

    async def _failed(self, tries: Tries, error: BaseException) -> None:
        tries.failed(error)
        if isinstance(error, WrongReply):  # its connection has already been returned
            await self._link.close()

    async def _spread(self, cut_off: Wait) -> float:
        """Sleep for part of the wait, so that a thousand interrupted clients do not reconnect together."""
        pause = random.uniform(0, cut_off.milliseconds)  # noqa: S311 - it spreads retries; it is not for security
        await sleep(pause, self._patience.until)
        return pause

    async def _pause(self, seconds: float) -> None:
        await sleep(1000 * seconds, self._patience.until)

    async def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Call) and step.verb in self._proven:  # the usual case, without generators
            command = step.command(self.verbs)
            (reply,) = await self._talk([command])
            if not isinstance(reply, Exception):
                return step.read(reply, repeated)
            if not runs_otherwise(self.verbs, reply, command):
                raise failure(reply, command, self.verbs)
        if isinstance(step, Pipeline) and step.apart and isinstance(self._link, AsyncNodes):
            return await self._apart(step, self._link, repeated=repeated)
        if isinstance(step, Pipeline) and all(call.verb in self._proven for call in step.calls):
            talk = exchange(step.calls, self.verbs, repeated=repeated)
        else:
            await self._link.prove(step, self.verbs)
            talk = perform(step, self.verbs, repeated=repeated, timeout=self._timeout)
        commands = next(talk)
        while True:
            replies = await self._talk(commands)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return stop.value

    async def _apart(self, step: Pipeline, nodes: AsyncNodes, *, repeated: bool) -> list[Any]:
        """Run a pipeline on the nodes that can be reached; the results of the other calls are errors."""
        await nodes.prove(step, self.verbs)
        talk = exchange(step.calls, self.verbs, repeated=repeated, apart=True)
        commands = next(talk)
        while True:
            replies = await nodes.talk(commands, apart=True)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return [
                    node_unavailable(self._url, result) if isinstance(result, Passing) else result
                    for result in stop.value
                ]

    async def listen(self, waiting: Waiting) -> None:
        """Listen on behalf of the callers that wait for results, until none is left."""
        await AsyncListener(waiting, self._link.any_link, self.run).listen()

    async def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, without other calls in between.

        Raises:
            BrokerUnavailable: the server does not answer; the exchange is not repeated.
        """
        try:
            return await self._link.alone(talk)
        except TRANSIENT as error:
            raise self._unavailable(error) from error

    def guard_by(self, check: Callable[[], Steps[object]]) -> None:
        """Run these steps again before a server accepts messages; see `Guard`."""
        self._link.guard_by(Guard(check, self.verbs))

    async def route(self) -> None:
        """If the server is a node of a cluster, route each call to the node of its queue."""
        link = self._link
        if isinstance(link, AsyncLink) and await self.run(is_node()):
            self.use(AsyncNodes(link), self._patience)
            await self.masters()

    async def masters(self) -> dict[str, AsyncConnections]:
        """Connections to each node of a cluster that has slots, by address; or to the only server.

        They fail fast, since another node may replace a lost one.
        """
        if isinstance(self._link, AsyncLink):
            return {masked(self._url): self}
        try:
            links = await self._link.by_name()
        except TRANSIENT as error:
            raise self._unavailable(error) from error
        each = {name: self._over(link, FAIL_FAST, name) for name, link in links.items()}
        return each or {masked(self._url): self}  # in a new cluster no node has slots

    async def everywhere(self, make: Callable[[], Steps[R]]) -> dict[str, R]:
        """Run the same steps on each master; returns the results by address, leaving out unreachable masters.

        Raises:
            BrokerUnavailable: no master can be reached.
        """
        results: dict[str, R] = {}
        failure: BrokerUnavailable | None = None
        masters = await self.masters()
        for name, master in masters.items():
            try:
                results[name] = await master.run(make())
            except BrokerUnavailable as error:
                failure = error
        if failure is not None and not results:
            raise failure
        return results

    def _over(self, link: AsyncLink | AsyncNodes, retries: Retries, node: str) -> AsyncConnections:
        other = copy(self)
        other.use(link, retries, node)
        return other

    def with_retries(self, retries: Retries) -> AsyncConnections:
        """The same connections with other retries."""
        return self._over(self._link, retries, self._node)

    def in_haste(self) -> AsyncConnections:
        """New connections to the same server with a timeout of a second, for calls that are tried once."""
        return self._over(self._link.in_haste(), ONE_TRY, self._node)

    async def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        await self._link.close()
