"""Decides what server and network errors mean: repeat the call, or raise an error for the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from redis import exceptions

from rq_dlq._redis.rights import denial, keys_of, pattern_of
from rq_dlq._redis.urls import masked
from rq_dlq.core.steps.call import WrongReply
from rq_dlq.core.steps.replies import UnknownWord
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, CrossSlot

E = TypeVar("E", bound=BaseException)

# The codes of temporary states, and the advice if one persists.
_PASSES = {
    "LOADING": "it is loading its data: wait until it has",
    "READONLY": "it is a replica: wait for a failover to end, or use the URL of the master",
    "MASTERDOWN": "it is a replica that has lost its master: start the master, or use another server's URL",
    "NOREPLICAS": "too few replicas are online for changes: start them, or lower min-replicas-to-write",
    "BUSY": "a script or a function keeps it busy: `redis-cli SCRIPT KILL`, or `FUNCTION KILL`, ends one "
    "that has changed nothing",
    "CLUSTERDOWN": "a slot of the cluster has no node, or too few of its masters reach each other: see "
    "`redis-cli --cluster check`",
    "TRYAGAIN": "a slot of the cluster is moving to another node: wait until it has moved",
    "ASK": "a slot of the cluster is moving to another node: wait until it has moved",
    "MOVED": "a slot of the cluster is on another node: try again",
    "UNBLOCKED": "another client ended the wait: try again",
    "NOSCRIPT": "its scripts are flushed repeatedly: find the client that runs SCRIPT FLUSH",
    "Function not found": "its libraries are flushed repeatedly: find the client that runs FUNCTION FLUSH",
    "max number of clients": "it accepts no more connections: raise maxclients, or close some",
}
_ADVICE = {
    "OOM": "Redis is out of memory: raise maxmemory, or drain or purge queues (acks still work)",
    "NOAUTH": "the server requires a password: put it into the URL, redis://user:password@host",
    "WRONGPASS": "the user or password is wrong: correct the URL",
    "no password": "its default user has no password: remove the password from the URL, or add a user",
    "MISCONF": "Redis cannot write to disk and refuses changes: read the server's log, and free disk space",
    "OLDLANES": "its keys or dependencies have the lanes of 0.1.0: send to the queue or claim from it with "
    "this version, which renumbers them; until then this is not done",
    "WRONGTYPE": "a key of the queue holds something else{}: use another namespace, or remove the key",
}

_CROSS_SLOT = (
    "the queues are on different nodes of the cluster, so one step cannot change both: give them the same "
    "hash tag, as in {shop}.orders and {shop}.invoices"
)

# redis-py has classes for some codes, which depend on its version, and removes the code from the text of
# those errors.
_KINDS: dict[str, type[exceptions.RedisError]] = {
    "OOM": exceptions.OutOfMemoryError,
    "LOADING": exceptions.BusyLoadingError,
    "READONLY": exceptions.ReadOnlyError,
    "MASTERDOWN": exceptions.MasterDownError,
    "CLUSTERDOWN": exceptions.ClusterDownError,
    "TRYAGAIN": exceptions.TryAgainError,
    "MOVED": exceptions.MovedError,
    "ASK": exceptions.AskError,
    "CROSSSLOT": exceptions.ClusterCrossSlotError,
    "NOSCRIPT": exceptions.NoScriptError,
}
START = "start Redis, set RQ_DLQ_URL, or omit the URL to use the embedded server"
"""Advice for users of commands, and of programs."""
START_NODE = "start it, or a replica of it; see `redis-cli --cluster check`"

_TLS = {
    r"certificate has expired": "has a certificate that has expired: renew it",
    r"certificate is not valid for '?([^'(]*\w)": "has a certificate that is not for {}: use a name that it "
    "has in the URL",
    r"certificate verify failed: ([^(]+\w)": "has a certificate that is not trusted ({}): pass that of its "
    "authority, as in ?ssl_ca_certs=/path/ca.pem",
    r"(?i)wrong.version.number": "does not use TLS: write redis:// instead of rediss://",
    r"(?i)certificate.required": "requires client certificates: add ssl_certfile=… and ssl_keyfile=… "
    "to the URL",
}
"""TLS errors, and the advice for each."""

# Older servers wrap the error of a command in a script: "ERR Error running script …: -OOM …"
# Removes the address, which is in the URL and may contain part of a wrongly split password.
_CONNECTING = re.compile(r"Error -?\d+ connecting\b.*\. (.+?)\.?", re.DOTALL)
_NO_PASSWORD = re.compile(r"without any password configured|no password is set")
_NO_CONNECTION_LEFT = re.compile(r"Too many connections|No connection available\.?")  # in redis-py's pools
_CODE = re.compile(rf"(?:^|: -?|ERR )({'|'.join((*_KINDS, *_PASSES, *_ADVICE))})\b")


class Passing(Exception):  # noqa: N818 - never leaves this package
    """The server replied that it cannot do this at the moment.

    Attributes:
        node: the address of a node that did not reply; empty: the server replied.
    """

    node = ""


class Unheard(exceptions.ConnectionError):
    """There was no connection, or it broke before the whole call was written: the server received no call.

    The cause of this error is the network error.
    """


TRANSIENT = (
    exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError, Passing,
    WrongReply,
)  # fmt: skip
_FINAL = (exceptions.AuthenticationError, exceptions.AuthorizationError)


def is_final(error: BaseException) -> bool:
    """Whether the server rejects this user. On a Unix socket redis-py may report this only as the cause."""
    return isinstance(error, _FINAL) or (error.__cause__ is not None and is_final(error.__cause__))


def timed_out(error: BaseException) -> bool:
    """Whether a reply or a connection timed out."""
    late = isinstance(error, exceptions.TimeoutError | TimeoutError)
    return late or (error.__cause__ is not None and timed_out(error.__cause__))


def code_of(error: BaseException) -> str:
    """The code of a server error, if it is one of these; otherwise empty."""
    found = _CODE.search(str(error))
    return next((code for code, kind in _KINDS.items() if type(error) is kind), found[1] if found else "")


def named(error: Exception) -> Exception:
    """A server error as its own class, even if this redis-py raises it only from its cluster client."""
    code, _, rest = str(error).partition(" ")
    return _KINDS[code](rest) if code in _KINDS else error


def refusal(error: Exception, command: Sequence[Any] = ()) -> Exception:
    """The error for a server's reply to a command; `Passing` if it is worth trying again."""
    if rights := denial(error, command):
        return rights
    text, code = str(error), code_of(error)
    if code == "CROSSSLOT":
        return CrossSlot(_CROSS_SLOT)
    if code in _PASSES:
        return Passing(f"{_PASSES[code]} (the server replied: {text[:200]})")
    if code in _ADVICE:
        keys = keys_of(command) if command else []
        advice = _ADVICE[code].format(f", one of {pattern_of(keys[0])}" if keys else "")
        return BrokerRefused(f"{advice} (the server replied: {text[:200]})")
    return BrokerRefused(f"the server refused: {text[:300]}")


