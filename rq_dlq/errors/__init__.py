"""The tree of errors.

    RqDlqError
    ├── BrokerUnavailable        Redis cannot be reached, or did not answer in time
    │   └── Unconfirmed              the server has the messages, but too few replicas confirmed them
    ├── BrokerRefused            Redis answers, but refuses the call
    │   ├── CrossSlot                one step on queues that a cluster keeps on different nodes
    │   └── MissingRights            the Redis user lacks a right
    ├── DataLoss                 a checkpoint and its queue disagree about what was done
    ├── KnownId                  the queue already has a message with an id that must be new
    ├── LeaseLost                the token is stale: another consumer has the message, or it was removed
    ├── ResultError              the message ended without a result
    ├── ResultUnavailable        there is no result yet, or no longer
    ├── UpgradeRequired          a later version wrote data in a form that this version cannot read
    ├── UnprocessableMessage     the body cannot be decoded
    │   └── UnfitMessage             it can, but this program does not accept the message; another version may
    ├── InvalidInput             (also a ValueError) an argument is not valid
    │   ├── InvalidName              a queue name
    │   ├── InvalidMessage           an id, a header, a priority, a body that does not encode
    │   │   └── MessageTooLarge
    │   ├── InvalidDuration
    │   ├── PolicyError
    │   └── FilterError              a condition on messages that cannot be read
    └── ConfigurationError       an app, a setting or an extra is missing

    Poison, Redeliver            instructions that a handler raises; they are not errors of the queue

Every message says what to do next. None contains a password or a body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rq_dlq.errors.durations import read_duration
from rq_dlq.errors.guesses import answering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.errors.durations import Duration


class RqDlqError(Exception):
    """Base of every error that this package raises."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # further arguments are for pickle only


class BrokerUnavailable(RqDlqError):
    """Redis cannot be reached, or did not answer in time.

    Attributes:
        indeterminate: the call may have been carried out; False: nothing was done.
        node: the address of the cluster node that does not answer; empty: it answers, or has no address.
    """

    indeterminate = True
    node = ""


class Unconfirmed(BrokerUnavailable):
    """The server has the messages, but too few replicas confirmed them: a failover may lose them.

    It is safe to repeat the call under the same ids.

    Attributes:
        ids: the ids of the messages; empty if a job was not confirmed.
    """

    def __init__(self, message: str, ids: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(ids))
        self.ids = tuple(ids)


class BrokerRefused(RqDlqError):
    """Redis answers, but refuses the call.

    Attributes:
        indeterminate: an earlier attempt had no reply, so the call may have been carried out.
    """

    indeterminate = False


class CrossSlot(BrokerRefused):
    """One step concerns queues that the cluster keeps on different nodes; nothing was done."""


class MissingRights(BrokerRefused):
    """The Redis user lacks a right.

    Args:
        message: the refused operation, and how to grant the right.
        rights: the missing rights as ACL SETUSER takes them: "+zadd", "~rq:{orders}:*".
    """

    def __init__(self, message: str, rights: tuple[str, ...] = ()) -> None:
        super().__init__(message, rights)
        self.rights = rights


class DataLoss(RqDlqError):
    """A checkpoint and its queue disagree about the work done; continuing would skip messages."""


class KnownId(RqDlqError):
    """The queue already has a message with an id that must be new, in any state; it was not changed.

    Attributes:
        ids: these ids. The other messages of the call, up to the same thousand, are in the queue.

    Examples:
        >>> orders.send({"total": 9.5}, id="order-41", new=True)
        Traceback (most recent call last):
        rq_dlq.errors.KnownId: order-41: the queue has it already, dead or alive, …
    """

    def __init__(self, message: str, ids: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(ids))
        self.ids = tuple(ids)


class LeaseLost(RqDlqError):
    """The token is stale: the message was redelivered, settled or removed in the meantime.

    Examples:
        >>> (delivery,) = orders.claim()
        >>> settlement = delivery.ack()
        >>> delivery.ack()
        Traceback (most recent call last):
        rq_dlq.errors.LeaseLost: message order-41: this delivery was settled before, …
    """


