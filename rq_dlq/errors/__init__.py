"""The tree of errors.

    RqDlqError
    ├── BrokerUnavailable        Redis cannot be reached, or did not answer in time
    │   └── Unconfirmed              the server has the messages, but too few replicas confirmed them
    ├── BrokerRefused            Redis answers, but refuses the call
    │   ├── QueueFull                the queue has no room: its `max_length`
    │   ├── CrossSlot                one step on queues that a cluster keeps on different nodes
    │   └── MissingRights            the Redis user lacks a right
    ├── DataLoss                 a checkpoint and its queue disagree about what was done
    ├── KnownId                  the queue already has a message with an id that must be new
    ├── LeaseLost                the token is stale: another consumer has the message, or it was removed
    ├── ResultError              the message ended without a result
    ├── ResultUnavailable        there is no result yet, or no longer
    ├── UpgradeRequired          a later version wrote data in a form that this version cannot read
    ├── UnprocessableMessage     the body cannot be decoded
    │   └── UnfitMessage             this program does not accept the message; another version may
    ├── InvalidInput             (also a ValueError) an argument is not valid
    │   ├── InvalidName              a queue name
    │   ├── InvalidMessage           an id, a header, a priority, a body that does not encode
    │   │   └── MessageTooLarge
    │   ├── InvalidDuration
    │   ├── PolicyError
    │   └── FilterError              a condition on messages that cannot be read
    └── ConfigurationError       an app, a setting or an extra is missing

    Poison, Redeliver            instructions that a handler raises; they are not errors of the queue

The text of an error says what to do next. Its page is the docstring of its class, which `rq-dlq error NAME`
prints with any installation. A note (PEP 678) names that command, since `str(error)` is compared and logged.
No text contains a password or a body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rq_dlq.errors.durations import read_duration
from rq_dlq.errors.guesses import answering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.errors.durations import Duration


class RqDlqError(Exception):
    """The base class of all errors of this package: catch it to catch all of them.

    Cause: an error has this class itself if a worker ended early, a redrive by rows of Spark was stopped, or
    an archive cannot be written. The text or the log says why.

    What to do: follow the text, which says what to do next.

    Attributes:
        page: the command that prints this text for the class of the error, "rq-dlq error LeaseLost". It is
            also in a note of the error, so a traceback ends with it.

    Examples:
        >>> try:
        ...     broker.queue("my orders")
        ... except RqDlqError as error:
        ...     print(type(error).__name__)
        InvalidName
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"more: {self.page}")

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # other arguments are only for pickle

    @property
    def page(self) -> str:
        """See the class. `str(error)` leaves it out, so that logs do not repeat it."""
        ours = next(kind for kind in type(self).__mro__ if kind.__module__ == __name__)
        return f"rq-dlq error {ours.__name__}"

    def add_note(self, note: str, /) -> None:
        """Add a note, before the one that names the page."""
        vars(self).setdefault("__notes__", []).insert(-1, note)


