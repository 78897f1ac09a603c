"""The tree of errors.

    RqDlqError
    ├── BrokerUnavailable        Redis cannot be reached, or did not answer in time
    │   └── Unconfirmed              the server has it, but too few replicas do
    ├── BrokerRefused            Redis answers, but does not do what was asked
    │   ├── CrossSlot                one step on queues that a cluster keeps on different nodes
    │   └── MissingRights            the Redis user lacks a right
    ├── DataLoss                 a checkpoint and its queue disagree about what was done
    ├── KnownId                  the queue has a message with an id that was to be new
    ├── LeaseLost                the token is stale: somebody else has the message, or it is gone
    ├── ResultError              the message ended without a result
    ├── ResultUnavailable        there is no result, not yet or not any more
    ├── UpgradeRequired          a later version wrote data in a form that this one cannot read
    ├── UnprocessableMessage     the body cannot be decoded
    │   └── UnfitMessage             it can, but this program does not take the message: another version may
    ├── InvalidInput             (also a ValueError) an argument makes no sense
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
    """Base of every error that this package raises.

    Examples:
        >>> try:
        ...     broker.queue("my orders")
        ... except RqDlqError as error:
        ...     print(type(error).__name__)
        InvalidName
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # more arguments are only for pickle


class BrokerUnavailable(RqDlqError):
    """Redis cannot be reached, or did not answer in time.

    Attributes:
        indeterminate: the call may have been carried out; False: nothing was done.
        node: the address of the node of a cluster that does not answer; empty: it does, or has no address.

    Examples:
        >>> try:
        ...     sent = orders.send({"total": 9.5}, id="order-42")
        ... except BrokerUnavailable as error:
        ...     print(error.indeterminate)  # True: perhaps it was sent; the same again is safe
    """

    indeterminate = True
    node = ""


class Unconfirmed(BrokerUnavailable):
    """The server has the messages, but too few replicas confirmed them: a failover may lose them.

    It is safe to repeat the call under the same ids.

    Attributes:
        ids: the ids of the messages; empty where a job was not confirmed.

    Examples:
        >>> try:
        ...     sent = orders.send({"total": 9.5}, id="order-42")
        ... except Unconfirmed as error:
        ...     print(error.ids)  # to send them again is safe
    """

    def __init__(self, message: str, ids: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(ids))
        self.ids = tuple(ids)


class BrokerRefused(RqDlqError):
    """Redis answers, but does not do what was asked.

    Attributes:
        indeterminate: an earlier try had no reply, so the call may have been carried out.

    Examples:
        >>> Broker(broker.url, durability="fsync").queues()
        Traceback (most recent call last):
        rq_dlq.errors.BrokerRefused: the server …
    """

    indeterminate = False


class CrossSlot(BrokerRefused):
    """One step concerns queues that the cluster keeps on different nodes; nothing was done.

    Examples:
        >>> try:
        ...     job = mails.dlq.redrive(all=True, to="orders")
        ... except CrossSlot:  # on a cluster: names with a common tag are on one node
        ...     print("{shop}.mails, {shop}.orders")
    """


class MissingRights(BrokerRefused):
    """The Redis user lacks a right.

    Args:
        message: what the user may not do, and what gives the right.
        rights: the missing rights as ACL SETUSER takes them: "+zadd", "~rq:{orders}:*".

    Examples:
        >>> try:
        ...     removed = orders.purge(all=True)
        ... except MissingRights as error:
        ...     print(error.rights)
    """

    def __init__(self, message: str, rights: tuple[str, ...] = ()) -> None:
        super().__init__(message, rights)
        self.rights = rights


class DataLoss(RqDlqError):
    """A checkpoint and its queue disagree about what was done; going on would skip messages."""


