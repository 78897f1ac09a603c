"""Calls that nobody waits for: what a worker says before it begins, since it may not live to say it after."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._redis.exchange import packed
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq._calls import Call
    from rq_dlq._redis.blocking import Connections
    from rq_dlq._redis.link import Link
    from rq_dlq._work import Steps

UNREAD = 300  # replies that may be outstanding: who is that slow is told nothing more
FEW = 100  # of which one need not wait for any
RETRY_AFTER = 1.0  # seconds until a connection that failed is tried again


class Notes:
    """Sends calls without waiting for their replies, over a connection of its own.

    What was sent reaches the server even if this process is killed right after, but for the end of a burst:
    Redis reads no further from who is gone when it answers. What is lost with its connection is not sent
    again, so a note is for what one can do without. One thread sends, another may `open` meanwhile.

    Args:
        connections: that do not wait long.
        first: called in the usual way before notes are sent, so that the server knows their script and is
            seen to allow it. Its first key says which server of a cluster that is.
    """

    def __init__(self, connections: Connections, first: Call[Any]) -> None:
        self._connections = connections
        self._first = first
        self._link: Link | None = None
        self._connection: Any = None
        self._sent = self._read = 0  # since it was connected
        self._again = 0.0

    def prompt(self) -> bool:
        """Whether notes can be sent, as far as is seen without waiting."""
        if self._sent - self._read <= FEW:
            self._read_replies()
            return self._connection is not None
        return False

    def open(self) -> bool:
        """Read replies, and connect where there is no connection any more; whether notes can be sent now."""
        self._read_replies()
        if self._connection is None and time.monotonic() >= self._again:
            try:
                self._connections.run(_only(self._first))
                self._link = self._connections.link_of(self._first.command(self._connections.scripts)[3])
                self._sent = self._read = 0
                self._connection = self._link.take()
            except (RqDlqError, exceptions.RedisError, OSError):
                self._again = time.monotonic() + RETRY_AFTER
        return self._connection is not None

    def send(self, call: Call[Any]) -> None:
        """Send a call; it is dropped where there is no connection, or the server is slow."""
        if self._connection is None or self._sent - self._read >= UNREAD:
            return
        try:
            self._connection.send_packed_command([packed([call.command(self._connections.scripts)])])
        except (exceptions.RedisError, OSError):
            self.close()
        else:
            self._sent += 1

    def close(self) -> None:
        """Close the connection; `open` makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None and self._link is not None:
            connection.disconnect()
            self._link.pool.release(connection)

    def _read_replies(self) -> None:
        """Read what has come, and wait for all but a few; an error, whatever it says, ends the connection."""
        try:
            while (connection := self._connection) is not None and self._sent > self._read:
                if self._sent - self._read <= FEW and not connection.can_read(0):
                    break
                connection.read_response(disable_decoding=True)
                self._read += 1
        except (exceptions.RedisError, OSError):
            self.close()


def _only(call: Call[Any]) -> Steps[Any]:
    return (yield call)
