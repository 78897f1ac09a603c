"""The tree of errors.

    RqDlqError
    ├── BrokerUnavailable        Redis cannot be reached, or did not answer in time
    │   └── Unconfirmed              it is taken in, but too few replicas have it
    ├── BrokerRefused            Redis answers, but must not or will not do this
    │   ├── CrossSlot                queues of different cluster nodes in one step
    │   └── MissingRights            the Redis user may not do what this takes
    ├── DataLoss                 a checkpoint and its queue disagree on what was done
    ├── LeaseLost                the delivery is no longer ours to settle
    ├── UnprocessableMessage     a body that cannot be decoded, or that no handler knows
    ├── InvalidInput             (also a ValueError) what was passed in makes no sense
    │   ├── InvalidName              a queue name
    │   ├── InvalidMessage           an id, a header, a priority, a body that does not encode
    │   │   └── MessageTooLarge
    │   ├── InvalidDuration
    │   ├── PolicyError
    │   └── FilterError              a filter on messages that cannot be read
    └── ConfigurationError       an app, a setting or an extra that is not there

    Poison, Redeliver            not errors of ours: what a handler raises to say what is to happen

Every message is a sentence that says what to do next; none carries a password or a body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


class RqDlqError(Exception):
    """Base of every error that this package raises."""


class BrokerUnavailable(RqDlqError):
    """Redis cannot be reached, or did not answer in time."""


class Unconfirmed(BrokerUnavailable):
    """It is taken in, but too few replicas have confirmed it, so a failover may lose it.

    To do it again, under the same ids, is safe.

    Attributes:
        ids: of the messages; empty where it is about a job.
    """

    def __init__(self, message: str, ids: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(ids))
        self.ids = tuple(ids)

    def __str__(self) -> str:
        return str(self.args[0])


class BrokerRefused(RqDlqError):
    """Redis answers, but will not (or must not) do what was asked."""


class CrossSlot(BrokerRefused):
    """Several queues in one step that a cluster keeps on different nodes; nothing was done."""


class MissingRights(BrokerRefused):
    """The Redis user may not do what this takes.

    Args:
        rights: those that are lacking, as ACL SETUSER takes them: "+zadd", "~rq:{orders}:*".
    """

    def __init__(self, message: str, rights: tuple[str, ...] = ()) -> None:
        super().__init__(message, rights)
        self.rights = rights

    def __str__(self) -> str:
        return str(self.args[0])


class DataLoss(RqDlqError):
    """A checkpoint and its queue disagree on what was done: going on would leave messages out."""


class LeaseLost(RqDlqError):
    """The token is stale: the message was redelivered, settled or removed meanwhile."""


class UnprocessableMessage(RqDlqError):
    """The body cannot be decoded as the queue's type, or no handler knows the message."""


class InvalidInput(RqDlqError, ValueError):
    """A value passed in makes no sense; nothing was done."""


class InvalidName(InvalidInput):
    """A queue name that cannot be one."""


class InvalidMessage(InvalidInput):
    """An id, header, priority or body that cannot be sent."""


class MessageTooLarge(InvalidMessage):
    """The encoded message is over the broker's `max_message_bytes`."""


class InvalidDuration(InvalidInput):
    """Neither seconds, nor a timedelta, nor text such as "1m30s"."""


class PolicyError(InvalidInput):
    """A policy that contradicts itself."""


class FilterError(InvalidInput):
    """A filter on messages that cannot be read; it says where, and what was expected."""


class ConfigurationError(RqDlqError):
    """An app, a setting or an optional dependency is not there."""


class Poison(Exception):
    """Raise it in a handler: the message goes straight to the dead-letter queue."""


class Redeliver(Exception):
    """Raise it in a handler: deliver again, after this delay instead of the policy's.

    Args:
        after: seconds, a timedelta or text such as "2m"; None: the policy's own delay.
        charge: False leaves the redelivery budget untouched.
    """

    def __init__(self, after: float | str | timedelta | None = None, *, charge: bool = True) -> None:
        super().__init__(after, charge)
        self.after = after
        self.charge = charge

    def __str__(self) -> str:
        return f"redeliver after {self.after}" if self.after is not None else "redeliver"
