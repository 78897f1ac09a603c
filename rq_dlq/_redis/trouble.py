"""How long a call is repeated while Redis does not answer, and what to tell a user in the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tenacity
from redis import exceptions

from rq_dlq.errors import BrokerRefused, BrokerUnavailable, ConfigurationError, CrossSlot

if TYPE_CHECKING:
    import threading

_PASSWORD = re.compile(r"(//[^:/@]*):.*@|(password=)[^&]*")

# What a server says of a state that passes: restarting, failing over, busy with a long script.
_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "UNBLOCKED")
_ADVICE = {
    "OOM": "Redis is out of memory: raise maxmemory, or drain or purge queues (acks still work)",
    "NOPERM": "the Redis user lacks a right: grant it the command or key that the server names",
    "NOAUTH": "the server wants a password: put it into the URL, redis://user:password@host",
    "WRONGPASS": "user or password is wrong: correct the URL",
    "MISCONF": "Redis cannot write to disk and takes no changes: see the server's log and free the disk",
    "NOREPLICAS": "too few replicas are online for the server to take changes",
    "WRONGTYPE": "a key of the queue holds something else: use another namespace, or remove the key",
}

_CROSS_SLOT = (
    "the queues are on different nodes of the cluster, so nothing can be done in both at once: "
    "give them one hash tag, as in {shop}.orders and {shop}.invoices"
)

# The codes that redis-py drops from the text, since it has a class for them.
_CODES = {exceptions.OutOfMemoryError: "OOM", exceptions.NoPermissionError: "NOPERM"}


class Passing(Exception):  # noqa: N818 - never leaves this room
    """The server answered that it cannot do it now."""


TRANSIENT = (
    exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse, OSError, Passing
)  # fmt: skip
FINAL = (exceptions.AuthenticationError, exceptions.AuthorizationError)


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
                lambda error: isinstance(error, TRANSIENT) and not isinstance(error, FINAL)
            ),
            "reraise": True,
        }


FAIL_FAST = Retries()


def masked(url: str) -> str:
    """The URL without its password."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]}***", url)


def refusal(error: Exception) -> Exception:
    """The error for what a server said; `Passing` where it is worth trying again."""
    text = str(error)
    if isinstance(error, exceptions.ClusterCrossSlotError) or text.startswith("CROSSSLOT"):
        return CrossSlot(_CROSS_SLOT)
    if isinstance(error, exceptions.BusyLoadingError | exceptions.ReadOnlyError) or text.startswith(_PASSING):
        return Passing(text)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    if code is None:
        # Older servers wrap what a command in a script said: "ERR Error running script …: -OOM …"
        code = next((code for code in _ADVICE if re.search(rf"(^|[ -]){code}\b", text)), None)
    if code is None:
        return BrokerRefused(f"the server refused: {text[:300]}")
    return BrokerRefused(f"{_ADVICE[code]} (the server said: {text[:200]})")


def unavailable(url: str, error: BaseException) -> Exception:
    """The error for a user."""
    reason = str(error).partition(". ")[0] or type(error).__name__
    if isinstance(error, FINAL):
        advice = _ADVICE["WRONGPASS" if "WRONGPASS" in reason or "invalid" in reason else "NOAUTH"]
        return BrokerRefused(f"{masked(url)}: {advice}")
    if isinstance(error, Passing):
        return BrokerUnavailable(f"{masked(url)} cannot do this at the moment: {reason}")
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
                f"{shown!r} is not a Redis URL{reason}: "
                "use redis://host:6379/0, rediss://… or unix:///path/redis.sock"
            )
            raise ConfigurationError(message) from None
