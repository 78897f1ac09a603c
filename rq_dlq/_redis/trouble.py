"""How long a call is repeated while Redis does not answer, and what to tell a user in the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tenacity
from redis import exceptions

from rq_dlq._redis.rights import denial
from rq_dlq._work import Batch
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, ConfigurationError, CrossSlot

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from rq_dlq._work import Step

_PARAMETER = re.compile(r"([?&;][^=&;]*(?:pass|secret|token|auth|%)[^=&;]*=)[^&]*", re.IGNORECASE)

# What a server says of a state that passes, and what to do if it does not pass by itself.
_PASSES = {
    "LOADING": "it is loading its data: wait until it has",
    "READONLY": "it is a replica: wait for a failover to end, or use the URL of the master",
    "MASTERDOWN": "it is a replica that has lost its master: start that, or use another server's URL",
    "NOREPLICAS": "too few replicas are online for changes: start them, or lower min-replicas-to-write",
    "BUSY": "a script keeps it busy: `redis-cli SCRIPT KILL` ends one that has changed nothing",
    "CLUSTERDOWN": "a slot of the cluster has no node: see `redis-cli --cluster check`",
    "TRYAGAIN": "a slot of the cluster is on its way to another node: wait until it has arrived",
    "ASK": "a slot of the cluster is on its way to another node: wait until it has arrived",
    "MOVED": "a slot of the cluster is at another node",
    "UNBLOCKED": "somebody ended the wait: try again",
    "NOSCRIPT": "its scripts are flushed all the time: see who runs SCRIPT FLUSH",
    "max number of clients": "it takes no more connections: raise maxclients, or close some",
}
_ADVICE = {
    "OOM": "Redis is out of memory: raise maxmemory, or drain or purge queues (acks still work)",
    "NOAUTH": "the server wants a password: put it into the URL, redis://user:password@host",
    "WRONGPASS": "user or password is wrong: correct the URL",
    "MISCONF": "Redis cannot write to disk and takes no changes: see the server's log and free the disk",
    "WRONGTYPE": "a key of the queue holds something else: use another namespace, or remove the key",
}

_CROSS_SLOT = (
    "the queues are on different nodes of the cluster, so nothing can be done in both at once: "
    "give them one hash tag, as in {shop}.orders and {shop}.invoices"
)

# redis-py has classes for some codes, and then drops the code from the text; which, depends on its version.
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
# Older servers wrap what a command in a script said: "ERR Error running script …: -OOM …"
_CODE = re.compile(rf"(?:^|: -?)({'|'.join((*_KINDS, *_PASSES, *_ADVICE))})\b")


class Passing(Exception):  # noqa: N818 - never leaves this room
    """The server answered that it cannot do it now."""


class Unheard(exceptions.ConnectionError):
    """There was no connection, or it broke while a call was sent: nobody heard it. Its cause tells why."""


TRANSIENT = (
    exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError, Passing
)  # fmt: skip
_FINAL = (exceptions.AuthenticationError, exceptions.AuthorizationError)


def is_final(error: BaseException) -> bool:
    """Whether the server does not let this user in; by a socket redis-py may say so as the cause only."""
    return isinstance(error, _FINAL) or (error.__cause__ is not None and is_final(error.__cause__))


class Doubt:
    """Whether a step may have been carried out by an earlier try.

    One call was not if nobody heard it, or if the server refused it; of several, others may have been.

    Attributes:
        there: it may.
    """

    def __init__(self, step: Step) -> None:
        self._whole = not isinstance(step, Batch) or len(step.calls) == 1
        self.there = False

    def add(self, error: BaseException) -> None:
        """A try has ended in this."""
        self.there |= not (self._whole and isinstance(error, Passing | Unheard))


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a call is repeated while Redis does not answer.

    Args:
        attempts: tries in all; None: no limit.
        seconds: from the first to the last try; None: no limit.
        until: once it is set, there is no further try.
    """

    attempts: int | None = 3
    seconds: float | None = 1.0
    until: threading.Event | None = None

    def settings(self) -> dict[str, Any]:
        """For tenacity; the first try is already over."""
        stops: list[Any] = []
        if self.attempts is not None:
            stops.append(tenacity.stop_after_attempt(max(1, self.attempts - 1)))
        if self.seconds is not None:
            stops.append(tenacity.stop_after_delay(self.seconds))
        waits = {}
        if self.until is not None:
            stops.append(tenacity.stop_when_event_set(self.until))
            waits["sleep"] = tenacity.sleep_using_event(self.until)
        return {
            **waits,
            "stop": tenacity.stop_any(*stops) if stops else tenacity.stop_never,
            "wait": tenacity.wait_random_exponential(multiplier=0.05, max=1.0),
            "retry": tenacity.retry_if_exception(
                lambda error: isinstance(error, TRANSIENT) and not is_final(error)
            ),
            "reraise": True,
        }


