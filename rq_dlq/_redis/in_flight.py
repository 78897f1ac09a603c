"""Steps whose first commands are sent at once, and whose replies are read later; blocking.

In between the caller does its own work, while the server does this. Each has a connection for itself: a
server that cannot write its replies to a client that has died does not read what else that has sent, so a
second request on the same connection could be lost. The first one never is, since it is read as a whole.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from copy import copy
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from redis import exceptions

from rq_dlq._redis.blocking.link import Link, replies_to
from rq_dlq._redis.blocking.own import write
from rq_dlq._redis.errors import TRANSIENT, Unheard
from rq_dlq._redis.exchange import packed
from rq_dlq.core.steps.driving import as_it_is, drive
from rq_dlq.core.steps.step import Pipeline, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis import Connections
    from rq_dlq._redis.exchange import Commands
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Step, Steps

R = TypeVar("R")
FAILURES = (*TRANSIENT, exceptions.RedisError)


class InFlight(Generic[R]):
    """Steps that have begun: the commands of their first step are on their way.

    In a cluster, over a pool that the caller shares, and while the rights for a verb are not proven, the
    steps are run to their end at once.

    Args:
        connections: a connection is taken from these before the steps begin.
        steps: they take in no messages (`Guard`).

    Attributes:
        is_sent: the first commands were written, or answered.
        began: when, monotonic seconds.
    """

    def __init__(self, connections: Connections, steps: Steps[R]) -> None:
        self._link, self._steps = connections._link, steps  # noqa: SLF001 - likewise
        self.began, self._timeout = time.monotonic(), connections._timeout or inf  # noqa: SLF001
        self._connection: Any = None
        self._error: BaseException | None = None
        self._first: Step | None = None
        self._value: Any = None
        link = self._link if isinstance(self._link, Link) and self._link.ours else None
        try:
            self._connection = link and link.lend()
        except FAILURES as error:
            self._error = error
        try:
            self._first = next(steps)
        except StopIteration as stop:
            self._value = stop.value
        finally:
            if link is not None and self._connection is not None:
                self._send(link, self._commands(link, connections.verbs))
        self.is_sent = self._error is None
        if self.is_sent and self._connection is None and self._first is not None:
            self._value, self._first = connections.run(self._rest(self._first)), None

    def _commands(self, link: Link, verbs: Verbs) -> Commands:
        """The commands to send; none: they cannot be sent ahead."""
        first = self._first
        if first is None or isinstance(first, Wait):
            return []
        calls = first.calls if isinstance(first, Pipeline) else (first,)
        are_proven = all(call.verb in link.proven for call in calls)
        return [call.command(verbs) for call in calls] if are_proven else []

    def _send(self, link: Link, commands: Commands) -> None:
        """Send the commands, or give the connection back."""
        if not commands:
            link.take_back(self._connection)
            self._connection = None
            return
        try:
            write(self._connection, b"".join(map(packed, commands)))
        except BaseException as error:
            link.drop(self._connection, error)
            self._connection = None
            if not isinstance(error, FAILURES):
                raise
            self._error = Unheard(str(error)) if isinstance(error, exceptions.ConnectionError) else error

    @property
    def is_answered(self) -> bool:
        """Whether `result` has a reply to begin with, or will get none; without waiting."""
        return self._connection is None or self._is_late or _can_be_read(self._connection)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self.began > self._timeout

    def result(self, connections: Connections) -> R:
        """Read the replies, and run the steps to their end; to be called once.

        Args:
            connections: to the same server. They say how long a call is repeated that has no reply.
        """
        if self._first is None:
            return self._value  # type: ignore[no-any-return]
        further = copy(connections)
        vars(further)["_talk"] = self._talk
        return further.run(self._rest(self._first))

    def _rest(self, first: Step) -> Steps[R]:
        try:
            reply = yield first
        except BaseException as error:  # noqa: BLE001 - the steps decide
            return (yield from drive(self._steps, as_it_is, error=error))
        return (yield from drive(self._steps, as_it_is, reply))

    def _talk(self, commands: Commands) -> list[Any]:
        """Read the replies to the commands that were sent; later ones make a round trip, as usual."""
        connection, self._connection = self._connection, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        if connection is None or not isinstance(self._link, Link):
            return self._link.talk(commands)
        try:
            if self._is_late and not _can_be_read(connection):
                raise exceptions.TimeoutError("no reply in time")  # noqa: TRY301 - as if it had waited
            replies = replies_to(connection, commands, sent=True)
        except BaseException as raised:
            self._link.drop(connection, raised)
            raise
        self._link.take_back(connection)
        return replies


def _can_be_read(connection: Any) -> bool:
    """Whether a reply, or the end of the connection, can be read without waiting."""
    try:
        return bool(connection.can_read(0))
    except (exceptions.RedisError, ValueError):  # it broke; the program has closed its socket
        return True


class Underway(Generic[R]):
    """Steps that have begun, in this order, until their results are read, by one thread at a time.

    Args:
        take: called with each, as soon as it has its result; not before that it is no longer under way.
    """

    def __init__(self, take: Callable[[InFlight[R], R], None]) -> None:
        self._take = take
        self._all: deque[InFlight[R]] = deque()
        self._reading = threading.Lock()
        self.add = self._all.append

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._all)

    def read(self, connections: Connections, but: int = 0) -> None:
        """Wait for the results, except so many of the last ones; see `InFlight.result`."""
        if self._all:
            with self._reading:
                while len(self._all) > but:
                    self._read_one(connections)

    def read_meanwhile(self, connections: Connections, *, every: bool = False) -> None:
        """Read what is answered, or `every` result, unless another thread does so just now."""
        if self._all and self._reading.acquire(blocking=False):
            try:
                while self._all and (every or self._all[0].is_answered):
                    self._read_one(connections)
            finally:
                self._reading.release()

    def _read_one(self, connections: Connections) -> None:
        begun = self._all[0]
        try:
            self._take(begun, begun.result(connections))
        finally:
            self._all.popleft()