class KnownId(RqDlqError):
    """The queue has a message with an id that was to be new, in whatever state; it was left as it is.

    Attributes:
        ids: these ids. The other messages of the call, before or beside them, are in the queue.

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
"""How a message ended that has no result. One that is dead or expired may be redriven, and have one then."""


class ResultError(RqDlqError):
    """The message whose result was asked for ended without one.

    Attributes:
        end: dead, expired, discarded (by the queue's strategy, or kept long enough), purged, cancelled, or
            moved to another queue.
        reason: of one that died or expired: exhausted, poison, unprocessable or expired; else empty.
        cause: the error of its last attempt, its class and its text; empty: there was none.

    Examples:
        >>> sent = orders.send({"total": 7.0}, id="order-42", result=True, priority=9)
        >>> (delivery,) = orders.claim()
        >>> settlement = delivery.poison("no address")
        >>> sent.result()
        Traceback (most recent call last):
        rq_dlq.errors.ResultError: message order-42 of 'orders' ended without a result, …
    """

    def __init__(self, message: str, end: End = "dead", reason: str = "", cause: str = "") -> None:
        super().__init__(message, end, reason, cause)
        self.end: End = end
        self.reason = reason
        self.cause = cause


class ResultUnavailable(RqDlqError):
    """There is no result: the message is not done yet, nobody asked for a result, or it was kept long enough.

    The text says which of these it is, as far as the queue knows.

    Examples:
        >>> sent = orders.send({"total": 7.0}, id="order-42", result=True)
        >>> sent.result()
        Traceback (most recent call last):
        rq_dlq.errors.ResultUnavailable: message order-42 of 'orders' is not done yet: …
    """


class UpgradeRequired(RqDlqError):
    """A later version wrote the data in a form that this one cannot read; it was left alone.

    Attributes:
        version: the oldest version that can read it; empty: unknown.

    Examples:
        >>> try:
        ...     message = orders.peek(1)
        ... except UpgradeRequired as error:
        ...     print(error.version)  # install this one
    """

    def __init__(self, message: str, version: str = "") -> None:
        super().__init__(message, version)
        self.version = version


class UnprocessableMessage(RqDlqError):
    """The body cannot be decoded as the queue's type, or no handler knows the message.

    Examples:
        >>> sent = broker.queue("raw", type=bytes).send(b"no JSON")
        >>> (message,) = broker.queue("raw", type=int).peek()
        >>> message.body
        Traceback (most recent call last):
        rq_dlq.errors.UnprocessableMessage: the body cannot be decoded as int: JSON is …
    """


class UnfitMessage(UnprocessableMessage):
    """The message can be read, and this program does not take it: its task, its arguments, its type or size.

    Another version of the program may take it.

    Examples:
        >>> (message,) = broker.queue("orders", type=int).peek()
        >>> message.body
        Traceback (most recent call last):
        rq_dlq.errors.UnfitMessage: the body cannot be decoded as int: Expected `int`, got `object`
    """


class InvalidInput(RqDlqError, ValueError):
    """An argument makes no sense; nothing was done.

    Examples:
        >>> mails.dlq.purge()
        Traceback (most recent call last):
        rq_dlq.errors.InvalidInput: purge without a condition would take every message, …
    """


class InvalidName(InvalidInput):
    """The name cannot be the name of a queue.

    Examples:
        >>> broker.queue("my orders")
        Traceback (most recent call last):
        rq_dlq.errors.InvalidName: 'my orders' cannot name a queue: use letters, digits …
    """


class InvalidMessage(InvalidInput):
    """The id, a header, the priority or the body cannot be sent.

    Examples:
        >>> orders.send({"total": 1.0}, priority=12)
        Traceback (most recent call last):
        rq_dlq.errors.InvalidMessage: priority 12: use a whole number from 0 (last) to 9 (first)
    """


class MessageTooLarge(InvalidMessage):
    """The encoded message is larger than the broker's `max_message_bytes`.

    Examples:
        >>> orders.send("x" * 2_000_000)
        Traceback (most recent call last):
        rq_dlq.errors.MessageTooLarge: a message of 2,000,002 bytes is over the limit …
    """


class InvalidDuration(InvalidInput):
    """The value is neither a number of seconds, nor a timedelta, nor text such as "1m30s".

    Examples:
        >>> orders.send({"total": 1.0}, delay="soon")
        Traceback (most recent call last):
        rq_dlq.errors.InvalidDuration: delay: 'soon' is not a duration. Pass seconds or …
    """


class PolicyError(InvalidInput):
    """A policy makes no sense, or contradicts itself.

    Examples:
        >>> RedeliveryPolicy(multiplier=0.5)
        Traceback (most recent call last):
        rq_dlq.errors.PolicyError: multiplier is 0.5. Pass a number, 1 or more
    """


class FilterError(InvalidInput):
    """A condition on messages cannot be read; the text says where, and what was expected.

    Examples:
        >>> orders.select("total >")
        Traceback (most recent call last):
        rq_dlq.errors.FilterError: the condition cannot be read (column 8, at its end): expected a name, …
    """


class ConfigurationError(RqDlqError):
    """An app, a setting or an optional dependency is missing.

    Examples:
        >>> Broker("http://localhost:6379")
        Traceback (most recent call last):
        rq_dlq.errors.ConfigurationError: 'http://localhost:6379' is not a Redis URL …
    """


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
        charge: whether the failure counts against the redelivery budget.
        pause_key: pause the key of the message as long, as for a tenant whose requests are refused for a
            while: no message with this key is delivered, and nobody is charged. It wants `after`.

    Raises:
        InvalidDuration: `after` is not a duration.
        InvalidInput: `pause_key` without `after`.

    Examples:
        >>> raise Redeliver(after="2m", charge=False)  # in a handler
        Traceback (most recent call last):
        rq_dlq.errors.Redeliver: redeliver after 2m
    """

    after: Duration | None = None  # for a subclass that does not call this `__init__`
    charge: bool = True
    pause_key: bool = False

    @answering
    def __init__(
        self, after: Duration | None = None, *, charge: bool = True, pause_key: bool = False
    ) -> None:
        if pause_key and after is None:
            raise InvalidInput('pause_key=True: say how long, after="60s"')
        if after is not None:
            try:
                read_duration(after, "after")
            except ValueError as error:
                raise InvalidDuration(str(error)) from None
        super().__init__(after)  # unpickled, it is called with these, and gets its attributes afterwards
        self.after = after
        self.charge = charge
        self.pause_key = pause_key

    def __str__(self) -> str:
        return f"redeliver after {self.after}" if self.after is not None else "redeliver"