FAIL_FAST = Retries()
IN_CLUSTER = Retries(attempts=None, seconds=5.0)
"""In its place where there are several nodes: to move a slot or to promote a replica takes so long."""


def masked(url: str) -> str:
    """The URL without its passwords, whatever else is wrong with it."""
    head, at, tail = _PARAMETER.sub(r"\1***", url).rpartition("@")
    if not at and "@" in url:  # a password that looks like a parameter
        return f"{url.partition('://')[0]}://***"
    if not at:
        return tail
    scheme, slashes, account = head.partition("://") if "://" in head else ("", "", head)
    user, colon, _ = account.partition(":")
    return f"{scheme}{slashes}{user + ':' if colon else ''}***@{tail}"


def code_of(error: BaseException) -> str:
    """What Redis calls a server's error, where it is one that we know; else empty."""
    found = _CODE.search(str(error))
    return next((code for code, kind in _KINDS.items() if type(error) is kind), found[1] if found else "")


def named(error: Exception) -> Exception:
    """A server's error by its class, also where this redis-py has that for its cluster client only."""
    code, _, rest = str(error).partition(" ")
    return _KINDS[code](rest) if code in _KINDS else error


def is_demoted(error: Exception) -> bool:
    """Whether the server says that it is a replica (now)."""
    return code_of(error) == "READONLY"


def refusal(error: Exception, command: Sequence[Any] = ()) -> Exception:
    """The error for what a server said to a command; `Passing` where it is worth trying again."""
    if rights := denial(error, command):
        return rights
    text, code = str(error), code_of(error)
    if code == "CROSSSLOT":
        return CrossSlot(_CROSS_SLOT)
    if code in _PASSES:
        return Passing(f"{_PASSES[code]} (the server said: {text[:200]})")
    if code in _ADVICE:
        return BrokerRefused(f"{_ADVICE[code]} (the server said: {text[:200]})")
    return BrokerRefused(f"the server refused: {text[:300]}")


def unavailable(url: str, error: BaseException) -> Exception:
    """The error for a user."""
    if isinstance(error, Unheard) and error.__cause__ is not None:
        error = error.__cause__
    reason = str(error).partition(". ")[0] or type(error).__name__
    if isinstance(error.__cause__, exceptions.NoPermissionError):  # said to a new connection
        return refusal(error.__cause__)
    if is_final(error):
        advice = _ADVICE["WRONGPASS" if "WRONGPASS" in reason or "invalid" in reason else "NOAUTH"]
        return BrokerRefused(f"{masked(url)}: {advice}")
    if isinstance(error, exceptions.ConnectionError) and code_of(error) in _PASSES:
        error = refusal(error)  # said to a new connection, too
    if isinstance(error, Passing):
        return BrokerUnavailable(f"{masked(url)} cannot do this at the moment: {error}")
    if untrusted := re.search(r"certificate verify failed: ([^(]+\w)", f"{error} {error.__context__}"):
        return BrokerUnavailable(
            f"{masked(url)} has a certificate that is not trusted ({untrusted[1]}): name who signed it, "
            "as in ?ssl_ca_certs=/path/ca.pem"
        )
    return BrokerUnavailable(
        f"cannot reach {masked(url)} ({reason}): start Redis, set RQ_DLQ_URL, "
        "or drop the URL to use the embedded server"
    )


class readable:  # noqa: N801 - used as a function
    """A URL that redis-py cannot read becomes an error with an example."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError | TypeError | AttributeError):
            url = str(self._url)
            shown = masked(url)
            reason = f" ({error})" if shown == url else ""  # which may quote a part of the password
            message = (
                f"{shown!r} is not a Redis URL{reason}: use redis://host:6379/0, rediss://…, "
                "unix:///path/redis.sock or redis+sentinel://host1,host2:26379/MASTER/0"
            )
            raise ConfigurationError(message) from None