End = Literal["dead", "expired", "discarded", "purged", "cancelled", "moved"]
"""How a message without a result ended. A dead or expired message may have one after a redrive."""


class ResultError(RqDlqError):
    """The message ended without the requested result.

    Attributes:
        end: dead, expired, discarded (by the queue's strategy, or after its retention), purged, cancelled, or
            moved to another queue.
        reason: for a dead or expired message: exhausted, poison, unprocessable or expired; otherwise empty.
        cause: the error of its last attempt, class and text; empty: there was no error.
    """

    def __init__(self, message: str, end: End = "dead", reason: str = "", cause: str = "") -> None:
        super().__init__(message, end, reason, cause)
        self.end: End = end
        self.reason = reason
        self.cause = cause


class ResultUnavailable(RqDlqError):
    """There is no result: the message is not done yet, none was requested, or it is no longer kept.

    The text says which of these applies, as far as the queue knows.
    """


class UpgradeRequired(RqDlqError):
    """A later version wrote the data in a form that this version cannot read; it was not changed.

    Attributes:
        version: the oldest version that can read it; empty: unknown.
    """

    def __init__(self, message: str, version: str = "") -> None:
        super().__init__(message, version)
        self.version = version


class UnprocessableMessage(RqDlqError):
    """The body cannot be decoded as the queue's type, or no handler accepts the message."""


class UnfitMessage(UnprocessableMessage):
    """The message is readable, but this program does not accept its task, arguments, type or size.

    Another version of the program might accept it.
    """


class InvalidInput(RqDlqError, ValueError):
    """An argument is not valid; nothing was done."""


class InvalidName(InvalidInput):
    """The name cannot be the name of a queue."""


class InvalidMessage(InvalidInput):
    """The id, a header, the priority or the body cannot be sent."""


class MessageTooLarge(InvalidMessage):
    """The encoded message is larger than the broker's `max_message_bytes`."""


class InvalidDuration(InvalidInput):
    """The value is neither a number of seconds, nor a timedelta, nor text such as "1m30s"."""


class PolicyError(InvalidInput):
    """A policy is not valid, or contradicts itself."""


class FilterError(InvalidInput):
    """A condition on messages cannot be read; the text says where, and what was expected.

    Examples:
        >>> orders.select("total >")
        Traceback (most recent call last):
        rq_dlq.errors.FilterError: the condition cannot be read (column 8, at its end): expected a name, …
    """


class ConfigurationError(RqDlqError):
    """An app, a setting or an optional dependency is missing."""


class Poison(Exception):
    """Raise it in a handler to send the message straight to the dead-letter queue.

    Examples:
        >>> raise Poison("no address")  # in a handler
        Traceback (most recent call last):
        rq_dlq.errors.Poison: no address
    """


class Redeliver(Exception):
    """Raise it in a handler to have the message delivered again.

    Args:
        after: the delay, as seconds, a timedelta or text such as "2m"; None: the delay of the policy.
        charge: True: the failure counts against the redelivery budget.
        pause_key: pause the message's key for the same time, for example for a tenant whose requests are
            refused for a while: no message with this key is delivered or charged. It requires `after`.

    Raises:
        InvalidDuration: `after` is not a duration.
        InvalidInput: `pause_key` was passed without `after`.

    Examples:
        >>> raise Redeliver(after="2m", charge=False)  # in a handler
        Traceback (most recent call last):
        rq_dlq.errors.Redeliver: redeliver after 2m
    """

    after: Duration | None = None  # for subclasses that do not call this `__init__`
    charge: bool = True
    pause_key: bool = False

    @answering
    def __init__(
        self, after: Duration | None = None, *, charge: bool = True, pause_key: bool = False
    ) -> None:
        if pause_key and after is None:
            raise InvalidInput('pause_key=True needs a duration: pass after="60s", for example')
        if after is not None:
            try:
                read_duration(after, "after")
            except ValueError as error:
                raise InvalidDuration(str(error)) from None
        super().__init__(after)  # unpickling calls it with these, then restores the attributes
        self.after = after
        self.charge = charge
        self.pause_key = pause_key

    def __str__(self) -> str:
        return f"redeliver after {self.after}" if self.after is not None else "redeliver"
