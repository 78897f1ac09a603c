"""Functions on redis-py's connections, without I/O, for both colours."""

from __future__ import annotations

import inspect
from typing import Any, Final

from redis import exceptions

from rq_dlq._redis import pools
from rq_dlq._redis.errors import code_of, named, refusal

LATE: Final = object()
"""In place of a reply that did not arrive in time."""
ERROR_REPLIES: Final = (exceptions.ResponseError, exceptions.BusyLoadingError)
"""The exceptions that a connection raises for an error reply."""


def as_reply(error: Exception) -> Exception:
    """A server's error as a reply.

    Raises:
        Passing: the server is now a replica, so the caller drops its connections and looks for the master; or
            it is loading its data, and redis-py has closed the connection.
    """
    if code_of(error) == "READONLY" or isinstance(error, exceptions.BusyLoadingError):
        raise refusal(error) from None
    return named(error)


def bounded(connection: Any) -> bool:
    """Set our timeout on a connection without one; returns whether it had none."""
    if connection.socket_timeout is not None:
        return False
    set_timeout(connection, pools.SOCKET_TIMEOUT)
    return True


def socket_of(connection: Any) -> Any:
    """An object that identifies a connection until it disconnects."""
    found = getattr(connection, "_sock", None) or getattr(connection, "_writer", None)
    return found or _NoSocket()


class _NoSocket:
    """It equals no other object, so a connection with it always counts as new."""


def set_timeout(connection: Any, seconds: float | None) -> None:
    """Set how long a connection waits for a reply."""
    connection.socket_timeout = seconds
    settimeout = getattr(getattr(connection, "_sock", None), "settimeout", None)
    if settimeout is not None:  # a connected blocking socket; fakeredis has none
        settimeout(seconds)


def arguments(pool: Any) -> tuple[str, ...]:
    """The arguments for a pool's `get_connection`: before redis-py 5.3, the name of a command."""
    parameters = inspect.signature(pool.get_connection).parameters.values()
    wants = any(one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
    return ("EVALSHA",) if wants else ()