class BrokerUnavailable(RqDlqError):
    """Redis cannot be reached, or did not answer in time.

    Cause: the server is down, the URL is wrong, the network fails, or the server is busy for too long. The
    client repeats the call before it raises this error.

    What to do: start or repair the server; `rq-dlq doctor` says whether it can be reached. Then repeat the
    call: a send is safe to repeat under the same `id`. Workers wait for the server, and then continue.

    Attributes:
        indeterminate: the call may have been carried out; False: nothing was done.
        node: the address of the cluster node that does not answer; empty: unknown, or there is no cluster.

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

    Cause: the broker has `durability="replicated"`, and a replica is down, slow or cut off.

    What to do: repeat the call under the same ids, which is safe and asks the replicas again. `rq-dlq doctor
    --durability replicated` shows the replicas.

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
    """Redis answers, but refuses the call.

    Cause: the memory of the server is full, it is a replica, the password is wrong, or its settings do not
    keep the `durability` of the broker. The text has the reason.

    What to do: follow the text, then repeat the call. `rq-dlq doctor` checks the server and its settings.

    Attributes:
        indeterminate: an earlier try had no reply, so the call may have been carried out.

    Examples:
        >>> Broker(broker.url, durability="fsync").queues()
        Traceback (most recent call last):
        rq_dlq.errors.BrokerRefused: the server …
    """

    indeterminate = False


class QueueFull(BrokerRefused):
    """The queue has as many messages as its `max_length` allows, or no room for all that was sent together.

    Cause: more is sent than is handled. Messages that are ready, scheduled or leased count. A call of up to a
    thousand messages is refused as a whole, and so is a session or an ack that sends.

    What to do: send later, or let the caller wait; add workers; or raise the limit. A note on the error of
    `send_many` says how many messages were sent before it.

    Attributes:
        queue: the queue's name.
        count: how many messages it has.
        charge: False: an ack that sends was refused, so a handler that ends with this error is not charged.

    Examples:
        >>> small = broker.queue("small", max_length=1)
        >>> sent = small.send("a")
        >>> small.send("b")
        Traceback (most recent call last):
        rq_dlq.errors.QueueFull: small: full with 1 message, so nothing was sent. …
    """

    def __init__(self, message: str, queue: str = "", count: int = 0, *, charge: bool = True) -> None:
        super().__init__(message, queue, count)
        self.queue, self.count, self.charge = queue, count, charge


class CrossSlot(BrokerRefused):
    """One step concerns queues that the cluster keeps on different nodes; nothing was done.

    Cause: on a Redis Cluster a session, an ack that sends, a move or a redrive uses queues whose names have
    no common tag.

    What to do: give these queues names with a common tag, such as `{shop}.orders` and `{shop}.mails`.

    Examples:
        >>> try:
        ...     job = mails.dlq.redrive(all=True, to="orders")
        ... except CrossSlot:  # on a cluster: names with a common tag are on one node
        ...     print("{shop}.mails, {shop}.orders")
    """


class MissingRights(BrokerRefused):
    """The Redis user lacks a right.

    Cause: the ACL of the user does not grant a command or a key that the call needs. Rights are checked
    before the first change, so nothing was done.

    What to do: grant `rights` with ACL SETUSER, or set the line of a role: `rq-dlq acl ROLE` prints it.

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
    """A checkpoint and its queue disagree about what was done; continuing would skip messages.

    Cause: a query of Spark has an old copy of its checkpoint, Redis lost data that the checkpoint names, or a
    queue of the query was deleted.

    What to do: start the query with its newest checkpoint, or with a new one. If it has the newest one, and
    the data are lost, the option `failOnDataLoss=false` continues without them.
    """


class KnownId(RqDlqError):
    """The queue already has a message with an id that must be new; that message was not changed.

    Cause: `on_duplicate="raise"`, or an ack that sends, and this id was sent before; or `on_duplicate` would
    change that message, which has another key or dependency. The message may wait, be leased, or
    be a dead letter, its ack is remembered (`dedup_window`), or its result is kept.

    What to do: nothing, if it is the same message. `queue.explain(id)` says where it is. For another message
    use another id.

    Attributes:
        ids: these ids. The other messages of the call are in the queue; an ack that sends has sent none.
        charge: False: an ack that sends was refused, so a handler that ends with this error is not charged.

    Examples:
        >>> orders.send({"total": 9.5}, id="order-41", on_duplicate="raise")
        Traceback (most recent call last):
        rq_dlq.errors.KnownId: order-41: the queue has it already, dead or alive, …
    """

    def __init__(self, message: str, ids: Sequence[str] = (), *, charge: bool = True) -> None:
        super().__init__(message, tuple(ids))
        self.ids = tuple(ids)
        self.charge = charge


class LeaseLost(RqDlqError):
    """The token is stale: the message was redelivered, settled or removed in the meantime.

    Cause: the lease ended before the call, since the work took too long or the process was frozen; or the
    delivery was settled before; or an operator cancelled, moved or purged the message. A release or a nack
    whose reply was lost is repeated, and may find that another consumer has the message by then: it was done,
    but the state has only the newest holder, so the error is the same.

    What to do: nothing for this message. Nothing was changed by that call, and if the message is still there,
    another consumer has it or will get it: so the work must be safe to repeat. If it happens often, set a
    longer `lease`, or call `delivery.extend()` during the work, as workers do automatically.

    Examples:
        >>> (delivery,) = orders.claim()
        >>> settlement = delivery.ack()
        >>> delivery.ack()
        Traceback (most recent call last):
        rq_dlq.errors.LeaseLost: message order-41: this delivery was settled before, …
    """


