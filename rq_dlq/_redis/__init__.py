"""The only package that talks to Redis: it runs steps, blocking or awaiting.

The retries here replace those of redis-py, which would silently run a script twice: here a repeated call is
marked as a repetition (I12). The connections are redis-py's, without its command layer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rq_dlq._redis.retries import FAIL_FAST, ONE_TRY, Retries
from rq_dlq._redis.urls import check_scheme, masked

if TYPE_CHECKING:
    from rq_dlq._redis.awaiting.connections import AsyncConnections
    from rq_dlq._redis.blocking.connections import Connections

__all__ = ["FAIL_FAST", "ONE_TRY", "AsyncConnections", "Connections", "Retries", "check_scheme", "masked"]

_LATER = {
    "AsyncConnections": "rq_dlq._redis.awaiting.connections",
    "Connections": "rq_dlq._redis.blocking.connections",
}


def __getattr__(name: str) -> Any:
    """Import the connections on first use: redis-py and asyncio take as long to import as all the rest."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
