"""The only package that talks to Redis: it runs steps, blocking or awaiting.

`Connections` runs steps over a *link*: one server's pool and its idle connections. A round trip is
`talk(commands)`. On a cluster `Nodes` replaces the link and has the same `talk`; `cluster` decides which node
gets a command. The retries replace those of redis-py, which would silently run a script twice: here a
repeated call is marked as a repetition (I12). The connections are redis-py's, without its command layer.
`awaiting` is the source, from which `blocking` is generated.

- *A refused call is not a lost reply.* If the server refused the whole call, the next try is not read as a
  repetition. Otherwise a client that was refused by a demoted master, and then found the message gone, would
  take another consumer's ack for its own. The same holds if the connection broke before the whole call was
  written. A timeout during the write leaves the outcome open, since asyncio still sends its buffer.
- *A shared socket*: if something else in the process closes the descriptor of a connection, a new connection
  may get the same number, and then two share a socket. A claim or settlement whose reply has another form
  counts as lost, and the connections are closed.
- *READONLY and any network error* close all idle connections of the link. New ones ask the sentinels, or the
  DNS, for the master. redis-py's Sentinel finds it. Its retries are off and its errors are replaced, because
  in versions 6 and 7 they contain the sentinels' password.
- *redis-py imports asyncio*, and takes as long to import as everything else together. So it is imported only
  when a blocking broker is made; `rq_dlq.asyncio` imports it at once, since a later import would hold up the
  event loop. The broker's first use would be too late: it may be in one thread while another one forks, and
  in the child the modules would stay locked. A link makes its pool anew in a forked child, whose locks would
  stay locked, too.
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
