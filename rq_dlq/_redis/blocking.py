"""Runs steps, blocking."""

from __future__ import annotations

import random
import time
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity
from redis import exceptions

from rq_dlq._calls import Call
from rq_dlq._redis.cluster import is_node
from rq_dlq._redis.exchange import perform
from rq_dlq._redis.link import Link
from rq_dlq._redis.nodes import Nodes
from rq_dlq._redis.places import BLOCKING, pool_of
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


class Connections:
    """Runs steps, blocking. Safe with threads and after a fork.

    Args:
        url: where Redis is; for a pool that is passed in, what error messages call it.
        pool: a redis-py connection pool to use instead of the URL.
        revive: called before a call is repeated; starts an embedded server anew that has died.
    """

    _link: Link | Nodes

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
        self.use(Link(pool_of(url, BLOCKING) if ours else pool, ours=ours), retries)

    def use(self, link: Link | Nodes, retries: Retries) -> None:
        """Talk through this from now on, with this patience."""
        self._link, self._talk, self._proven = link, link.talk, link.proven
        self._patience = retries
        self._timeout = self.pool.connection_kwargs.get("socket_timeout")
        clustered = isinstance(link, Nodes) and retries == FAIL_FAST
        self._retries = (IN_CLUSTER if clustered else retries).settings()

    @property
    def pool(self) -> Any:
        """Of redis-py; in a cluster, to the node that the URL leads to."""
        return self._link.pool

    def run(self, steps: Steps[R]) -> R:
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
                value = self._perform(step)
            except exceptions.ResponseError as said:  # to a new connection
                error = refusal(said)
            except BaseException as raised:  # noqa: BLE001 - the steps decide
                if isinstance(raised, MissingRights):
                    self._link.forget_rights()
                error = raised

    def _perform(self, step: Step) -> Any:
        try:
            return self._once(step, repeated=False)
        except TRANSIENT as error:
            if is_final(error):
                raise unavailable(self._url, error) from None
            (doubt := Doubt(step)).add(error)
        if isinstance(step, Wait):  # nothing was asked: the next call looks for the server
            return self._spread(step)
        if self._revive is not None:
            self._revive()
        try:
            return tenacity.Retrying(**self._retries)(self._again, step, doubt)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    def _again(self, step: Step, doubt: Doubt) -> Any:
        try:
            return self._once(step, repeated=doubt.there)
        except TRANSIENT as error:
            doubt.add(error)
            raise

    def _spread(self, cut_off: Wait) -> float:
        """Let a part of the wait pass: a thousand others, cut off with us, are not to come back at once."""
        pause = random.uniform(0, cut_off.milliseconds)  # noqa: S311 - spreads retries, guards nothing
        if (until := self._patience.until) is None:
            time.sleep(pause / 1000)
        else:
            until.wait(pause / 1000)
        return pause

    def _once(self, step: Step, *, repeated: bool) -> Any:
        if isinstance(step, Call) and step.script in self._proven:  # nearly always: no generators
            command = step.command(self.scripts)
            (reply,) = self._talk([command])
            if not isinstance(reply, Exception):
                return step.read(reply, repeated)
            if not isinstance(reply, exceptions.NoScriptError):
                raise refusal(reply, command)
        self._link.prove(step, self.scripts)
        talk = perform(step, self.scripts, repeated=repeated, timeout=self._timeout)
        commands = next(talk)
        while True:
            replies = self._talk(commands)
            try:
                commands = talk.send(replies)
            except StopIteration as stop:
                return stop.value

    def alone(self, talk: Exchange) -> Any:
        """Run an exchange on one connection, which nobody uses meanwhile.

        Raises:
            BrokerUnavailable: the server does not answer; it is not asked twice.
        """
        try:
            return self._link.alone(talk)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    def route(self) -> None:
        """Look whether the server is a node of a cluster: then each call goes to the node of its queue."""
        link = self._link
        if isinstance(link, Link) and self.run(is_node()):
            self.use(Nodes(link), self._patience)
            self.masters()

    def masters(self) -> dict[str, Connections]:
        """Connections to each node of a cluster that has slots, by address; or to the one server there is.

        A node of these is not waited for: another one may take its place.
        """
        if isinstance(self._link, Link):
            return {masked(self._url): self}
        try:
            links = self._link.by_name()
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error
        each = {name: self._over(link, FAIL_FAST) for name, link in links.items()}
        return each or {masked(self._url): self}  # a cluster whose slots nobody has yet

    def link_of(self, key: str) -> Link:
        """To the server that has a key."""
        if isinstance(self._link, Link):
            return self._link
        try:
            return self._link.link_of(key)
        except TRANSIENT as error:
            raise unavailable(self._url, error) from error

    def everywhere(self, make: Callable[[], Steps[R]]) -> dict[str, R]:
        """Run the same steps on each master: what they come to, by address.

        Raises:
            BrokerUnavailable: none can be reached; one that cannot is left out where others can.
        """
        results: dict[str, R] = {}
        failure: BrokerUnavailable | None = None
        for name, master in self.masters().items():
            try:
                results[name] = master.run(make())
            except BrokerUnavailable as error:
                failure = error
        if failure is not None and not results:
            raise failure
        return results

    def _over(self, link: Link | Nodes, retries: Retries) -> Connections:
        other = copy(self)
        other.use(link, retries)
        return other

    def with_retries(self, retries: Retries) -> Connections:
        """The same connections with other patience."""
        return self._over(self._link, retries)

    def close(self) -> None:
        """Close the connections; the next run opens new ones."""
        self._link.close()