End = Literal["dead", "expired", "discarded", "purged", "cancelled", "moved"]
"""How a message without a result ended. A dead or expired one may get a result after a redrive."""


class ResultError(RqDlqError):
    """The message ended without the requested result.

    Cause: the message died or expired, or it was discarded, purged, cancelled or moved: see `end`.

    What to do: `queue.explain(id)` shows a dead or expired message with its errors. Repair the cause, redrive
    the message, and ask again.

    Attributes:
        end: dead, expired, discarded (by the queue's strategy, or kept long enough), purged, cancelled, or
            moved to another queue.
        reason: why it died or expired: exhausted, poison, unprocessable or expired; empty: it did neither.
        cause: the class and text of the error of its last attempt; empty: there was none.
        birth: which message with this id it was (`Sent.birth`); None: version 0.1.0 recorded the end.

    Examples:
        >>> sent = orders.send({"total": 7.0}, id="order-42", result=True, priority=9)
        >>> (delivery,) = orders.claim()
        >>> settlement = delivery.poison("no address")
        >>> sent.result()
        Traceback (most recent call last):
        rq_dlq.errors.ResultError: message order-42 of 'orders' ended without a result, …
    """

    def __init__(
        self, message: str, end: End = "dead", reason: str = "", cause: str = "", birth: int | None = None
    ) -> None:
        super().__init__(message, end, reason, cause, birth)
        self.end: End = end
        self.reason = reason
        self.cause = cause
        self.birth = birth


Why = Literal["not done", "nobody asked", "gone"]
"""Why there is no result."""


class ResultUnavailable(RqDlqError):
    """There is no result yet, or it is no longer kept.

    Cause: the message is not done yet, it was sent without `result=True`, it was acked without a result, or
    the time for which its result was kept has passed. The text says which, as far as the queue knows.

    What to do: pass a longer `wait`, send with `result=True`, or keep results for longer (`results` of the
    queue).

    Attributes:
        why: "not done" (a longer `wait` may help), "nobody asked" (the message is in the queue, without
            `result=True`), or "gone" (there is no result, or none any more).

    Examples:
        >>> sent = orders.send({"total": 7.0}, id="order-42", result=True)
        >>> sent.result()
        Traceback (most recent call last):
        rq_dlq.errors.ResultUnavailable: message order-42 of 'orders' is not done yet: …
        >>> try:
        ...     orders.result("order-41")
        ... except ResultUnavailable as error:
        ...     print(error.why == "nobody asked")
        True
    """

    def __init__(self, message: str, why: Why = "gone") -> None:
        super().__init__(message, why)
        self.why: Why = why

    def __str__(self) -> str:
        return str(self.args[0])


class UpgradeRequired(RqDlqError):
    """A later version wrote the data in a form that this version cannot read; the data were not changed.

    Cause: programs with two versions of the package use the same queue or checkpoint, and this one is older.

    What to do: upgrade this program to `version` or later. Until then the data stay unchanged.

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

    Cause: the sender used another format or type, or the stored message is damaged.

    What to do: correct the program that sends or the one that reads. In a worker the message becomes a dead
    letter with the reason `unprocessable`: redrive it then, with `edit=` if its body has to change.

    Examples:
        >>> sent = broker.queue("raw", type=bytes).send(b"no JSON")
        >>> (message,) = broker.queue("raw", type=int).peek()
        >>> message.body
        Traceback (most recent call last):
        rq_dlq.errors.UnprocessableMessage: the body cannot be decoded as int: JSON is …
    """


class UnfitMessage(UnprocessableMessage):
    """This program can read the message, but does not accept its task, its arguments, its type or its size.

    Cause: the sender has another version of the program, or larger limits. Another worker may accept the
    message, so it waits for one. If there is none for ten minutes, it becomes a dead letter.

    What to do: start workers of the version that accepts it, or raise `max_message_bytes` for them. If the
    message is already dead, redrive it.

    Examples:
        >>> (message,) = broker.queue("orders", type=int).peek()
        >>> message.body
        Traceback (most recent call last):
        rq_dlq.errors.UnfitMessage: the body cannot be decoded as int: Expected `int`, got `object`
    """


