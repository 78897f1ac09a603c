"""The row of a message in the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, cast

from rq_dlq.asyncio.queue import Queue
from rq_dlq.asyncio.results import SentForResult as Awaited
from rq_dlq.client.arguments import work_of
from rq_dlq.client.results import SentForResult
from rq_dlq.core.queues.queue import only_own
from rq_dlq.core.sending.packing import Addressed, asks_result, check_sent_as_is, packed
from rq_dlq.core.sending.send import send_options
from rq_dlq.errors import InvalidInput
from rq_dlq.values.observer import Sending
from rq_dlq.values.sent import Unsent

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.base import BrokerBase
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import Sent


class Common(TypedDict, total=False):
    """The options of `Queue.send` for all that is sent later."""

    delay: Duration | None
    ttl: Duration | None
    priority: int
    headers: Mapping[str, str] | None
    persistent: bool
    key: str | None
    dependency: str | None
    result: bool
    at: datetime | None
    expires_at: datetime | None


class OutboxSendOptions(Common, total=False):
    """The options of `Outbox.send`; `on_duplicate` is missing, since the relay sends later."""

    id: str | None


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A message as the outbox keeps it.

    Attributes:
        queue: the queue's name.
        id: the message's id.
        payload: headers and body, as Redis gets them.
        delay, ttl: as in `values/times.py`; durations count from the moment at which the relay sends it.
    """

    queue: str
    id: str
    payload: bytes
    delay: int
    ttl: int


def row_of(broker: BrokerBase, target: Any, body: Any, options: OutboxSendOptions) -> tuple[OutboxRow, Sent]:
    """The row of a message, and what its send returns; whatever `Queue.send` refuses is refused here.

    Raises:
        InvalidInput: an argument is not valid, or the body cannot be encoded.
    """
    message = _addressed(broker, target, body, options)
    queue = message.queue
    given = replace(message.options, result=asks_result(queue, message.options))  # its relay declares nothing
    only_own(queue, "send to")
    message_id = next(queue.client.ids.drawn()) if message.id is None else message.id
    sending = Sending(queue.name, message_id, given.headers, staged=True)
    with queue.client.observers.sending(sending):
        _, payload = packed(queue, message.body, message_id, given.carrying(sending.carried))
        sending.count = 1
    row = OutboxRow(queue.name, message_id, payload, given.delay, given.ttl)
    return row, _with_result(target, Unsent(message_id)) if given.result else Unsent(message_id)


def _with_result(target: Any, sent: Sent) -> Sent:
    """The id with a method that gets the result, in the colour of the queue or the task."""
    of_task = getattr(target, "_function", None)
    queue, codec = (target, None) if of_task is None else (target._queue, of_task.returned)
    made: Any = Awaited if isinstance(queue, Queue) else SentForResult
    return cast("Sent", made(sent, queue, codec))


def _addressed(broker: BrokerBase, target: Any, body: Any, options: OutboxSendOptions) -> Addressed:
    if unknown := sorted(options.keys() - OutboxSendOptions.__optional_keys__):
        raise InvalidInput(f"an outbox has no option {', '.join(unknown)}: see `Outbox.send`")
    given: dict[str, Any] = {**options}
    of_task = getattr(target, "_addressed", None)
    if of_task is None:
        core, message_id = work_of(target, broker), given.pop("id", None)
        return Addressed(core, body, message_id, send_options(**given))
    if given:
        raise InvalidInput("a task has its own options: outbox.send(session, task.options(…), arguments)")
    work_of(target._queue, broker)
    message: Addressed = of_task(body)
    if message.options.raises:
        raise InvalidInput(
            'an outbox cannot refuse known ids, since the relay sends later: leave out on_duplicate="raise"'
        )
    check_sent_as_is(message.options, "an outbox")
    return message
