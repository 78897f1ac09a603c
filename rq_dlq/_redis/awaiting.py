"""Runs steps, awaiting; otherwise as `blocking`."""

from __future__ import annotations

import asyncio
import random
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity
from redis import exceptions

from rq_dlq._calls import Call
from rq_dlq._redis.cluster import is_node
from rq_dlq._redis.exchange import perform
from rq_dlq._redis.link import AsyncLink
from rq_dlq._redis.nodes import AsyncNodes
from rq_dlq._redis.places import AWAITING, pool_of
from rq_dlq._redis.trouble import (
    FAIL_FAST,
    IN_CLUSTER,
    TRANSIENT,
    Doubt,
    Retries,
    is_final,
    masked,
    refusal,
    unavailable,
)
from rq_dlq._work import Wait
from rq_dlq.errors import BrokerUnavailable, MissingRights

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.exchange import Exchange
    from rq_dlq._scripts import Scripts
    from rq_dlq._work import Step, Steps

R = TypeVar("R")


class AsyncConnections:
    """Runs steps, awaiting; otherwise like Connections."""

    _link: AsyncLink | AsyncNodes

    def __init__(
        self,
        url: str,
        scripts: Scripts,
        retries: Retries = FAIL_FAST,
        pool: Any = None,
        revive: Callable[[], object] | None = None,
    ) -> None:
        self._url = url
        self.scripts = scripts
        self._revive = revive
        ours = pool is None
        self.use(AsyncLink(pool_of(url, AWAITING) if ours else pool, ours=ours), retries)

    def use(self, link: AsyncLink | AsyncNodes, retries: Retries) -> None:
        """Talk through this from now on, with this patience."""
        self._link, self._talk, self._proven = link, link.talk, link.proven
        self._patience = retries
        self._timeout = self.pool.connection_kwargs.get("socket_timeout")
        clustered = isinstance(link, AsyncNodes) and retries == FAIL_FAST
        self._retries = (IN_CLUSTER if clustered else retries).settings()

    @property
    def pool(self) -> Any:
        """Of redis-py; in a cluster, to the node that the URL leads to."""
        return self._link.pool

    async def run(self, steps: Steps[R]) -> R:
        """Run the steps to their end."""
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
            except exceptions.ResponseError as said:  # to a new connection
                error = refusal(said)
            except BaseException as raised:  # noqa: BLE001 - the steps decide
                if isinstance(raised, MissingRights):
                    self._link.forget_rights()
                error = raised

    async def _perform(self, step: Step) -> Any:
        try:
            return await self._once(step, repeated=False)
        except TRANSIENT as error:
            if is_final(error):
                raise unavailable(self._url, error) from None
            (doubt := Doubt(step)).add(error)
        if isinstance(step, Wait):  # nothing was asked: the next call looks for the server
            return await self._spread(step)
        if self._revive is not None:
            self._revive()
        try:
            return await tenacity.AsyncRetrying(**self._retries)(self._again, step, doubt)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    async def _again(self, step: Step, doubt: Doubt) -> Any:
        try:
            return await self._once(step, repeated=doubt.there)
        except TRANSIENT as error:
            doubt.add(error)
            raise

    async def _spread(self, cut_off: Wait) -> float:
        """Let a part of the wait pass: a thousand others, cut off with us, are not to come back at once."""
        pause = random.uniform(0, cut_off.milliseconds)  # noqa: S311 - spreads retries, guards nothing
        await asyncio.sleep(pause / 1000)
        return pause

    async def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Call) and step.script in self._proven:  # nearly always: no generators
            command = step.command(self.scripts)
            (reply,) = await self._talk([command])
            if not isinstance(reply, Exception):
                return step.read(reply, repeated)
            if not isinstance(reply, exceptions.NoScriptError):
                raise refusal(reply, command)
        await self._link.prove(step, self.scripts)
        talk = perform(step, self.scripts, repeated=repeated, timeout=self._timeout)
        commands = next(talk)
        while True:
            replies = await self._talk(commands)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return stop.value

    async def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, which nobody uses meanwhile.

        Raises:
            BrokerUnavailable: the server does not answer; it is not asked twice.
        """
        try:
            return await self._link.alone(talk)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    async def route(self) -> None:
        """Look whether the server is a node of a cluster: then each call goes to the node of its queue."""
        link = self._link
        if isinstance(link, AsyncLink) and await self.run(is_node()):
            self.use(AsyncNodes(link), self._patience)
            await self.masters()

    async def masters(self) -> dict[str, AsyncConnections]:
        """Connections to each node of a cluster that has slots, by address; or to the one server there is.

        A node of these is not waited for: another one may take its place.
        """
        if isinstance(self._link, AsyncLink):
            return {masked(self._url): self}
        try:
            links = await self._link.by_name()
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error
        each = {name: self._over(link, FAIL_FAST) for name, link in links.items()}
        return each or {masked(self._url): self}  # a cluster whose slots nobody has yet

    async def link_of(self, key: str) -> AsyncLink:
        """To the server that has a key."""
        if isinstance(self._link, AsyncLink):
            return self._link
        try:
            return await self._link.link_of(key)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    async def everywhere(self, make: Callable[[], Steps[R]]) -> dict[str, R]:
        """Run the same steps on each master: what they come to, by address.

        Raises:
            BrokerUnavailable: none can be reached; one that cannot is left out where others can.
        """
        results: dict[str, R] = {}
        failure: BrokerUnavailable | None = None
        for name, master in (await self.masters()).items():
            try:
                results[name] = await master.run(make())
            except BrokerUnavailable as error:
                failure = error
        if failure is not None and not results:
            raise failure
        return results

    def _over(self, link: AsyncLink | AsyncNodes, retries: Retries) -> AsyncConnections:
        other = copy(self)
        other.use(link, retries)
        return other

    async def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        await self._link.close()