class InvalidInput(RqDlqError, ValueError):
    """An argument is not valid; nothing was done.

    Cause: the program passed a value that the call cannot use. The text names the argument.

    What to do: pass what the text says. The same call would fail again.

    Examples:
        >>> mails.dlq.purge()
        Traceback (most recent call last):
        rq_dlq.errors.InvalidInput: purge without a condition would apply to every message, …
    """


class InvalidName(InvalidInput):
    """The name cannot be the name of a queue.

    Cause: the name is empty or too long, has characters that a name cannot have, or has a prefix with a
    meaning in another broker (`topic://`).

    What to do: choose a name as the text says.

    Examples:
        >>> broker.queue("my orders")
        Traceback (most recent call last):
        rq_dlq.errors.InvalidName: 'my orders' cannot name a queue: use letters, digits …
    """


class InvalidMessage(InvalidInput):
    """The id, a header, the priority or the body cannot be sent.

    Cause: an id, a key or a header is not a text or is too long, a priority is not 0 to 9, or a body is
    neither a JSON value, bytes, nor of the queue's type.

    What to do: correct the part that the text names, and send again; nothing was sent.

    Examples:
        >>> orders.send({"total": 1.0}, priority=12)
        Traceback (most recent call last):
        rq_dlq.errors.InvalidMessage: priority 12: use a whole number from 0 (last) to 9 (first)
    """


class MessageTooLarge(InvalidMessage):
    """The encoded message is larger than the broker's `max_message_bytes`.

    Cause: body and headers together are larger than the limit, 1 MiB by default.

    What to do: store the data elsewhere and send a reference, or pass a larger `max_message_bytes` to the
    brokers of senders and consumers.

    Examples:
        >>> orders.send("x" * 2_000_000)
        Traceback (most recent call last):
        rq_dlq.errors.MessageTooLarge: a message of 2,000,002 bytes is over the limit …
    """


class InvalidDuration(InvalidInput):
    """The value is not a duration, or is out of range.

    Cause: it is neither a number of seconds, nor a timedelta, nor text such as "1m30s"; or it is shorter or
    longer than the argument allows.

    What to do: pass one of these, in the range that the text names.

    Examples:
        >>> orders.send({"total": 1.0}, delay="soon")
        Traceback (most recent call last):
        rq_dlq.errors.InvalidDuration: delay: 'soon' is not a duration. Pass seconds or …
    """


class PolicyError(InvalidInput):
    """A policy is not valid, or contradicts itself.

    Cause: a setting is out of range, or two settings exclude each other. The text names them.

    What to do: correct the setting. `rq-dlq policy explain QUEUE` shows where each setting comes from.

    Examples:
        >>> RedeliveryPolicy(multiplier=0.5)
        Traceback (most recent call last):
        rq_dlq.errors.PolicyError: multiplier is 0.5. Pass a number, 1 or more
    """


class FilterError(InvalidInput):
    """A condition on messages cannot be read; the text says where, and what was expected.

    Cause: a name, an operator or a quote is wrong or missing at the column that the text names.

    What to do: correct it; `docs/conditions.md` has the language. In a shell put the condition into double
    quotes and its texts into single ones: `--where "tenant = 'a'"`.

    Examples:
        >>> orders.select("total >")
        Traceback (most recent call last):
        rq_dlq.errors.FilterError: the condition cannot be read (column 8, at its end): expected a name, …
    """


class ConfigurationError(RqDlqError):
    """An app, a setting or an optional dependency is missing.

    Cause: an extra is not installed, an app cannot be imported, `$RQ_DLQ_URL` or a setting of the broker is
    not valid, or a queue has no handler or two.

    What to do: install, set or correct what the text names, and start the program again.

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
        charge: True: the failure counts against the redelivery budget. False: no budget ends such failures;
            without a delay of a second or more each in a row waits longer: 1 s, 2 s, 4 s, at most 10 minutes.
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

    after: Duration | None = None  # a subclass may not call this `__init__`
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
        super().__init__(after)  # unpickling passes this, then restores the attributes
        self.after = after
        self.charge = charge
        self.pause_key = pause_key

    def __str__(self) -> str:
        return f"redeliver after {self.after}" if self.after is not None else "redeliver"
