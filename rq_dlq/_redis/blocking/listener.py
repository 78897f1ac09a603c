# Generated from rq_dlq/_redis/awaiting/listener.py by `python -m tests.colours_twin --write`.
"""Listens for results on behalf of all waiting callers of this process, on one connection.

It is a task or a thread of a broker, which ends when no caller waits, and gives its connection back. It reads
the result when a subscription has begun, since the message may have ended before, and each second. If that
finds an end of which no notice came, it connects anew. A caller that comes while it sleeps sends a message on
the listener's own channel; so no two threads use one connection, which TLS forbids.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._redis.blocking.own import reply_within, sleep, write
from rq_dlq._redis.connection import LATE
from rq_dlq._redis.errors import TRANSIENT
from rq_dlq._redis.exchange import packed
from rq_dlq._redis.waiting import LOOK_EVERY
from rq_dlq.core.results import calls
from rq_dlq.core.steps.call import WrongReply, whole
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq._redis.blocking.link import Link
    from rq_dlq._redis.waiting import Waiting

TOGETHER = 0.001  # ends published within this time are handled together; seconds
FAILURES = (*TRANSIENT, exceptions.ResponseError, WrongReply, RqDlqError)


class Listener:
    """Subscribes to the channels of the messages that callers wait for, and polls, until no caller waits.

    If it cannot subscribe, for example for lack of rights, it only polls, every second.

    Args:
        any_link: returns the link to the server, or to any node of a cluster.
        run: runs steps.
    """

    def __init__(self, waiting: Waiting, any_link: Callable[[], Link], run: Callable[..., Any]) -> None:
        self._waiting, self._any_link, self._run = waiting, any_link, run
        self._link: Link | None = None  # the link that lent the connection
        self._connection: Any = None
        self._subscribed = frozenset[str]()

    def listen(self) -> None:
        """Listen until no caller waits."""
        due = time.monotonic() + LOOK_EVERY
        failure: BaseException | None = None
        try:
            while channels := self._waiting.channels():
                left = max(TOGETHER, due - time.monotonic())
                try:
                    self._subscribe(channels)
                    self._hear(left)
                except FAILURES as error:
                    self._drop(error)
                    sleep(1000 * left, None)
                every = time.monotonic() >= due
                due = time.monotonic() + LOOK_EVERY if every else due
                self._look(every=every)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._waiting.end()
            self._leave(failure)

    def _subscribe(self, channels: frozenset[str]) -> None:
        if self._connection is None:
            self._link = self._any_link()
            self._connection, self._subscribed = self._link.lend(), frozenset[str]()
        for command, names in (
            (calls.subscribe, channels - self._subscribed),
            (calls.unsubscribe, self._subscribed - channels),
        ):
            if names:
                write(self._connection, packed(command(*names)), check_health=False)
        self._subscribed = channels

    def _hear(self, seconds: float) -> None:
        """Read the ends that are published within this time, and those that follow the first one closely."""
        while (reply := reply_within(self._connection, seconds)) is not LATE:
            kind, channel, said = whole(reply, 3)
            if kind == b"message":
                self._waiting.heard(channel.decode(), said)
            elif kind == b"subscribe":
                self._waiting.subscribed(channel.decode())
            seconds = TOGETHER

    def _look(self, *, every: bool) -> None:
        missed = self._run(unrepeated(self._waiting.look(every=every)))
        if missed:  # the connection may be dead
            self._drop(None)

    def _leave(self, failure: BaseException | None) -> None:
        """Return the connection without subscriptions; close it after a failure."""
        if self._connection is None:
            return
        try:
            if failure is None:
                write(self._connection, packed(calls.unsubscribe()), check_health=False)
                while True:
                    reply = reply_within(self._connection, LOOK_EVERY)
                    kind, _, left = whole(None if reply is LATE else reply, 3)
                    if kind == b"unsubscribe" and left == 0:
                        break
        except FAILURES as error:
            failure = error
        if failure is not None or self._link is None:
            self._drop(failure)
        else:
            self._link.take_back(self._connection)
            self._connection = None

    def _drop(self, failure: BaseException | None) -> None:
        link, connection, self._connection = self._link, self._connection, None
        if link is not None and connection is not None:
            link.drop(connection, failure)