def node_unavailable(url: str, error: Passing) -> NodeUnavailable:
    """The error for an unreachable node of a cluster; other nodes may be reachable."""
    found = NodeUnavailable(str(unavailable(url, error)))
    found.node = error.node
    return found


def at_node(error: E, node: str) -> E:
    """Make an error name the node of the cluster that raised it; returns the error."""
    error.__dict__["_rq_dlq_node"] = node
    return error


def unavailable(url: str, error: BaseException) -> Exception:
    """The error for the user after a failure to reach the server.

    Args:
        url: the server's URL; its passwords are not shown.
        error: the failure; see `at_node`.
    """
    if isinstance(error, UnknownWord):
        return BrokerRefused(str(error))
    node = error.__dict__.get("_rq_dlq_node")
    place = f"node {node} of the cluster at {masked(url)}" if node else masked(url)
    if isinstance(error, Unheard) and error.__cause__ is not None:
        error = error.__cause__
    connecting = _CONNECTING.fullmatch(str(error))
    reason = connecting[1] if connecting else str(error).partition(". ")[0] or type(error).__name__
    if isinstance(error.__cause__, exceptions.NoPermissionError):  # a new connection was refused
        return refusal(error.__cause__)
    if is_final(error):
        return BrokerRefused(f"{place}: {_ADVICE[_why_not_let_in(reason)]}")
    if isinstance(error, exceptions.ConnectionError) and code_of(error) in _PASSES:
        error = refusal(error)  # also here, a new connection was refused
    found = BrokerUnavailable(_what_to_do(place, error, reason, START_NODE if node else START))
    found.node = node or ""
    return found


def _why_not_let_in(reason: str) -> str:
    if _NO_PASSWORD.search(reason):
        return "no password"
    return "WRONGPASS" if "WRONGPASS" in reason or "invalid" in reason else "NOAUTH"


def _what_to_do(place: str, error: BaseException, reason: str, start: str) -> str:
    if isinstance(error, Passing):
        return f"{place} cannot do this at the moment: {error}"
    # Its class, MaxConnectionsError, is newer than the oldest redis-py that we support.
    if isinstance(error, exceptions.ConnectionError) and _NO_CONNECTION_LEFT.fullmatch(str(error)):
        return (
            f"all connections to {place} are in use: raise max_connections in the URL, or in the pool that "
            "was passed in; each concurrent call of a thread or task needs one"
        )
    said = f"{error} {error.__context__}"
    for pattern, advice in _TLS.items():
        if found := re.search(pattern, said):
            return f"{place} {advice.format(*found.groups())}"
    if "rediss" in place and "No such file" in reason:
        return f"a file in the URL of {place} does not exist: correct the path of its certificates or keys"
    if "redis://" in place and "reset by peer" in reason:
        start = f"write rediss:// if it uses TLS; otherwise {start}"
    return f"cannot reach {place} ({reason}): {start}"
