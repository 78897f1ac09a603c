"""The blocking colour's own part: idle connections belong to a process, and serve its threads."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from redis import exceptions

from rq_dlq._redis.connection import LATE, set_timeout
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator, Iterator

T = TypeVar("T")


class Idle:
    """The idle connections, safe with threads and after a fork.

    Args:
        of_process: not needed here.
    """

    def __init__(self, of_process: Callable[[], Any]) -> None:
        del of_process
        self._all: list[Any] = []  # never replaced: a pop is atomic, so no connection has two owners
        self.add = self._all.append

    def take(self) -> Any:
        """Take an idle connection; None: there is none."""
        try:
            while (connection := self._all.pop()).pid != this_process():
                pass  # a forked child shares no socket with its parent
        except IndexError:
            return None
        return connection

    def take_all(self) -> Iterator[Any]:
        """Take all idle connections, one by one."""
        while self._all:
            try:
                connection = self._all.pop()
            except IndexError:
                return  # another thread took it
            yield connection


def connected(pool: Any, arguments: tuple[str, ...]) -> Any:
    """A new connection of a pool."""
    return pool.get_connection(*arguments)


def write(connection: Any, data: bytes, *, check_health: bool = True) -> None:
    """Send packed commands."""
    connection.send_packed_command([data], check_health=check_health)


def disconnect(connection: Any) -> None:
    """Close a connection."""
    connection.disconnect()


def reply_within(connection: Any, seconds: float) -> Any:
    """Read a reply; LATE: it has not arrived yet, and must still be read."""
    usual = connection.socket_timeout
    set_timeout(connection, seconds)
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=False)
    except exceptions.TimeoutError:
        return LATE
    finally:
        set_timeout(connection, usual)


@contextmanager
def briefly(connections: T) -> Generator[T]:
    """New connections for a program's last calls: a call ends only by their timeout, a second."""
    given: Any = connections
    brief = given.in_haste()
    try:
        yield brief
    finally:
        brief.close()


def sleep(milliseconds: float, until: threading.Event | None) -> None:
    """Sleep, at most until `until` is set."""
    if until is None:
        time.sleep(milliseconds / 1000)
    else:
        until.wait(milliseconds / 1000)
